package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"demo.welcome.domain/welcome-operator/internal/object"
	boot "demo.welcome.domain/welcome-operator/internal/operator"
	"demo.welcome.domain/welcome-operator/internal/release"
	"demo.welcome.domain/welcome-operator/internal/status"
)

// defaultLease is how the lease of an operator is called, and what it publishes, unless it is told otherwise.
const defaultLease = "welcome-operator.webapp.demo.welcome.domain"

// servers are those of the cluster, as far as they are asked for.
type servers struct {
	*cluster
	only         string // the one that is meant, as --operator says
	readOnly     *readOnly
	capabilities *release.Capabilities
	charts       map[string]*chart.Chart // of --chart, by name
	used         map[string]bool         // those that an operator has
	known        map[string]*boot.Published
	kinds        map[string]*servedKind
	without      map[string]error // why there is no such kind
}

// notServed is why an operator would not serve a kind.
type notServed struct{ error }

// servedKind is a kind as an operator serves it, with the chart that is asked about.
type servedKind struct {
	*release.Kind
	cluster    *readOnly
	unknown    []string // overrides that only the operator knows
	namespaces []string
	selector   labels.Selector
	chart      *chart.Chart
}

func (c *cluster) newServers(o diffOptions) (*servers, error) {
	all := &servers{cluster: c, only: o.operator, charts: map[string]*chart.Chart{}, used: map[string]bool{}, known: map[string]*boot.Published{}, kinds: map[string]*servedKind{}, without: map[string]error{}}
	for _, place := range o.charts {
		given, err := loader.Load(place)
		if err != nil {
			return nil, fmt.Errorf("--chart %s: %w", place, err)
		}
		all.charts[given.Name()] = given
	}
	var err error
	if all.readOnly, err = c.readOnly(); err != nil {
		return nil, err
	}
	known, err := discovery.NewDiscoveryClientForConfig(all.readOnly.config)
	if err != nil {
		return nil, err
	}
	all.capabilities, err = release.NewCapabilities(known, logf.Log)
	return all, err
}

// serving are those asks that an operator serves, with how. If many are meant, those whose chart none of --chart takes the place of are left out.
func (all *servers) serving(ctx context.Context, asks []ask, many bool) ([]ask, error) {
	var served []ask
	left := 0
	for _, one := range asks {
		kind, err := all.kindOf(ctx, one, asks)
		if err != nil && ctx.Err() != nil {
			return nil, err
		}
		switch {
		case err != nil:
			one.unserved = err
			served = append(served, one)
		case many && len(all.charts) > 0 && all.charts[kind.chart.Name()] == nil:
		case one.name.GetDeletionTimestamp() != nil, len(kind.namespaces) > 0 && !slices.Contains(kind.namespaces, one.name.GetNamespace()), !kind.selector.Matches(labels.Set(one.name.GetLabels())):
			left++
		default:
			one.kind = kind
			served = append(served, one)
		}
	}
	if left > 0 {
		all.notef("%d custom resources are left out: they are being deleted, or their operator does not watch their namespace or labels\n", left)
	}
	if len(all.used) > 0 { // else it is not known which charts they have
		for name := range all.charts {
			if !all.used[name] {
				return nil, fmt.Errorf("--chart: no operator of these custom resources has a chart called %s", name)
			}
		}
	}
	return served, nil
}

// kindOf is the kind of what is asked about, as its operator serves it.
func (all *servers) kindOf(ctx context.Context, one ask, asks []ask) (*servedKind, error) {
	name, err := all.nameOf(ctx, one, asks)
	if err != nil {
		return nil, err
	}
	gvk := one.name.GroupVersionKind()
	key := name + " " + gvk.String()
	if all.kinds[key] == nil && all.without[key] == nil {
		all.kinds[key], all.without[key] = all.newKind(ctx, name, gvk)
	}
	return all.kinds[key], all.without[key]
}

