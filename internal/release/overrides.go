package release

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/strvals"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// Translate puts the overrides into the spec of a custom resource, and returns it as values.
func (k *Kind) Translate(_ context.Context, owner *unstructured.Unstructured) (chartutil.Values, error) {
	spec := owner.Object["spec"].(map[string]any) // the library has looked
	return spec, Pin(owner, spec, k.Overrides)
}

// Pin puts overrides into values, with namespace and name of owner where they have {namespace} or {name}.
func Pin(owner metav1.Object, values map[string]any, overrides map[string]string) error {
	keys := slices.Sorted(maps.Keys(overrides)) // always in the same order: one may be in another one
	for _, key := range keys {
		value, parse := overrides[key], strvals.ParseInto
		if object.IsOf(value) {
			value, parse = object.Of(owner, value), strvals.ParseIntoString // a namespace may be a number
		}
		if err := parse(key+"="+value, values); err != nil {
			within := func(outer string) bool { return strings.HasPrefix(key, outer+".") || strings.HasPrefix(key, outer+"[") }
			if i := slices.IndexFunc(keys, within); i >= 0 && parse(key+"="+value, map[string]any{}) == nil { // by itself it can be
				err = fmt.Errorf("it is in %s, which is pinned to %q, where nothing can be: pin one of the two", keys[i], overrides[keys[i]])
			}
			return fmt.Errorf("overrideValues, %s: %w", key, err)
		}
	}
	return nil
}

// PathOf is a key of overrides, as --set of Helm has it: a dot may be part of a name, with a backslash before it.
func PathOf(key string) []string {
	const dot = "\x00"
	path := strings.Split(strings.ReplaceAll(key, `\.`, dot), ".")
	for i := range path {
		path[i] = strings.ReplaceAll(path[i], dot, ".")
	}
	return path
}
