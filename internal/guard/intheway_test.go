package guard

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// Who finds an object in the way is told each way that there is to have it taken over, and none that there is not.
func TestAdviceOnWhatIsInTheWay(t *testing.T) {
	const adopt, mark = "kubectl welcome adopt", "mark it, and it is taken over: "
	theirs := []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "theirs", UID: "2"}}
	controlled := []metav1.OwnerReference{*metav1.NewControllerRef(&metav1.ObjectMeta{Name: "theirs", UID: "2"}, schema.GroupVersionKind{Version: "v1", Kind: "Role"})}
	now := metav1.Now()
	for name, c := range map[string]struct {
		change func(live *unstructured.Unstructured)
		says   string
		never  string
	}{
		"nobody's":      {func(*unstructured.Unstructured) {}, adopt, "it is owned"},
		"from a backup": {func(*unstructured.Unstructured) {}, mark + "label", "it is owned"},
		"given to another": {func(live *unstructured.Unstructured) {
			live.SetAnnotations(map[string]string{object.AdoptFor: "Welcome.example.com/here/other"})
		}, "names Welcome.example.com", mark},
		"controlled": {func(live *unstructured.Unstructured) { live.SetOwnerReferences(controlled) }, `but by Role "theirs"`, "taken over"},
		"owned":      {func(live *unstructured.Unstructured) { live.SetOwnerReferences(theirs) }, "it is owned by ConfigMap theirs", "it has no annotation"},
		"owned, but not controlled": {func(live *unstructured.Unstructured) {
			live.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Welcome", Name: "hello", UID: owner().GetUID()}})
		}, "lacks controller: true: delete or rename", "but by"},
		"owned, but not controlled, from a backup": {func(live *unstructured.Unstructured) {
			live.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Welcome", Name: "hello", UID: owner().GetUID()}})
		}, mark + "label", "but by"},
		"controlled by another": {func(live *unstructured.Unstructured) {
			live.SetOwnerReferences(append(controlled, metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Welcome", Name: "hello", UID: owner().GetUID()}))
		}, `but by Role "theirs": delete or rename`, "controller: true"},
		"deleted": {func(live *unstructured.Unstructured) { live.SetDeletionTimestamp(&now) }, "it is being deleted", "taken over"},
	} {
		live := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"namespace": "here", "name": "it"}}}
		c.change(live)
		g := &Guard{owner: owner(), plan: Plan{Allow: object.Allow{Adopt: true}, Begins: true}}
		if err := g.checkOwner(info("here"), live); err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), c.never) || !object.IsInTheWay(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
