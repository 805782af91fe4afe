package object

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sort"
	"strings"

	"helm.sh/helm/v3/pkg/releaseutil"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// Split are the documents of a manifest, each as Helm has it, in their order.
func Split(manifest string) []string {
	documents := releaseutil.SplitManifests(manifest)
	keys := slices.Collect(maps.Keys(documents))
	sort.Sort(releaseutil.BySplitManifestsOrder(keys))
	split := make([]string, len(keys))
	for i, key := range keys {
		split[i] = documents[key]
	}
	return split
}

// Documents are the objects of a stream of YAML or JSON, and those in lists.
func Documents(stream io.Reader) (objects []*unstructured.Unstructured, err error) {
	decoder := yaml.NewYAMLOrJSONDecoder(stream, 4096)
	for {
		document := &unstructured.Unstructured{}
		if err := decoder.Decode(&document.Object); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, err
		}
		if len(document.Object) == 0 {
			continue // a comment, or what a condition has left out
		}
		items, isList := document.Object["items"]
		switch {
		case !isList:
			objects = append(objects, document)
		case items != nil: // else a template has found nothing to list
			listed, err := itemsOf(document)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", document.GetKind(), err)
			}
			objects = append(objects, listed...)
		}
	}
}

// itemsOf are the items of a list, as Helm takes them: the list's kind tells the kind of items that have none
// (ConfigMapList).
func itemsOf(list *unstructured.Unstructured) (items []*unstructured.Unstructured, err error) {
	err = list.EachListItem(func(item runtime.Object) error {
		one := item.(*unstructured.Unstructured) // it iterates over no other type
		if one.GetKind() == "" && one.GetAPIVersion() == "" {
			one.SetKind(strings.TrimSuffix(list.GetKind(), "List"))
			one.SetAPIVersion(list.GetAPIVersion())
		}
		items = append(items, one)
		return nil
	})
	return items, err
}
