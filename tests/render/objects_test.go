package render

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	psapi "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// Every rendered object is one that the API server takes without a word: no unknown and no doubled field.
func TestObjectsDecodeStrictly(t *testing.T) {
	for _, c := range goldenCases(t) {
		t.Run(c.name, func(t *testing.T) {
			for _, object := range renderedObjects(t, c.applied) {
				decodeStrictly(t, object)
			}
		})
	}
}

// Every field is rendered as the API server stores it. The operator compares both, and 0.5 against 500m, or an empty text
// against none, would be drift that no repair ends.
func TestObjectsAreCanonical(t *testing.T) {
	for _, c := range goldenCases(t) {
		t.Run(c.name, func(t *testing.T) {
			for _, object := range renderedObjects(t, c.applied) {
				typed := decodeStrictly(t, object)
				data, err := json.Marshal(typed)
				if err != nil {
					t.Fatal(err)
				}
				var stored map[string]any
				if err := json.Unmarshal(data, &stored); err != nil {
					t.Fatal(err)
				}
				data, err = json.Marshal(object.Object)
				if err != nil {
					t.Fatal(err)
				}
				var rendered map[string]any
				if err := json.Unmarshal(data, &rendered); err != nil {
					t.Fatal(err)
				}
				for _, difference := range missing(rendered, stored, object.GetKind()) {
					t.Error(difference)
				}
			}
		})
	}
}

// Pods pass the restricted pod security standard in its newest version.
func TestPodsAreRestricted(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	restricted := psapi.LevelVersion{Level: psapi.LevelRestricted, Version: psapi.LatestVersion()}
	for _, c := range goldenCases(t) {
		t.Run(c.name, func(t *testing.T) {
			for _, object := range renderedObjects(t, c.applied) {
				deployment, ok := decodeStrictly(t, object).(*appsv1.Deployment)
				if !ok {
					continue
				}
				pod := deployment.Spec.Template
				result := policy.AggregateCheckResults(evaluator.EvaluatePod(restricted, &pod.ObjectMeta, &pod.Spec))
				if !result.Allowed {
					t.Errorf("refused: %s", result.ForbiddenDetail())
				}
			}
		})
	}
}

func renderedObjects(t *testing.T, applied *unstructured.Unstructured) []*unstructured.Unstructured {
	t.Helper()
	text := manifest(t, applied)
	objects, err := kit.Objects([]byte(text))
	if err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	if len(objects) < 2 {
		t.Fatalf("only %d objects in:\n%s", len(objects), text)
	}
	return objects
}

func decodeStrictly(t *testing.T, object *unstructured.Unstructured) runtime.Object {
	t.Helper()
	data, err := object.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	codecs := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict)
	typed, _, err := codecs.UniversalDeserializer().Decode(data, nil, nil)
	if err != nil {
		t.Fatalf("%s: %v", object.GetKind(), err)
	}
	return typed
}

// missing says what want has that got has not, or has differently.
func missing(want, got any, path string) []string {
	var differences []string
	switch want := want.(type) {
	case map[string]any:
		got, _ := got.(map[string]any)
		for key, value := range want {
			differences = append(differences, missing(value, got[key], path+"."+key)...)
		}
		return differences
	case []any:
		got, _ := got.([]any)
		if len(got) == len(want) {
			for i := range want {
				differences = append(differences, missing(want[i], got[i], fmt.Sprintf("%s[%d]", path, i))...)
			}
			return differences
		}
	}
	if !reflect.DeepEqual(want, got) {
		return []string{fmt.Sprintf("%s is rendered as %v, and stored as %v", path, want, got)}
	}
	return nil
}
