package integration

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// A webhook that does not answer holds up the custom resource that it is asked about, and no other.
func TestHangingWebhook(t *testing.T) {
	s := newScene(t)
	s.operator()
	asked, letGo := s.holdDeployments()
	s.create("held")
	asked()
	other := &scene{T: t, namespace: s.newNamespace("free-"), operators: s.operators}
	for _, name := range []string{"one", "two", "three"} {
		other.deploy(name)
	}
	if err := s.find(&appsv1.Deployment{}, "held"); !apierrors.IsNotFound(err) {
		t.Errorf("the webhook held up nothing: %v", err)
	}
	letGo()
	s.awaitDeployed("held")
}
