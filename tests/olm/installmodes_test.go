package olm

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestInstallModes installs the operator in every mode. In the namespaces that it is to watch, it must serve
// Welcomes with the rights that OLM grants it there. In others it must do nothing and have no rights. It never has
// rights to Secrets. Each mode has namespaces of its own.
func TestInstallModes(t *testing.T) {
	catalog(t, releasedCatalog)
	const own, one, two = 0, 1, 2 // the operator's namespace, and two others
	for _, mode := range []struct {
		name string
		// targets are the namespaces of the OperatorGroup. None means all.
		targets, watched []int
	}{
		{"OwnNamespace", []int{own}, []int{own}},
		{"SingleNamespace", []int{one}, []int{one}},
		{"MultiNamespace", []int{one, two}, []int{one, two}},
		{"AllNamespaces", nil, []int{own, one, two}},
	} {
		t.Run(mode.name, func(t *testing.T) {
			namespaces := namespaces(t, "restricted", "olm-own", "olm-one", "olm-two")
			var targets []string
			for _, target := range mode.targets {
				targets = append(targets, namespaces[target])
			}
			group(t, namespaces[own], targets...)
			subscribe(t, namespaces[own])
			awaitVersion(t, namespaces[own], "0.1.0")

			var welcomes []*unstructured.Unstructured
			for _, ns := range namespaces {
				w := welcome(ns, "hello-"+ns)
				create(t, w)
				welcomes = append(welcomes, w)
			}
			for _, watched := range mode.watched {
				awaitPage(t, welcomes[watched], welcomes[watched].GetName())
			}
			for i, ns := range namespaces {
				watched := slices.Contains(mode.watched, i)
				if !watched {
					made, err := children(t.Context(), ns)
					if err != nil {
						t.Fatal(err)
					}
					if len(made) > 0 {
						t.Errorf("namespace %s is not watched, but has %v", ns, made)
					}
				}
				// OLM also grants the rights in the operator's own namespace, for its lease.
				expectRights(t, namespaces[own], ns, watched || i == own)
			}
			for _, w := range welcomes {
				remove(t, w)
			}
			await(t, time.Minute, "all children gone", func(ctx context.Context) error {
				for _, ns := range namespaces {
					left, err := children(ctx, ns)
					if err != nil {
						return err
					}
					if len(left) > 0 {
						return fmt.Errorf("left in %s: %v", ns, left)
					}
				}
				return nil
			})
		})
	}
}

// expectRights asks the API server what the operator in ns may do in target.
func expectRights(t *testing.T, ns, target string, granted bool) {
	t.Helper()
	for _, right := range []struct {
		group, resource, verb string
		want                  bool
	}{
		{"webapp.demo.welcome.domain", "welcomes", "list", granted},
		{"webapp.demo.welcome.domain", "welcomes", "watch", granted},
		{"apps", "deployments", "create", granted},
		{"", "services", "delete", granted},
		{"", "configmaps", "create", granted},
		{"", "secrets", "get", false},
		{"", "secrets", "list", false},
		{"", "pods", "create", false},
		{"rbac.authorization.k8s.io", "roles", "create", false},
	} {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:   "system:serviceaccount:" + ns + ":welcome-operator-controller-manager",
			Groups: []string{"system:serviceaccounts", "system:authenticated"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: target, Group: right.group, Resource: right.resource, Verb: right.verb,
			},
		}}
		if err := api.Create(t.Context(), review); err != nil {
			t.Fatal(err)
		}
		if review.Status.Allowed != right.want {
			t.Errorf("may %s %s in %s: %t, want %t (%s)", right.verb, right.resource, target, review.Status.Allowed, right.want, review.Status.Reason)
		}
	}
}
