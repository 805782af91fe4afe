package main

import (
	"context"
	"errors"
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
)

// servers are the operators of the cluster, read as needed.
type servers struct {
	*cluster
	only         string // the operator that --operator names
	readOnly     *readOnly
	capabilities *release.Capabilities
	charts       map[string]*chart.Chart // the charts of --chart, by name
	offered      map[string]bool         // names of the charts that the operators have
	used         map[string]bool         // names of the charts of the custom resources in question
	known        map[string]*boot.Published
	kinds        map[string]*servedKind
	without      map[string]error // why there is no such kind
	voted        map[string]vote
}

// vote is the operator that serves most custom resources of a kind, or why that cannot be told.
type vote struct {
	operator string
	err      error
}

// notServed is why an operator would not serve a kind.
type notServed struct{ error }

// servedKind is a kind as an operator serves it, with the chart of --chart if that replaces the operator's.
type servedKind struct {
	*release.Kind
	cluster *readOnly
	unknown []string // overrides whose values only the operator knows
}

func (c *cluster) newServers(o diffOptions) (*servers, error) {
	all := &servers{
		cluster: c,
		only:    o.operator,
		charts:  map[string]*chart.Chart{},
		offered: map[string]bool{},
		used:    map[string]bool{},
		known:   map[string]*boot.Published{},
		kinds:   map[string]*servedKind{},
		without: map[string]error{},
		voted:   map[string]vote{},
	}
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

// serving completes the asks with the kind that serves them, or why none does, and leaves out those that an
// operator ignores. If many are meant, those whose chart no --chart replaces are left out, too.
func (all *servers) serving(ctx context.Context, asks []ask, many bool) ([]ask, error) {
	var served []ask
	left, paused := 0, 0
	var resumed []string
	for _, one := range asks {
		kind, err := all.kindOf(ctx, one, asks)
		if err != nil && ctx.Err() != nil {
			return nil, err
		}
		switch {
		case err != nil:
			one.unserved = err
			served = append(served, one)
		case one.isFile && one.name.GroupVersionKind() != kind.GroupVersionKind:
			one.unserved = fmt.Errorf("the operator knows %s as %s: write that apiVersion in the file", kind.GroupVersionKind.Kind, kind.GroupVersionKind.GroupVersion())
			served = append(served, one)
		case many && len(all.charts) > 0 && all.charts[kind.Chart.Name()] == nil:
		case one.name.GetDeletionTimestamp() != nil, len(kind.Namespaces) > 0 && !slices.Contains(kind.Namespaces, one.name.GetNamespace()), !kind.Selector.Matches(labels.Set(one.name.GetLabels())):
			left++
		case one.propose == nil && len(all.charts) == 0 && release.IsPaused(one.name) && !one.isNamed:
			paused++
		default:
			if (one.isNamed || one.isFile) && release.IsPaused(one.name) {
				resumed = append(resumed, label(one.name))
			}
			one.kind = kind
			served = append(served, one)
		}
	}
	if left > 0 {
		all.notef("Left out, because they are being deleted, or their operator does not watch their namespace or labels: %s\n", counted(left, "custom resource"))
	}
	if len(resumed) > 0 {
		all.notef("Paused, and compared as if it were resumed: %s\n", few(resumed))
	}
	if paused > 0 {
		all.notef("Left out, because nothing is put back of what is paused: %s\n", counted(paused, "custom resource"))
	}
	return served, all.checkCharts(many)
}

// checkCharts reports each --chart that no custom resource in question uses, which may be because a kind has
// no custom resource yet. If that holds for all of them, it is a mistake, and an error.
func (all *servers) checkCharts(many bool) error {
	if len(all.charts) == 0 || len(all.offered) == 0 { // it is unknown which charts the operators have
		return nil
	}
	none, right := true, all.used
	if many {
		right = all.offered
	}
	for _, name := range slices.Sorted(maps.Keys(all.charts)) {
		if none = none && !right[name]; !all.used[name] {
			all.notef("--chart %s: not compared, for none of these custom resources is made of a chart called that\n", name)
		}
	}
	if none {
		return errors.New("--chart: no operator of these custom resources has a chart called that")
	}
	return nil
}

// kindOf is the kind of the custom resource in question, as its operator serves it.
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

// nameOf is the operator that serves a custom resource. Its status says so, which its authors cannot write. A
// new one is taken to be served by the operator of most others of its kind, in its namespace or else in all.
func (all *servers) nameOf(ctx context.Context, one ask, asks []ask) (string, error) {
	if kind := one.name.GroupVersionKind(); object.BuiltIn(kind) { // of a file; to vote, all that there are would be listed
		return "", fmt.Errorf("the operator serves no %s: leave it out of the file", kind.Kind)
	}
	if all.only != "" {
		if strings.Contains(all.only, "/") {
			return all.only, nil
		}
		return all.only + "/" + boot.LeaderElectionID, nil
	}
	if one.obj != nil && release.ClaimedBy(one.obj) != "" {
		return release.ClaimedBy(one.obj), nil
	}
	for _, namespace := range []string{one.name.GetNamespace(), metav1.NamespaceAll} {
		voted := all.vote(ctx, one.name.GroupVersionKind(), namespace, asks)
		if voted.operator != "" || voted.err != nil && !apierrors.IsForbidden(voted.err) {
			return voted.operator, voted.err
		}
	}
	return "", fmt.Errorf("no %s that you may read tells which operator serves the kind: say in which namespace it runs, by --operator", one.name.GetKind())
}

// vote caches what mostOf finds.
func (all *servers) vote(ctx context.Context, gvk schema.GroupVersionKind, namespace string, asks []ask) vote {
	key := gvk.String() + " " + namespace
	voted, known := all.voted[key]
	if !known {
		voted.operator, voted.err = all.mostOf(ctx, gvk, namespace, asks)
		all.voted[key] = voted
	}
	return voted
}

// mostOf is the operator that serves most custom resources of a kind in a namespace: of those in question, or
// else of all. It is empty if none is served.
func (all *servers) mostOf(ctx context.Context, gvk schema.GroupVersionKind, namespace string, asks []ask) (string, error) {
	votes := map[string]int{}
	for _, other := range asks {
		if other.obj != nil && other.obj.GroupVersionKind() == gvk && (namespace == metav1.NamespaceAll || other.obj.GetNamespace() == namespace) {
			votes[release.ClaimedBy(other.obj)]++
		}
	}
	if delete(votes, ""); len(votes) == 0 {
		others, err := all.list(ctx, gvk, client.InNamespace(namespace))
		if err != nil {
			return "", err
		}
		for i := range others {
			votes[release.ClaimedBy(&others[i])]++
		}
		delete(votes, "")
	}
	if len(votes) == 0 {
		return "", nil
	}
	return slices.MaxFunc(slices.Sorted(maps.Keys(votes)), func(a, b string) int { return votes[a] - votes[b] }), nil
}

// published reads the configuration that an operator has published at its start.
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
		another := ""
		if all.only == namespace { // a status, or NAMESPACE/NAME, says what the lease is called
			another = ", or its lease has another name (as that of an operator of your own: --operator NAMESPACE/NAME)"
		}
		return nil, fmt.Errorf("operator %s has published nothing: it is older, or not there, or may not (its log says so), or somebody has deleted ConfigMap %s in namespace %s (restart it)%s", name, lease, namespace, another)
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("%w. To know how the operator renders, you need that right, which shows no secret: kubectl create role published-reader -n %s --verb=get --resource=configmaps --resource-name=%s, and a rolebinding for you", err, namespace, lease)
	case err != nil:
		return nil, err
	}
	if all.known[name], err = boot.ReadPublished(from); err != nil {
		return nil, err
	}
	if other := otherVersion(name, all.known[name].Version); other != "" {
		all.notef("What it does may differ from what is shown: %s\n", other)
	}
	for _, entry := range all.known[name].Entries {
		all.offered[entry.Chart.Name] = true
	}
	return all.known[name], nil
}

func (all *servers) newKind(ctx context.Context, name string, gvk schema.GroupVersionKind) (*servedKind, error) {
	published, err := all.published(ctx, name)
	if err != nil {
		return nil, err
	}
	entry, serves := published.Of(gvk.GroupKind())
	if !serves {
		return nil, fmt.Errorf("operator %s does not serve %s", name, gvk.GroupKind())
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
	clients, err := release.NewPreviews(all.readOnly.config, all.readOnly.mapper, all.readOnly, name, object.IgnoredByKind{gvk.GroupKind(): options.DriftDetection.Ignored}, all.capabilities)
	if err != nil {
		return nil, err
	}
	return &servedKind{Kind: clients.Kind(options), cluster: all.readOnly, unknown: slices.Sorted(maps.Keys(entry.FromEnvironment))}, nil
}
