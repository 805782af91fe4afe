package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// maxHelmRecord bounds the unpacked size of a Helm record, in bytes. It is larger than for the operator's
// records, which leave the chart out: with a large chart, Helm's has some 10 MiB.
const maxHelmRecord = 32 << 20

// manifestObjects are the objects of a manifest, with those of lists in it.
func manifestObjects(manifest string) ([]*unstructured.Unstructured, error) {
	objects, err := object.Documents(strings.NewReader(manifest))
	if err != nil {
		return nil, fmt.Errorf("read the manifest: %w", err)
	}
	return objects, nil
}

// liveOf reads an object of a release in a namespace. It is nil if it does not exist.
func (c *cluster) liveOf(ctx context.Context, obj *unstructured.Unstructured, namespace string) (*unstructured.Unstructured, error) {
	mapper, err := c.flags.ToRESTMapper()
	if err != nil {
		return nil, err
	}
	api, err := c.client()
	if err != nil {
		return nil, err
	}
	kind, err := mapper.RESTMapping(obj.GroupVersionKind().GroupKind(), obj.GroupVersionKind().Version)
	if err != nil {
		return nil, err
	}
	key := client.ObjectKey{Name: obj.GetName()}
	if kind.Scope.Name() == "namespace" {
		key.Namespace = namespace // charts of the operator make objects in no other namespace
	}
	live := object.Empty(obj.GroupVersionKind())
	if err := api.Get(ctx, key, live); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return live, nil
}

// confirm asks the caller for agreement.
func (c *cluster) confirm(question string) error {
	c.notef("%s [y/N] ", question)
	answer, _ := bufio.NewReader(c.In).ReadString('\n')
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return errors.New("nothing was done: you did not agree (--yes does so beforehand)")
	}
	return nil
}
