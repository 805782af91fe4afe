package guard

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"helm.sh/helm/v3/pkg/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/rest"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// unasked is the client of an object for which Helm looks before it hands it over. These requests would be for
// nothing: the guard looks at the objects of an upgrade anyway, and those of an installation mostly do not
// exist, which their creation shows.
type unasked struct{ resource.RESTClient }

// Get asks nobody, and finds nothing.
func (unasked) Get() *rest.Request { return nobody.Get() }

// nobody answers that nothing is there. Nothing of this can fail.
var nobody, _ = rest.UnversionedRESTClientForConfigAndClient(&rest.Config{
	Host: "nobody", QPS: -1, ContentConfig: resource.UnstructuredPlusDefaultContentConfig(),
}, &http.Client{Transport: notFound{}})

type notFound struct{}

func (notFound) RoundTrip(request *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusNotFound, Body: http.NoBody, Request: request}, nil
}

// leaveUnasked has Helm find none of resources. Hooks are left out: Helm does not look for them.
func leaveUnasked(resources kube.ResourceList) {
	for _, info := range resources {
		if !object.IsHook(content(info.Object)) {
			info.Client = unasked{info.Client}
		}
	}
}

// ask restores the clients of resources.
func ask(resources kube.ResourceList) {
	for _, info := range resources {
		if client, ok := info.Client.(unasked); ok {
			info.Client = client.RESTClient
		}
	}
}

// makeAll creates the objects of an installation without a look. If one exists already, or the operator lacks a
// right, all are looked at before anything else is done, as in an upgrade. If one is somebody else's, those
// just created are deleted again.
func (g *Guard) makeAll(resources kube.ResourceList) error {
	targets := absent(resources)
	for _, t := range targets {
		t.unseen = true
	}
	_, err := g.bringAll(targets, true, false)
	exists := apierrors.IsAlreadyExists(err)
	if !exists && !apierrors.IsForbidden(err) {
		return err
	}
	there, inTheWay := g.look(nil, nil, resources)
	if inTheWay != nil {
		return g.takeBack(targets, inTheWay)
	}
	if exists {
		_, err = g.bringAll(there, true, false)
	}
	return err
}

// takeBack deletes what was created for targets, the last first, and returns why.
func (g *Guard) takeBack(targets []*target, why error) error {
	for _, t := range slices.Backward(targets) {
		if t.made == nil {
			continue
		}
		err := deleteIf(resource.NewHelper(t.info.Client, t.info.Mapping), t.info, metav1.Preconditions{UID: new(t.made.GetUID())})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) { // gone, or another one by now
			return errors.Join(why, fmt.Errorf("take back %s: %w", describe(t.info), said(t.info, err)))
		}
	}
	g.TookBack, g.Changed = true, false
	return why
}
