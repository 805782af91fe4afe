package kit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// Object is an empty object of any kind.
func Object(apiVersion, kind string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(apiVersion)
	object.SetKind(kind)
	return object
}

// List is an empty list of objects of any kind.
func List(apiVersion, kind string) *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(apiVersion)
	list.SetKind(kind + "List")
	return list
}

// Objects decodes all documents of a manifest.
func Objects(manifest []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, err
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// Read reads a YAML file into a type, which must have all fields of the file.
func Read[T any](file string) (T, error) {
	var content T
	text, err := os.ReadFile(file)
	if err != nil {
		return content, err
	}
	if err := yaml.UnmarshalStrict(text, &content); err != nil {
		return content, fmt.Errorf("%s: %w", file, err)
	}
	return content, nil
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// NameOf makes a part of an object's name from the name of a test.
func NameOf(test string) string {
	return notInNames.ReplaceAllString(strings.ToLower(strings.TrimPrefix(test, "Test")), "-")
}
