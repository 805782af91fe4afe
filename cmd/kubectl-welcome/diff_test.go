package main

import (
	"context"
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"demo.welcome.domain/welcome-operator/internal/release"
)

// A change that would be refused is told apart from one that cannot be known now, or that the caller may not ask about.
func TestFail(t *testing.T) {
	group := schema.GroupResource{Resource: "welcomes"}
	for name, c := range map[string]struct {
		err                      error
		refused, unknown, failed bool
	}{
		"invalid":                {err: apierrors.NewInvalid(schema.GroupKind{Kind: "Welcome"}, "hello", nil), refused: true},
		"denied by a webhook":    {err: apierrors.NewForbidden(group, "hello", errors.New("it is full")), refused: true},
		"the chart fails":        {err: errors.New("execution error"), refused: true},
		"no right":               {err: apierrors.NewForbidden(group, "hello", errors.New(`User "a" cannot patch resource`)), unknown: true},
		"a webhook is away":      {err: apierrors.NewInternalError(errors.New("failed calling webhook")), unknown: true},
		"503":                    {err: apierrors.NewServiceUnavailable("away"), unknown: true},
		"429":                    {err: apierrors.NewTooManyRequests("busy", 1), unknown: true},
		"504":                    {err: apierrors.NewTimeoutError("slow", 1), unknown: true},
		"500, ask again":         {err: apierrors.NewServerTimeout(group, "patch", 1), unknown: true},
		"in an action":           {err: release.ErrInTheMiddle, unknown: true},
		"no answer":              {err: context.DeadlineExceeded, failed: true},
		"it would change things": {err: errNoDryRun, failed: true},
	} {
		r := result{name: objectOf("Welcome", "hello", map[string]any{})}
		r.fail(fmt.Errorf("ask: %w", c.err))
		if r.refused != nil != c.refused || r.unknown != nil != c.unknown || r.failed != nil != c.failed {
			t.Errorf("%s: refused %v, unknown %v, failed %v", name, r.refused, r.unknown, r.failed)
		}
	}
}
