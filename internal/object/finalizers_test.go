package object

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// What a chart says of finalizers is brought about and watched over, and those of others are neither touched nor looked at.
func TestFinalizers(t *testing.T) {
	with := func(deletionTimestamp any, finalizers ...string) *unstructured.Unstructured {
		config := parse(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: x}, data: {a: '1'}}")
		config.SetFinalizers(finalizers)
		if deletionTimestamp != nil {
			config.Object["metadata"].(map[string]any)["deletionTimestamp"] = deletionTimestamp
		}
		return config
	}
	for name, c := range map[string]struct {
		previous, live, desired, want []string
		deleted                       any
	}{
		"none":                            {},
		"it is added":                     {nil, []string{"theirs"}, []string{"ours"}, []string{"theirs", "ours"}, nil},
		"it was taken off":                {[]string{"ours"}, []string{"theirs"}, []string{"ours"}, []string{"theirs", "ours"}, nil},
		"it is dropped":                   {[]string{"ours"}, []string{"ours", "theirs"}, nil, []string{"theirs"}, nil},
		"the last one is dropped":         {[]string{"ours"}, []string{"ours"}, nil, nil, nil},
		"another one takes its place":     {[]string{"a"}, []string{"theirs", "a"}, []string{"b"}, []string{"theirs", "b"}, nil},
		"nothing proves that it was ours": {nil, []string{"ours"}, nil, []string{"ours"}, nil},
		"their order is left to others":   {[]string{"a", "b"}, []string{"b", "theirs", "a"}, []string{"a", "b"}, []string{"b", "theirs", "a"}, nil},
		"what is deleted gets none":       {[]string{"ours"}, []string{"theirs"}, []string{"ours"}, []string{"theirs"}, "2026-01-01T00:00:00Z"},
		"what is deleted loses it":        {[]string{"ours"}, []string{"ours", "theirs"}, nil, []string{"theirs"}, "2026-01-01T00:00:00Z"},
		"Kubernetes' own, of a deletion":  {[]string{"ours"}, []string{"foregroundDeletion", "ours"}, []string{"ours"}, []string{"foregroundDeletion", "ours"}, "2026-01-01T00:00:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			live, desired := with(c.deleted, c.live...), with(nil, c.desired...)
			restored := Restore(with(nil, c.previous...), live, desired, nil)
			if got := restored.GetFinalizers(); !slices.Equal(got, c.want) || !slices.Equal(live.GetFinalizers(), c.live) {
				t.Errorf("it gets %v, want %v; it had %v", got, c.want, live.GetFinalizers())
			}
			child := ChildOf(restored, desired, nil, nil, "")
			theirs := restored.DeepCopy()
			theirs.SetFinalizers(slices.DeleteFunc(theirs.GetFinalizers(), func(one string) bool { return !slices.Contains(c.desired, one) }))
			theirs.SetFinalizers(append(theirs.GetFinalizers(), "another"))
			if !has(Fingerprint(theirs, nil), child.Fingerprint) {
				t.Error("what others do is a drift")
			}
			for _, one := range restored.GetFinalizers() {
				changed := restored.DeepCopy()
				changed.SetFinalizers(slices.DeleteFunc(changed.GetFinalizers(), func(other string) bool { return other == one }))
				if drifted, ours := !has(Fingerprint(changed, nil), child.Fingerprint), slices.Contains(c.desired, one); drifted != ours {
					t.Errorf("without %s, it has drifted: %t", one, drifted)
				}
			}
		})
	}
	// So it is in statuses of before the operator looked at them: what sets none is not looked at again.
	const before = "cb8270e9887d7e76f4792748aa2dcf2b"
	if got := ChildOf(with(nil, "theirs"), with(nil), nil, nil, "").Fingerprint; got != before {
		t.Errorf("the fingerprint is %s, and was %s", got, before)
	}
}
