package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/internal/release"
)

// servable finds out what can be served in a cluster.
type servable struct {
	mapper     meta.RESTMapper // of the kinds of the cluster
	client     client.Client
	discovery  discovery.DiscoveryInterface
	namespaces []string // that are watched, none for all
}

func newServable(cluster *rest.Config, namespaces []string) (*servable, error) {
	cluster = rest.CopyConfig(cluster)
	cluster.Timeout = release.AskPatience // else an API group whose server hangs would hold up all requests
	http, err := rest.HTTPClientFor(cluster)
	if err != nil {
		return nil, err
	}
	mapper, err := apiutil.NewDynamicRESTMapper(cluster, http)
	if err != nil {
		return nil, err
	}
	api, err := client.New(cluster, client.Options{HTTPClient: http, Mapper: mapper})
	if err != nil {
		return nil, err
	}
	discovery, err := discovery.NewDiscoveryClientForConfigAndClient(cluster, http)
	if err != nil {
		return nil, err
	}
	return &servable{mapper, api, discovery, namespaces}, nil
}

// split separates the entries that can be served from the others. There is an error if the cluster cannot be
// asked.
func (s *servable) split(ctx context.Context, entries []Entry, refused []broken) ([]Entry, []broken, error) {
	var served []Entry
	for _, entry := range entries {
		lack, err := s.lack(ctx, entry, len(entries) > 1)
		switch {
		case err != nil:
			return nil, nil, fmt.Errorf("connect to the cluster: %w", err)
		case lack != nil:
			refused = append(refused, broken{Entry: entry, err: entry.wrong(lack), lacks: true})
		default:
			served = append(served, entry)
		}
	}
	return served, refused, nil
}

// lack is what the cluster lacks to serve an entry. The operator's right to the kind is only checked if there
// are other entries: without it, the cache would wait for that kind, and the others with it.
func (s *servable) lack(ctx context.Context, entry Entry, others bool) (lack, err error) {
	_, err = s.mapper.RESTMapping(entry.GroupKind(), entry.Version)
	if meta.IsNoMatchError(err) {
		return errors.New("the cluster does not know this kind: install its CRD (make install; of an operator of your own: kubectl apply --server-side --kustomize DIR, or the file with the CRD)"), nil
	}
	if err != nil {
		return nil, err
	}
	if lack, err = s.statusless(entry.GroupVersionKind); lack != nil || err != nil {
		return lack, err
	}
	for _, crd := range entry.brought {
		if lack, err = s.unknown(ctx, entry, crd); lack != nil || err != nil {
			return lack, err
		}
	}
	if others {
		err := release.TryList(ctx, s.client, entry.GroupVersionKind, s.namespaces, anyOfThem)
		if apierrors.IsForbidden(err) {
			return fmt.Errorf("the operator may not see this kind: give its ServiceAccount the rights, as config/rbac/role.yaml has them for others: %w", err), nil
		}
		// A conversion webhook is gone, say; the other entries are served meanwhile.
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("the API server does not tell of this kind: %w", err), nil
		}
		if err != nil {
			return nil, err
		}
	}
	if !entry.Secrets {
		return nil, nil
	}
	err = release.TryList(ctx, s.client, object.Secret, s.namespaces, object.ManagedBy())
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("secrets: true, and the operator may not see Secrets: give its ServiceAccount the right (make manifests images push deploy; of an operator of your own: make manifests INTO=DIR, kubectl apply --server-side --kustomize DIR): %w", err), nil
	}
	return nil, err
}

// unknown is why the cluster does not serve a kind whose CRD the chart brings, nil if it does. Where the entry
// allows that, the operator creates the CRD.
func (s *servable) unknown(ctx context.Context, entry Entry, crd *unstructured.Unstructured) (lack, err error) {
	kind, versions := release.KindOf(crd)
	if _, err = s.mapper.RESTMapping(kind, versions...); err == nil || !meta.IsNoMatchError(err) {
		return nil, err
	}
	if _, other := s.mapper.RESTMapping(kind); other == nil {
		return fmt.Errorf("the cluster knows the kind %s, and none of the versions %s that the chart brings in crds/: helm show crds %s | kubectl replace -f -: %w", kind, strings.Join(versions, ", "), entry.ChartPath, err), nil
	}
	if entry.CRDs {
		err = s.install(ctx, crd)
	}
	if err != nil {
		return fmt.Errorf("the cluster does not know the kind %s, which the chart brings in crds/: helm show crds %s | kubectl create -f -, or set crds: true (make manifests images push deploy; of an operator of your own: make manifests INTO=DIR, build the image, kubectl apply --server-side --kustomize DIR): %w", kind, entry.ChartPath, err), nil
	}
	return nil, nil
}

// establishTime is how long a new CRD may take until its kind is served.
const establishTime = 10 * time.Second

// install makes a CRD, and waits until its kind is served.
func (s *servable) install(ctx context.Context, crd *unstructured.Unstructured) error {
	if err := s.client.Create(ctx, crd.DeepCopy()); err != nil && !apierrors.IsAlreadyExists(err) { // by another replica, say
		return err
	}
	var known error
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, establishTime, true, func(context.Context) (bool, error) {
		kind, versions := release.KindOf(crd)
		_, known = s.mapper.RESTMapping(kind, versions...)
		return !meta.IsNoMatchError(known), nil
	})
	return cmp.Or(known, err)
}

// statusless is why the status of custom resources of a kind could not be written: its CRD has no status
// subresource.
func (s *servable) statusless(kind schema.GroupVersionKind) (lack, err error) {
	resources, err := s.discovery.ServerResourcesForGroupVersion(kind.GroupVersion().String())
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(resources.APIResources, func(r metav1.APIResource) bool { return r.Kind == kind.Kind && strings.HasSuffix(r.Name, "/status") }) {
		return nil, nil
	}
	return errors.New("its CRD has no status: write subresources: {status: {}} beside the schema of the version, and status: {type: object, x-kubernetes-preserve-unknown-fields: true} in the schema"), nil
}

// anyOfThem selects all custom resources. Without a selector, the API server might read only the first of them,
// and not notice that it cannot read all.
var anyOfThem = func() labels.Selector {
	without, err := labels.Parse("!webapp.demo.welcome.domain/none")
	utilruntime.Must(err)
	return without
}()
