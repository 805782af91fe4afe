package release

import (
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What overrides make does not change from one reconcile to the next: of two of which one is in the other, the inner one counts.
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
