package object

import (
	"errors"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

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
		if !document.IsList() {
			objects = append(objects, document)
			continue
		}
		err := document.EachListItem(func(item runtime.Object) error {
			objects = append(objects, item.(*unstructured.Unstructured)) // it iterates over no other type
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
}
