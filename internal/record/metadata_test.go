package record

import (
	"encoding/json"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/release"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Anybody can put the operator's label on a ConfigMap, anywhere.
func TestSlimKeepsOnlyWhatTheOperatorWrites(t *testing.T) {
	bulk := strings.Repeat("x", 255<<10)
	for name, forge := range map[string]func(*corev1.ConfigMap){
		"another name":            func(c *corev1.ConfigMap) { c.Name = "bulk" },
		"no owner":                func(c *corev1.ConfigMap) { c.OwnerReferences = nil },
		"an owner of a long UID":  func(c *corev1.ConfigMap) { c.OwnerReferences[0].UID = types.UID(bulk) },
		"an owner of a long name": func(c *corev1.ConfigMap) { c.OwnerReferences[0].Name = bulk },
		"others' annotations":     func(c *corev1.ConfigMap) { c.Annotations = map[string]string{"a": bulk} },
		"the operator's annotations": func(c *corev1.ConfigMap) {
			c.Annotations[inputsAnnotation], c.Annotations[lookupsAnnotation] = bulk, bulk
		},
		"finalizers, labels, data": func(c *corev1.ConfigMap) { c.Finalizers, c.Labels["a"], c.Data["release"] = []string{bulk}, bulk, bulk },
	} {
		t.Run(name, func(t *testing.T) {
			forged := recordOf(t, &release.Release{})
			forge(forged)
			slim, err := Slim(forged)
			if err != nil {
				t.Fatal(err)
			}
			if text, err := json.Marshal(slim); err != nil || len(text) > 1024 {
				t.Errorf("%d bytes are kept: %v", len(text), err)
			}
		})
	}
}

func TestSlimKeepsWhatIsReadOfARecord(t *testing.T) {
	record := recordOf(t, &release.Release{})
	record.ResourceVersion, record.CreationTimestamp = "5", metav1.Now()
	record.Annotations[inputsAnnotation] = strings.Repeat("0", 32)
	record.Annotations[operatorAnnotation] = strings.Repeat("n", 63) + "/" + strings.Repeat("l", 253) // a namespace, and a lease
	want := parseRecord(record, 3)
	for range 2 { // a resync does it again
		kept, err := Slim(record)
		if err != nil {
			t.Fatal(err)
		}
		record = kept.(*corev1.ConfigMap)
		got := parseRecord(record, 3)
		if got.Proof() != want.Proof() || !got.Created.Equal(want.Created) || record.ResourceVersion != "5" || !metav1.IsControlledBy(record, owner()) {
			t.Errorf("got %+v of %+v, want %+v", got, record, want)
		}
	}
}

// Whatever is used of the metadata is proven.
func TestProof(t *testing.T) {
	proofs := map[string]string{}
	for name, change := range map[string]func(*corev1.ConfigMap){
		"nothing": func(*corev1.ConfigMap) {},
		"status":  func(c *corev1.ConfigMap) { c.Labels["status"] = "failed" },
		"inputs":  func(c *corev1.ConfigMap) { c.Annotations[inputsAnnotation] = "other" },
	} {
		record := recordOf(t, &release.Release{})
		change(record)
		proof := parseRecord(record, 3).Proof()
		if len(proof) != 64 {
			t.Errorf("%s: %q is no full SHA-256", name, proof)
		}
		if other, same := proofs[proof]; same {
			t.Errorf("%s and %s have the same proof", name, other)
		}
		proofs[proof] = name
	}
	if a, b := recordOf(t, &release.Release{}), recordOf(t, &release.Release{}); parseRecord(a, 3).Proof() == parseRecord(b, 4).Proof() {
		t.Error("two revisions have the same proof")
	}
}
