package kit

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Condition is a condition in the status of an object.
func Condition(object *unstructured.Unstructured, kind string) (metav1.Condition, error) {
	var parts struct {
		Status struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &parts); err != nil {
		return metav1.Condition{}, err
	}
	if condition := meta.FindStatusCondition(parts.Status.Conditions, kind); condition != nil {
		return *condition, nil
	}
	return metav1.Condition{}, fmt.Errorf("%s has no condition %s in %v", object.GetName(), kind, parts.Status.Conditions)
}

// Ready is nil if a Welcome is Ready with its current spec.
func Ready(welcome *unstructured.Unstructured) error {
	ready, err := Condition(welcome, "Ready")
	if err == nil && (ready.Status != metav1.ConditionTrue || ready.ObservedGeneration != welcome.GetGeneration()) {
		err = fmt.Errorf("generation is %d, condition is %+v", welcome.GetGeneration(), ready)
	}
	return err
}

// Seen is nil if the status of a Welcome is about its current spec.
func Seen(welcome *unstructured.Unstructured) error {
	if seen, _, _ := unstructured.NestedInt64(welcome.Object, "status", "observedGeneration"); seen != welcome.GetGeneration() {
		return fmt.Errorf("it has observed generation %d of %d", seen, welcome.GetGeneration())
	}
	return nil
}