// nameOf is the operator that serves a custom resource, as its status says, where its authors can't write. A new one will be served as others of its kind.
func (all *servers) nameOf(ctx context.Context, one ask, asks []ask) (string, error) {
	if all.only != "" {
		if strings.Contains(all.only, "/") {
			return all.only, nil
		}
		return all.only + "/" + defaultLease, nil
	}
	if one.obj != nil && status.Operator(one.obj) != "" {
		return status.Operator(one.obj), nil
	}
	gvk := one.name.GroupVersionKind()
	votes := map[string]int{}
	for _, other := range asks {
		if other.obj != nil && other.obj.GroupVersionKind() == gvk {
			votes[status.Operator(other.obj)]++
		}
	}
	if delete(votes, ""); len(votes) == 0 {
		others, err := all.list(ctx, gvk, client.InNamespace(metav1.NamespaceAll))
		if apierrors.IsForbidden(err) {
			others, err = all.list(ctx, gvk, client.InNamespace(one.name.GetNamespace()))
		}
		if err != nil {
			return "", err
		}
		for i := range others {
			votes[status.Operator(&others[i])]++
		}
		delete(votes, "")
	}
	if len(votes) == 0 {
		return "", fmt.Errorf("no %s tells which operator serves the kind: say in which namespace it runs, by --operator", gvk.Kind)
	}
	return slices.MaxFunc(slices.Sorted(maps.Keys(votes)), func(a, b string) int { return votes[a] - votes[b] }), nil
}

// published reads what an operator was started with.
func (all *servers) published(ctx context.Context, name string) (*boot.Published, error) {
	if all.known[name] != nil {
		return all.known[name], nil
	}
	namespace, lease, _ := strings.Cut(name, "/")
	if strings.HasPrefix(namespace, "machine ") {
		return nil, fmt.Errorf("the operator runs outside of the cluster, on %s, and has published nothing: start it with --leader-election-namespace=NAMESPACE", namespace)
	}
	from := &corev1.ConfigMap{}
	err := all.readOnly.Get(ctx, client.ObjectKey{Namespace: namespace, Name: lease}, from)
	switch {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("operator %s has published nothing: it is older, or not there, or may not (its log says so)", name)
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("%w. To know how the operator renders, you need that right, which shows no secret: kubectl create role published-reader -n %s --verb=get --resource=configmaps --resource-name=%s, and a rolebinding for you", err, namespace, lease)
	case err != nil:
		return nil, err
	}
	all.known[name], err = boot.ReadPublished(from)
	return all.known[name], err
}

func (all *servers) newKind(ctx context.Context, name string, gvk schema.GroupVersionKind) (*servedKind, error) {
	published, err := all.published(ctx, name)
	if err != nil {
		return nil, err
	}
	entry, serves := published.Of(gvk)
	if !serves {
		return nil, fmt.Errorf("operator %s does not serve %s", name, gvk)
	}
	c := all.charts[entry.Chart.Name]
	all.used[entry.Chart.Name] = true
	if c == nil {
		if c, err = published.ChartOf(entry); err != nil {
			return nil, err
		}
	}
	if c == nil {
		return nil, fmt.Errorf("chart %s %s of operator %s is too large to be published: say where it is, by --chart", entry.Chart.Name, entry.Chart.Version, name)
	}
	options, err := published.KindOptions(entry, c)
	if err != nil {
		return nil, notServed{fmt.Errorf("operator %s would not serve %s with this chart: %w", name, gvk.Kind, err)}
	}
	options.WatchDependents, options.MaxConcurrent = false, diffAtOnce
	selector, err := metav1.LabelSelectorAsSelector(&options.Selector)
	if err != nil {
		return nil, err
	}
	clients, err := release.NewPreviews(all.readOnly.config, all.readOnly.mapper, all.readOnly, name, object.IgnoredByKind{gvk.GroupKind(): options.DriftDetection.Ignored}, all.capabilities)
	if err != nil {
		return nil, err
	}
	return &servedKind{
		Kind: clients.Kind(options), cluster: all.readOnly, unknown: slices.Sorted(maps.Keys(entry.FromEnvironment)), namespaces: published.Namespaces, selector: selector, chart: c,
	}, nil
}
