package release

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What overrides make does not change from one reconcile to the next: of two of which one is in the other,
// the inner one counts.
func TestOverridesOfWhichOneIsInTheOther(t *testing.T) {
	for range 50 {
		values := map[string]any{}
		if err := Pin(&metav1.ObjectMeta{}, values, map[string]string{"hosts": "{a,b}", "hosts[1]": "c"}); err != nil {
			t.Fatal(err)
		}
		if want := map[string]any{"hosts": []any{"a", "c"}}; !reflect.DeepEqual(values, want) {
			t.Fatalf("%v, want %v", values, want)
		}
	}
}

// Of two that can't both be, both are named.
func TestOverridesThatExcludeEachOther(t *testing.T) {
	for outer, inner := range map[string]string{"a": "a.b", "a.b": "a.b[0]"} {
		for _, value := range []string{"null", "", "text"} {
			err := Pin(&metav1.ObjectMeta{}, map[string]any{}, map[string]string{outer: value, inner: "x"})
			if want := fmt.Sprintf("overrideValues, %s: it is in %s, which is pinned to %q", inner, outer, value); err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%v, want %s", err, want)
			}
		}
	}
}
