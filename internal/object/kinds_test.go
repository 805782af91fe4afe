package object

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestKinds(t *testing.T) {
	kinds := Kinds{"Job", "Deployment.apps", "Service"}
	for kind, want := range map[schema.GroupKind]bool{
		{Group: "batch", Kind: "Job"}:              true,
		{Group: "example.com", Kind: "Job"}:        true,
		{Group: "apps", Kind: "Deployment"}:        true,
		{Group: "example.com", Kind: "Deployment"}: false,
		{Kind: "Service"}:                          true,
		{Kind: "ConfigMap"}:                        false,
	} {
		if got := kinds.Has(kind); got != want {
			t.Errorf("%s: %v", kind, got)
		}
	}
	if err := kinds.Validate(); err != nil {
		t.Error(err)
	}
	for _, kind := range []string{"", "jobs", "Job.", "apps/Deployment", "Job.Batch", "*"} {
		if err := (Kinds{kind}).Validate(); err == nil {
			t.Errorf("%q passes for a kind", kind)
		}
	}
}
