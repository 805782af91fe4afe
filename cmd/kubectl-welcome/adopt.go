package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	helmrelease "helm.sh/helm/v3/pkg/release"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/internal/object"
	boot "demo.welcome.domain/welcome-operator/internal/operator"
	"demo.welcome.domain/welcome-operator/internal/release"
)

// adopts is the annotation by which a custom resource names the Helm record that it was made from, as
// KIND/NAME. It is removed when the adoption is complete.
const adopts = "webapp.demo.welcome.domain/adopts"

// adoptOptions are the flags of adopt.
type adoptOptions struct {
	wait            waiting
	yes, dryRun     bool
	as, ofKind      string
	chart, operator string
}

// adoption is a Helm release on its way to a custom resource.
type adoption struct {
	*cluster
	adoptOptions
	namespace, name string
	records         *helmRecords
	began           time.Time
	obj             *unstructured.Unstructured // the custom resource
	adopted         string                     // the name of the record that obj is made from
}

// NewCmdAdopt turns a plain Helm release into a custom resource.
func NewCmdAdopt(c *cluster) *cobra.Command {
	var o adoptOptions
	cmd := &cobra.Command{
		Use:   "adopt RELEASE",
		Short: "Turn a plain Helm release into a custom resource",
		Long: `Turn a plain Helm release into a custom resource with its name and its values. The operator takes over the objects as they are: none is made
anew, and no pod restarts unless its template changes, which is shown first. Nothing is done before you have agreed. Interrupted at any point, it can be
run again.

The operator's watches.yaml has to let the kind take over objects: allow: {adopt: true}. With your rights, each object of the release gets an annotation that gives
it to the custom resource; the operator removes that when it takes the object. The records of the release (Secrets, or what HELM_DRIVER says) are deleted once
the custom resource is Ready: until then, Helm can go on with the release.`,
		Example: examples("kubectl welcome adopt hello --dry-run\nkubectl welcome adopt hello"),
		Args:    oneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.adopt(cmd.Context(), o, args[0])
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := cmd.Flags()
	flags.BoolVarP(&o.yes, "yes", "y", false, "Do not ask")
	flags.BoolVar(&o.dryRun, "dry-run", false, "Only say what would be done")
	flags.StringVar(&o.as, "name", "", "The name of the custom resource, of a chart that does not call its objects after the release (default: the release's)")
	flags.StringVar(&o.ofKind, "kind", "", "The kind of the custom resource (default: the one that is made of a chart of that name)")
	flags.StringVar(&o.chart, "chart", "", "Where the operator's chart is, a directory or a package, if that is too large for the operator to publish it")
	flags.StringVar(&o.operator, "operator", "", "The operator that serves the kind, as NAMESPACE or NAMESPACE/NAME-OF-ITS-LEASE, where no custom resource tells")
	flags.DurationVar(&o.wait.timeout, "timeout", 5*time.Minute, "How long to wait until the custom resource is Ready")
	return cmd
}

// adopt gives the objects of a release to a custom resource, creates that, and deletes the records of the
// release when it is Ready. If an earlier run has created the custom resource, this one goes on from there.
func (c *cluster) adopt(ctx context.Context, o adoptOptions, name string) error {
	namespace, err := c.namespace()
	if err != nil {
		return err
	}
	o.as = cmp.Or(o.as, name)
	a := &adoption{cluster: c, adoptOptions: o, namespace: namespace, name: name, began: time.Now()}
	if a.records, err = c.helmRecords(namespace, name); err != nil {
		return err
	}
	kinds, err := a.kinds(ctx)
	if err != nil {
		return err
	}
	if a.obj, err = a.begun(ctx, kinds); err != nil {
		return err
	}
	if a.obj != nil {
		if a.adopted, err = a.checkBegun(); err != nil {
			return err
		}
		c.notef("%s in %s was made of the Helm release already; going on\n", label(a.obj), namespace)
		if o.dryRun {
			return nil
		}
		return a.finish(ctx)
	}
	return a.begin(ctx, kinds)
}

// kinds are the candidates for the kind of the custom resource.
func (a *adoption) kinds(ctx context.Context) ([]*meta.RESTMapping, error) {
	if a.ofKind == "" {
		return a.served(ctx)
	}
	kind, err := a.kind(ctx, a.ofKind)
	return []*meta.RESTMapping{kind}, err
}

// begun is the custom resource that an earlier run has made, nil if there is none.
func (a *adoption) begun(ctx context.Context, kinds []*meta.RESTMapping) (*unstructured.Unstructured, error) {
	api, err := a.client()
	if err != nil {
		return nil, err
	}
	for _, kind := range kinds {
		obj := object.Empty(kind.GroupVersionKind)
		err := api.Get(ctx, client.ObjectKey{Namespace: a.namespace, Name: a.as}, obj)
		switch {
		case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		case err != nil:
			return nil, err
		case obj.GetAnnotations()[adopts] != "" && obj.GetDeletionTimestamp() == nil:
			return obj, nil
		}
	}
	return nil, nil
}

// checkBegun returns the name of the record that the custom resource was made from. It fails if this run
// would look for another release or kind of record: it would find none, and take the records for deleted. The
// annotation may be written by anybody who may write custom resources.
func (a *adoption) checkBegun() (string, error) {
	mark := a.obj.GetAnnotations()[adopts]
	kind, release, name := recordIn(mark)
	if name == "" {
		return "", fmt.Errorf("%[1]s in %[2]s says that it was made of %[3]q, which is no record of a Helm release: somebody else has written that. To take it away: kubectl annotate %[1]s -n %[2]s %[4]s-",
			fullName(a.obj), a.namespace, mark, adopts)
	}
	kind = cmp.Or(kind, a.records.kind)
	if kind == a.records.kind && release == a.name {
		return name, nil
	}
	other := *a
	other.name, other.records = release, &helmRecords{kind: kind}
	return "", fmt.Errorf("%s in %s was made of the Helm release %s, recorded in a %s, and not of %s in a %s. To go on: %s", label(a.obj), a.namespace, release, kind, a.name, a.records.kind, other.command())
}

// begin does all up to the creation of the custom resource. Nothing is written before the caller has agreed.
func (a *adoption) begin(ctx context.Context, kinds []*meta.RESTMapping) error {
	rel, read, err := a.records.deployed(ctx)
	if err != nil {
		return err
	}
	objects, err := manifestObjects(rel.Manifest)
	if err != nil {
		return err
	}
	kind, entry, err := a.servedFor(ctx, kinds, rel, objects)
	if err != nil {
		return err
	}
	if err := a.records.checkRoom(entry, a.as); err != nil {
		return err
	}
	pinned, err := a.propose(rel, kind, entry)
	if err != nil {
		return err
	}
	plan, err := a.plan(ctx, kind, objects)
	if err != nil {
		return err
	}
	if err := a.checkHooks(ctx, rel); err != nil {
		return err
	}
	if err := a.records.mayRemove(ctx); err != nil {
		return err
	}
	a.tell(rel, kind, pinned, plan)
	if a.dryRun {
		a.notef("Next, to do it: %s\n", a.command())
		return nil
	}
	if !a.yes {
		if err := a.confirm(fmt.Sprintf("Have %s in %s take over %s?", label(a.obj), a.namespace, counted(len(plan.given), "object"))); err != nil {
			return err
		}
	}
	if err := a.records.checkStill(ctx, read); err != nil {
		return err
	}
	for _, obj := range plan.given {
		if err := a.give(ctx, obj); err != nil {
			return fmt.Errorf("give %s to %s: %w\nTo go on, run it again. To go back: %s", inWords(obj), label(a.obj), err, a.takeBack(plan.given))
		}
	}
	api, err := a.client()
	if err != nil {
		return err
	}
	a.adopted = read.Name
	a.obj.SetAnnotations(map[string]string{adopts: a.records.kind + "/" + a.adopted})
	if err := api.Create(ctx, a.obj, strict, fieldOwner); err != nil {
		return fmt.Errorf("create %s: %w\nTo go on, run it again. To go back: %s", label(a.obj), err, a.takeBack(plan.given))
	}
	a.printf("%s in %s is made, and %s given to it\n", label(a.obj), a.namespace, counted(len(plan.given), "object"))
	return a.finish(ctx)
}

// servedFor is the kind that the operator makes of a chart with the name of the release's chart.
func (a *adoption) servedFor(ctx context.Context, kinds []*meta.RESTMapping, rel *helmrelease.Release, objects []*unstructured.Unstructured) (*servedKind, boot.PublishedEntry, error) {
	of := diffOptions{operator: a.operator}
	if a.chart != "" {
		of.charts = []string{a.chart}
	}
	servers, err := a.newServers(of)
	if err != nil {
		return nil, boot.PublishedEntry{}, err
	}
	chart := rel.Chart.Name()
	var fit []boot.PublishedEntry
	var others []string
	var unknown []error
	for _, kind := range kinds {
		entry, err := servers.entryOf(ctx, a.ask(kind.GroupVersionKind))
		switch {
		case err != nil:
			unknown = append(unknown, fmt.Errorf("%s: %w", kind.GroupVersionKind.Kind, err))
		case entry.Chart.Name == chart:
			fit = append(fit, entry)
		default:
			others = append(others, entry.Kind+" of "+entry.Chart.Name)
		}
	}
	switch {
	case len(fit) > 1:
		return nil, boot.PublishedEntry{}, fmt.Errorf("several kinds are made of a chart called %s: say which, by --kind %s", chart, fit[0].Kind)
	case len(fit) == 0 && len(unknown) > 0:
		return nil, boot.PublishedEntry{}, fmt.Errorf("find out which kind is made of a chart called %s: %w", chart, errors.Join(unknown...))
	case len(fit) == 0:
		return nil, boot.PublishedEntry{}, fmt.Errorf("the Helm release %s is of chart %s, and the operator makes no kind of that: it makes %s", a.name, chart, strings.Join(others, ", "))
	}
	entry := fit[0]
	if !entry.Allow.Adopt {
		return nil, entry, fmt.Errorf("the operator may not take over objects for a %[1]s: write\n  allow: {adopt: true}\nin the entry of %[1]s in its watches.yaml, and deploy it again", entry.Kind)
	}
	one := a.ask(entry.GroupVersionKind())
	servers.readOnly.config.Wrap(asGiven(a.name, one.name, objects))
	kind, err := servers.kindOf(ctx, one, nil)
	if err != nil {
		return nil, entry, err
	}
	if release.ChartDigest(kind.Chart) != entry.Chart.Digest {
		return nil, entry, fmt.Errorf("--chart %s is not the chart that the operator has", a.chart)
	}
	return kind, entry, nil
}

// entryOf is what the operator has published about the kind in question.
func (all *servers) entryOf(ctx context.Context, one ask) (boot.PublishedEntry, error) {
	name, err := all.nameOf(ctx, one, nil)
	if err != nil {
		return boot.PublishedEntry{}, err
	}
	published, err := all.published(ctx, name)
	if err != nil {
		return boot.PublishedEntry{}, err
	}
	entry, serves := published.Of(one.name.GroupVersionKind().GroupKind())
	if !serves {
		return entry, fmt.Errorf("operator %s does not serve it", name)
	}
	return entry, nil
}

// propose makes the custom resource from the values that the release was given, without those that the
// operator sets. It returns the paths of the latter.
func (a *adoption) propose(rel *helmrelease.Release, kind *servedKind, entry boot.PublishedEntry) (pinned []string, err error) {
	a.obj = a.ask(kind.GroupVersionKind).name
	if entry.Selector != nil {
		a.obj.SetLabels(maps.Clone(entry.Selector.MatchLabels))
	}
	if len(kind.Namespaces) > 0 && !slices.Contains(kind.Namespaces, a.namespace) || !kind.Selector.Matches(labels.Set(a.obj.GetLabels())) {
		return nil, fmt.Errorf("the operator would not serve %s: it watches namespaces %v, and labels %q", label(a.obj), kind.Namespaces, kind.Selector)
	}
	spec := map[string]any{}
	if rel.Config != nil {
		spec = runtime.DeepCopyJSON(rel.Config)
	}
	for _, key := range union(entry.OverrideValues, entry.FromEnvironment) {
		if takeOut(spec, release.PathOf(key)) {
			pinned = append(pinned, key)
		}
	}
	a.obj.Object["spec"] = spec
	return pinned, nil
}

// ask is a question about the custom resource, which does not exist yet.
func (a *adoption) ask(gvk schema.GroupVersionKind) ask {
	obj := object.Empty(gvk)
	obj.SetNamespace(a.namespace)
	obj.SetName(a.as)
	return ask{name: obj}
}

// takeOut removes a value, and the maps that are empty without it. It returns whether the value was there.
func takeOut(values map[string]any, path []string) bool {
	if len(path) == 1 {
		_, had := values[path[0]]
		delete(values, path[0])
		return had
	}
	inner, isMap := values[path[0]].(map[string]any)
	if !isMap || !takeOut(inner, path[1:]) {
		return false
	}
	if len(inner) == 0 {
		delete(values, path[0])
	}
	return true
}

// command is the command line that begins the adoption or goes on with it, in any shell.
func (a *adoption) command() string {
	command := fmt.Sprintf("kubectl welcome adopt %s -n %s", a.name, a.namespace)
	if a.records.kind != "Secret" || os.Getenv("HELM_DRIVER") != "" {
		command = "HELM_DRIVER=" + strings.ToLower(a.records.kind) + " " + command
	}
	as := a.as
	if as == a.name {
		as = ""
	}
	for _, flag := range [][2]string{{"--name", as}, {"--kind", a.ofKind}, {"--operator", a.operator}, {"--chart", a.chart}} {
		if flag[1] != "" {
			command += " " + flag[0] + " " + quotedForShell(flag[1])
		}
	}
	return command
}

// finish waits until the custom resource is Ready, and deletes Helm's records, from one of which it was made.
func (a *adoption) finish(ctx context.Context) error {
	back, err := a.wayBack(ctx)
	if err != nil {
		return err
	}
	if err := a.awaitReady(ctx); err != nil {
		return fmt.Errorf("%w\nThe objects go on running. To go on: %s%s", err, a.command(), back)
	}
	if err := a.records.remove(ctx, a.adopted, a.checkTaken); err != nil {
		return fmt.Errorf("%s is Ready. Its records of Helm's are not deleted: %w", label(a.obj), err)
	}
	if err := a.annotate(ctx, a.obj, adopts, ""); err != nil {
		return fmt.Errorf("take the mark of this command off %s (run it again): %w", label(a.obj), err)
	}
	a.printf("%s in %s is Ready, %s after this began: the operator has taken over the Helm release, whose records are deleted\n", label(a.obj), a.namespace, time.Since(a.began).Round(time.Second/10))
	a.notef("Next: kubectl welcome status %s\n", typed(a.obj))
	return nil
}

// wayBack says how to return to Helm, as long as the records exist. The commands also remove the marks by
// which the operator knows the objects: otherwise a new custom resource of this name would take them over,
// and nobody would be asked.
func (a *adoption) wayBack(ctx context.Context) (string, error) {
	rel, err := a.records.read(ctx, a.adopted)
	if err != nil || rel == nil { // deleted by an earlier run
		return "", err
	}
	objects, err := a.liveObjects(ctx, rel, func(live *unstructured.Unstructured) bool { return a.hasTaken(live) || object.IsGiven(live, a.obj) })
	if err != nil {
		return "", err
	}
	back := fmt.Sprintf("\nThe records of the Helm release are still there. To go back, so that Helm goes on with it:\n  kubectl delete %s -n %s --cascade=orphan", fullName(a.obj), a.namespace)
	if len(objects) > 0 {
		mark, _, _ := strings.Cut(object.ManagedBy().String(), "=")
		back += fmt.Sprintf("\n  kubectl label -n %s %s %s-\n  %s", a.namespace, typedNames(objects), mark, a.takeBack(objects))
	}
	return back, nil
}

// awaitReady waits until the custom resource is Ready. It fails if the operator says that somebody has to act
// first.
func (a *adoption) awaitReady(ctx context.Context) error {
	return a.await(ctx, a.wait, func(ctx context.Context) (string, bool, error) {
		if err := a.reread(ctx, a.obj); err != nil {
			return "", false, err
		}
		return readiness(a.obj)
	})
}
