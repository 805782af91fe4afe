package release

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"demo.welcome.domain/welcome-operator/internal/guard"
	"demo.welcome.domain/welcome-operator/internal/object"
)

// An error that quotes much is cut, and stays what it was.
func TestBrief(t *testing.T) {
	short := errors.New("short")
	if brief(nil) != nil || !errors.Is(brief(short), short) {
		t.Error("a short error is another one")
	}
	much := errors.New("at first: " + strings.Repeat("€", maxError) + ": at last")
	for _, err := range []error{much, fmt.Errorf("it: %w", notAllowed{much}), fmt.Errorf("it: %w", noPlace{much}), fmt.Errorf("it: %w", &guard.Unchangeable{Err: much, Objects: []object.Child{{Name: "hello"}, {Name: "other"}}}), fmt.Errorf("it: %w", apierrors.NewInvalid(schema.GroupKind{Kind: "Service"}, "hello",
		field.ErrorList{field.Invalid(field.NewPath("spec"), strings.Repeat("x", maxError), "no")}))} {
		got := brief(err)
		if text := got.Error(); len(text) > maxError+10 || text != strings.ToValidUTF8(text, "") || text[:9] != err.Error()[:9] || text[len(text)-4:] != err.Error()[len(err.Error())-4:] {
			t.Errorf("%.100q is %d bytes: %.100q", err, len(text), text)
		}
		if errors.As(got, &notAllowed{}) != errors.As(err, &notAllowed{}) || errors.As(got, &noPlace{}) != errors.As(err, &noPlace{}) || refusesField(got) != refusesField(err) ||
			!reflect.DeepEqual(guard.Blocking(got), guard.Blocking(err)) {
			t.Errorf("%.100q is something else", got)
		}
	}
}
