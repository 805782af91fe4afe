package operator

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"testing"

	"github.com/operator-framework/helm-operator-plugins/pkg/watches"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"

	"demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/internal/release"
)

// Release records are read as ConfigMaps, and a chart's ConfigMaps untyped, as all that charts make: their
// drift shows in a fingerprint.
func TestConfigMapsOfChartsAreSlim(t *testing.T) {
	config := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"a": "b"}}}
	config.SetLabels(map[string]string{"a": "b"})
	config.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Greeting", Name: "hello", UID: "1", Controller: new(true)}})
	want := object.Fingerprint(config, nil)
	greetings := Entry{Watch: watches.Watch{GroupVersionKind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Greeting"}}}
	for kind, options := range cacheOptions([]Entry{greetings}, nil).ByObject {
		if _, ok := kind.(*corev1.ConfigMap); !ok {
			continue
		}
		slim, err := options.Transform(config)
		if err != nil {
			t.Fatal(err)
		}
		if got := object.CachedFingerprint(slim.(*unstructured.Unstructured)); got != want || slim.(*unstructured.Unstructured).Object["data"] != nil {
			t.Errorf("it is cached as %v", slim)
		}
	}
}

// Of the annotations of a custom resource, the cache keeps those that are read, and no more of each than counts.
func TestAnnotationsOfCustomResourcesAreSlim(t *testing.T) {
	owner := &unstructured.Unstructured{Object: map[string]any{}}
	owner.SetAnnotations(map[string]string{"a": "b", release.Pause: "yes", release.RunTests: strings.Repeat("ä", 5000), release.StockAnnotations[0]: strings.Repeat("ä", 5000)})
	slim, err := slimOwner(owner, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{release.Pause: "yes", release.RunTests: strings.Repeat("ä", 31), release.StockAnnotations[0]: strings.Repeat("ä", 64)}
	if got := slim.(*unstructured.Unstructured).GetAnnotations(); !maps.Equal(got, want) {
		t.Errorf("it keeps %q", got)
	}
}

// A watch ends now and then, which is no failure of it.
func TestFailsWatch(t *testing.T) {
	for _, c := range []struct {
		err   error
		fails bool
	}{
		{io.EOF, false},
		{fmt.Errorf("watch: %w", io.ErrUnexpectedEOF), false},
		{apierrors.NewResourceExpired("too old"), false},
		{apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "", errors.New("no")), true},
		{apierrors.NewGenericServerResponse(404, "list", schema.GroupResource{Resource: "things"}, "", "", 0, true), true},
		{errors.New("conversion webhook for example.com/v2, Kind=Thing failed"), true},
	} {
		if fails := failsWatch(c.err); fails != c.fails {
			t.Errorf("%v: %v", c.err, fails)
		}
	}
}

func TestWatchedKind(t *testing.T) {
	things := object.Empty(testKind)
	for kind, object := range map[string]any{"Thing": things, "ConfigMap": &corev1.ConfigMap{}} {
		description := toolscache.NewReflector(noSecrets{}, object, nil, 0).TypeDescription()
		if got := watchedKind(description); got != kind {
			t.Errorf("%s: %s", description, got)
		}
	}
}
