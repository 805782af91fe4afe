package main

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// theNamespace answers that a namespace exists.
func theNamespace(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
	return nil
}

// Where output is appended, a table that differs only in ages is not shown again.
func TestWatchWhileNothingChanges(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	streams, _, out, _ := genericiooptions.NewTestIOStreams()
	asked, young := 0, seen("hello", healthy)
	young.SetCreationTimestamp(metav1.Now())
	c := knowing(t, streams, interceptor.Funcs{List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
		if asked++; asked == 3 {
			interrupt()
		}
		list.(*unstructured.UnstructuredList).Items = []unstructured.Unstructured{*young}
		return nil
	}})
	if err := c.watchStatus(ctx, selection{}, nil, "table"); err != nil {
		t.Error(err)
	}
	if shown := strings.Count(out.String(), "1 Welcome: 1 ready"); shown != 1 {
		t.Errorf("it is shown %d times:\n%s", shown, out)
	}
}

// Whoever misspells a namespace learns it, unless they may not know which there are.
func TestFindWithoutANamespace(t *testing.T) {
	for want, answer := range map[string]error{
		`there is no namespace "shpo"`: apierrors.NewNotFound(corev1.Resource("namespaces"), "shpo"),
		"":                             apierrors.NewForbidden(corev1.Resource("namespaces"), "shpo", nil),
	} {
		c := knowing(t, genericiooptions.NewTestIOStreamsDiscard(), interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return answer
		}})
		c.flags.Namespace = new("shpo")
		if _, err := c.find(t.Context(), selection{}, nil); (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%v, not %q", err, want)
		}
	}
}

// The last one that goes leaves no table behind that says that it is there, and well.
func TestWatchUntilNoneIsLeft(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	streams, _, out, _ := genericiooptions.NewTestIOStreams()
	asked := 0
	c := knowing(t, streams, interceptor.Funcs{Get: theNamespace, List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
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
