// Package kit is what the tests of several rungs need: Welcomes, their statuses and pages, the operator's
// metrics, and the tools of the repository. A control plane to run operators on is in tests/controlplane.
package kit

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Names of the API.
const (
	Group = "webapp.demo.welcome.domain"
	CRD   = "welcomes." + Group
	// ManagedBy is the label of all objects that the operator makes.
	ManagedBy = Group + "/managed-by"
	// Lease is the lease by which the operator's replicas elect a leader.
	Lease = "welcome-operator." + Group
)

// Edit changes a Welcome, before it is created or later.
type Edit func(*unstructured.Unstructured)

// Welcome builds a Welcome, so that a test shows only what matters to it.
func Welcome(namespace, name string, edits ...Edit) *unstructured.Unstructured {
	welcome := Object(Group+"/v1", "Welcome")
	welcome.SetNamespace(namespace)
	welcome.SetName(name)
	for _, edit := range edits {
		edit(welcome)
	}
	return welcome
}

// Greet sets whom the page greets.
func Greet(name string) Edit { return Set("name", name) }

// Greeting is the name that the pods of a Deployment greet.
func Greeting(deployment *appsv1.Deployment) string {
	for _, variable := range deployment.Spec.Template.Spec.Containers[0].Env {
		if variable.Name == "NAME" {
			return variable.Value
		}
	}
	return ""
}

// Set sets a field of the spec: Set("service.port", 80).
func Set(path string, value any) Edit {
	return set(value, append([]string{"spec"}, strings.Split(path, ".")...)...)
}

// Annotate sets an annotation.
func Annotate(key, value string) Edit { return set(value, "metadata", "annotations", key) }

// Pause makes the operator leave a Welcome alone, or ends that.
func Pause(paused bool) Edit { return Annotate(Group+"/paused", fmt.Sprint(paused)) }

// Label sets a label.
func Label(key, value string) Edit { return set(value, "metadata", "labels", key) }

func set(value any, fields ...string) Edit {
	if number, ok := value.(int); ok {
		value = int64(number) // the only whole numbers of unstructured objects
	}
	return func(object *unstructured.Unstructured) {
		if err := unstructured.SetNestedField(object.Object, value, fields...); err != nil {
			panic(fmt.Sprintf("set %q: %v", fields, err))
		}
	}
}

// Welcomes is an empty list of Welcomes.
func Welcomes() *unstructured.UnstructuredList { return List(Group+"/v1", "Welcome") }
