// Command csv completes the ClusterServiceVersion in a stream of manifests with what other files of the
// repository know better: a descriptor for every field of the CRDs in the stream, a status of each example,
// and the emblem of the page as icon. It reads the stream from stdin and writes it, otherwise unchanged, to
// stdout. hack/bundle.sh runs it.
package main

import (
	"fmt"
	"io"
	"os"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"demo.welcome.domain/welcome-operator/internal/object"
)

const iconFile = "welcome/emblem.svg"

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "csv:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	icon, err := os.ReadFile(iconFile)
	if err != nil {
		return err
	}
	documents, err := object.Documents(in)
	if err != nil {
		return fmt.Errorf("read the manifests: %w", err)
	}
	var crds []apiextensionsv1.CustomResourceDefinition
	for _, document := range documents {
		if document.GetKind() == "CustomResourceDefinition" {
			var crd apiextensionsv1.CustomResourceDefinition
			if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(document.Object, &crd, true); err != nil {
				return fmt.Errorf("%s: %w", document.GetName(), err)
			}
			crds = append(crds, crd)
		}
	}
	for _, document := range documents {
		if document.GetKind() == "ClusterServiceVersion" {
			if err := complete(document, crds, icon); err != nil {
				return err
			}
		}
		showStatus(document, crds)
		content, err := yaml.Marshal(document.Object)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "---\n%s", content); err != nil {
			return err
		}
	}
	return nil
}
