package main

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// The last one that goes leaves no table behind that says that it is there, and well.
func TestWatchUntilNoneIsLeft(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	streams, _, out, _ := genericiooptions.NewTestIOStreams()
	asked := 0
	c := knowing(t, streams, interceptor.Funcs{List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
		switch asked++; asked {
		case 1:
			list.(*unstructured.UnstructuredList).Items = []unstructured.Unstructured{*seen("hello", healthy)}
		case 3:
			interrupt()
		}
		return nil
	}})
	c.flags.Namespace = new("shop")
	if err := c.watchStatus(ctx, selection{}, nil, "table"); err != nil {
		t.Error(err)
	}
	if said := out.String(); !strings.Contains(said, "1 Welcome: 1 ready") || !strings.HasSuffix(said, "No custom resources found in namespace shop.\n") {
		t.Errorf("it says:\n%s", said)
	}
}
