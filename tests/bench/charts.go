package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage"
	"helm.sh/helm/v3/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/controlplane"
	"demo.welcome.domain/welcome-operator/tests/kit"
)

const (
	// traitsGroup has a kind for each chart of tests/charts.
	traitsGroup = "traits.example.com"
	// trial is the name of the custom resource.
	trial = "it"
	// stepLimit and repairLimit bound a step and a repair. After that, the table says that the operator does not do it.
	stepLimit, repairLimit = 20 * time.Second, 15 * time.Second
	// no is what a cell begins with if the operator fails.
	no = "**no**"
)

// trait is a chart of tests/charts, served as a kind.
type trait struct{ name, dir, kind string }

func traits() ([]trait, error) {
	files, err := filepath.Glob(kit.File("tests/charts/*/Chart.yaml"))
	var all []trait
	for i, file := range files {
		dir := filepath.Dir(file)
		all = append(all, trait{name: filepath.Base(dir), dir: dir, kind: fmt.Sprintf("Trait%c", 'a'+i)})
	}
	return all, err
}

// chartTable tries each chart with each Helm operator, from installation to deletion, and returns the results as
// Markdown.
func (b *bench) chartTable(ctx context.Context, o options) (string, error) {
	all, err := traits()
	if err != nil {
		return "", err
	}
	if err := b.EndJobs(ctx); err != nil {
		return "", err
	}
	for _, t := range all {
		if err := b.serve(ctx, t); err != nil {
			return "", err
		}
	}
	fared := map[string][]string{}
	var rows []string
	for _, c := range contenders(o) {
		if !c.ours && !c.scaffolded || o.only != "" && o.only != c.user {
			continue
		}
		fmt.Fprintf(os.Stderr, "\n%s\n", c.name)
		cells, err := b.tryCharts(ctx, c, all)
		if err != nil {
			return "", fmt.Errorf("%s: %w", c.name, err)
		}
		for name, cell := range cells {
			fared[name] = append(fared[name], fmt.Sprintf("| %s | %s | %s |\n", name, c.name, cell))
		}
	}
	for _, t := range all {
		rows = append(rows, fared[t.name]...)
	}
	return "| chart | operator | installed | three idle reconciles | deleted objects are back | an edit after all objects were changed | deletion |\n" +
		"|---|---|---|---|---|---|---|\n" + strings.Join(rows, ""), nil
}

// serve creates the kind of a chart.
func (b *bench) serve(ctx context.Context, t trait) error {
	anything := apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
	plural := strings.ToLower(t.kind) + "s"
	err := b.Client.Create(ctx, &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + traitsGroup},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: traitsGroup, Scope: apiextensionsv1.NamespaceScoped, Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: t.kind, Plural: plural},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": anything, "status": anything},
				}},
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			}},
		},
	})
	if err != nil {
		return fmt.Errorf("make the kind of chart %s: %w", t.name, err)
	}
	return await(ctx, time.Minute, "the kind of chart "+t.name+" is served", func() (bool, error) {
		return b.Client.List(ctx, kit.List(traitsGroup+"/v1", t.kind)) == nil, nil
	})
}

// tryCharts tries each chart with one operator, which serves all of them.
func (b *bench) tryCharts(ctx context.Context, c contender, all []trait) (cells map[string]string, err error) {
	if err := b.prepare(ctx, c); err != nil {
		return nil, err
	}
	var watches strings.Builder
	for _, t := range all {
		fmt.Fprintf(&watches, "- group: %s\n  version: v1\n  kind: %s\n  chart: %s\n", traitsGroup, t.kind, t.dir)
		switch {
		case c.ours:
			entry, err := kit.EntryOf(t.dir)
			if err != nil {
				return nil, err
			}
			watches.WriteString("  recreate: [ConfigMap, Job.batch, Deployment.apps]\n" + entry)
		case len(c.args) > 0 && strings.HasSuffix(c.args[len(c.args)-1], invertedWatches):
			watches.WriteString("  watchDependentResources: false\n")
		}
	}
	file := filepath.Join(b.Dir, c.user+"-charts.yaml")
	if err := os.WriteFile(file, []byte(watches.String()), 0o600); err != nil {
		return nil, err
	}
	c.args = append(append([]string{}, c.args...), "--watches-file="+file)
	cells = map[string]string{}
	for _, t := range all {
		start := time.Now()
		cell, err := b.tryChart(ctx, c, t)
		if err != nil {
			return nil, fmt.Errorf("chart %s: %w", t.name, err)
		}
		cells[t.name] = cell
		progress(t.name+": "+cell, start)
	}
	return cells, nil
}

// attempt is one chart with one operator.
type attempt struct {
	*bench
	trait
	*operator
	namespace string
}

// tryChart returns the cells of a row.
func (b *bench) tryChart(ctx context.Context, c contender, t trait) (string, error) {
	a := &attempt{bench: b, trait: t, namespace: c.user + "-" + t.name}
	if err := b.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: a.namespace}}); err != nil {
		return "", err
	}
	var err error
	if a.operator, err = b.start(c); err != nil {
		return "", err
	}
	defer func() { a.operator.Stop() }()
	if err := b.ready(ctx, a.operator); err != nil {
		return "", fmt.Errorf("%w\n%s", err, a.LastLines(20))
	}
	var cells []string
	for i, step := range []func(context.Context) (string, error){a.install, a.idle, a.drift, a.upgrade, a.remove} {
		if installed := i == 0 || !strings.HasPrefix(cells[0], no); !installed && i < 4 {
			cells = append(cells, "–")
			continue
		}
		cell, err := step(ctx)
		if err != nil {
			return "", err
		}
		cells = append(cells, cell)
	}
	return strings.Join(cells, " | "), nil
}

func (a *attempt) resource() *unstructured.Unstructured {
	object := kit.Object(traitsGroup+"/v1", a.kind)
	object.SetNamespace(a.namespace)
	object.SetName(trial)
	return object
}

// taken returns how long it took until check returned nil, or check's last error.
func taken(ctx context.Context, limit time.Duration, check func() error) string {
	start := time.Now()
	var last error
	err := await(ctx, limit, "a step", func() (bool, error) {
		last = check()
		return last == nil, nil
	})
	if err != nil {
		return no + ": " + strings.NewReplacer("\n", " ", "|", "/").Replace(fmt.Sprintf("%.90s", last))
	}
	return seconds(time.Since(start))
}

func (a *attempt) install(ctx context.Context) (string, error) {
	object := a.resource()
	object.Object["spec"] = map[string]any{"edited": "before"}
	if err := a.Client.Create(ctx, object); err != nil {
		return "", err
	}
	return taken(ctx, stepLimit, func() error { return a.released(ctx, "before") }), nil
}

// released returns nil if the release is deployed with that value and its objects exist.
func (a *attempt) released(ctx context.Context, edited string) error {
	rel, err := a.release(ctx)
	if err != nil {
		return err
	}
	if got := rel.Config["edited"]; rel.Info.Status != release.StatusDeployed || got != edited {
		return fmt.Errorf("revision %d is %s, edited %v", rel.Version, rel.Info.Status, got)
	}
	objects, err := a.objects(ctx)
	for _, object := range objects {
		if object.GetUID() == "" {
			return fmt.Errorf("%s is not there", object.GetKind())
		}
	}
	return err
}

// release is the newest revision, from its record.
func (a *attempt) release(context.Context) (*release.Release, error) {
	clients, err := kubernetes.NewForConfig(a.Admin)
	if err != nil {
		return nil, err
	}
	has, err := kit.HasSecrets(a.dir)
	if err != nil {
		return nil, err
	}
	if a.ours && !has {
		return storage.Init(driver.NewConfigMaps(clients.CoreV1().ConfigMaps(a.namespace))).Last(trial)
	}
	return storage.Init(driver.NewSecrets(clients.CoreV1().Secrets(a.namespace))).Last(trial)
}

// objects are the newest revision's objects as the cluster has them. Those that do not exist have no UID.
func (a *attempt) objects(ctx context.Context) ([]*unstructured.Unstructured, error) {
	rel, err := a.release(ctx)
	if err != nil {
		return nil, err
	}
	listed, err := kit.Objects([]byte(rel.Manifest))
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	for _, object := range listed {
		each := []*unstructured.Unstructured{object}
		if object.IsList() {
			list, err := object.ToList()
			if err != nil {
				return nil, err
			}
			each = nil
			for i := range list.Items {
				each = append(each, &list.Items[i])
			}
		}
		for _, object := range each {
			object.SetNamespace(a.namespace)
			if err := a.Client.Get(ctx, client.ObjectKeyFromObject(object), object); client.IgnoreNotFound(err) != nil {
				return nil, err
			}
			objects = append(objects, object)
		}
	}
	return objects, nil
}

// idle pokes the custom resource three times, and returns what that costs.
func (a *attempt) idle(ctx context.Context) (string, error) {
	if !pause(ctx, quietTime) {
		return "", ctx.Err()
	}
	before, err := a.release(ctx)
	if err != nil {
		return "", err
	}
	mark, err := a.Mark(ctx)
	if err != nil {
		return "", err
	}
	for i := range 3 {
		poke := fmt.Sprintf(`{"metadata":{"annotations":{"example.com/poke":"%d"}}}`, i)
		if err := a.Client.Patch(ctx, a.resource(), client.RawPatch(types.MergePatchType, []byte(poke))); err != nil {
			return "", err
		}
		if !pause(ctx, time.Second) {
			return "", ctx.Err()
		}
	}
	by := controlplane.By(a.user)
	requests, err := a.Requests(ctx, mark, func(r controlplane.Request) bool {
		return by(r) && r.ObjectRef.Namespace == a.namespace && r.ObjectRef.Resource != "pods"
	})
	if err != nil {
		return "", err
	}
	after, err := a.release(ctx)
	if err != nil {
		return "", err
	}
	cell := fmt.Sprintf("%d requests", len(requests))
	if more := after.Version - before.Version; more > 0 {
		cell += fmt.Sprintf(", **%d revisions**", more)
	}
	return cell, nil
}

// drift deletes the objects one after the other.
func (a *attempt) drift(ctx context.Context) (string, error) {
	objects, err := a.objects(ctx)
	if err != nil {
		return "", err
	}
	var slowest time.Duration
	for _, object := range objects {
		if err := a.Client.Delete(ctx, object.DeepCopy(), client.PropagationPolicy(metav1.DeletePropagationBackground)); client.IgnoreNotFound(err) != nil {
			return "", err
		}
		// No controller runs here that would remove the API server's own finalizers.
		if err := a.Client.Patch(ctx, object.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))); client.IgnoreNotFound(err) != nil {
			return "", err
		}
		start, again := time.Now(), object.DeepCopy()
		if cell := taken(ctx, repairLimit, func() error {
			err := a.Client.Get(ctx, client.ObjectKeyFromObject(object), again)
			if err == nil && again.GetUID() == object.GetUID() {
				err = errors.New("it is not gone")
			}
			return err
		}); strings.HasPrefix(cell, no) {
			return "**not " + object.GetKind() + "** within " + repairLimit.String(), nil
		}
		slowest = max(slowest, time.Since(start))
		if before, had := object.Object["data"]; had && fmt.Sprint(before) != fmt.Sprint(again.Object["data"]) {
			return "**another " + object.GetKind() + "**", nil
		}
	}
	return seconds(slowest), nil
}

// upgrade edits the custom resource after all objects were changed while the operator was away.
func (a *attempt) upgrade(ctx context.Context) (string, error) {
	objects, err := a.objects(ctx)
	if err != nil {
		return "", err
	}
	a.operator.Stop()
	for _, object := range objects {
		if object.GetUID() == "" { // the deletion was not repaired
			continue
		}
		change := `{"metadata":{"labels":{"app.kubernetes.io/managed-by":null}}}`
		if data, ok := object.Object["data"].(map[string]any); ok && data["edited"] != nil { // fields that the chart does not set are left to others
			change = `{"metadata":{"labels":{"app.kubernetes.io/managed-by":null}},"data":{"edited":"by somebody"}}`
		}
		err := a.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(change)))
		if client.IgnoreNotFound(err) != nil && !apierrors.IsInvalid(err) { // some fields cannot be changed
			return "", err
		}
	}
	if err := a.Client.Patch(ctx, a.resource(), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"edited":"after"}}`))); err != nil {
		return "", err
	}
	if a.operator, err = a.start(a.contender); err != nil {
		return "", err
	}
	if err := a.ready(ctx, a.operator); err != nil {
		return "", err
	}
	return taken(ctx, stepLimit, func() error {
		if err := a.released(ctx, "after"); err != nil {
			return err
		}
		objects, err := a.objects(ctx)
		if err != nil {
			return err
		}
		for _, object := range objects {
			if data, ok := object.Object["data"].(map[string]any); ok && data["edited"] != nil && data["edited"] != "after" {
				return fmt.Errorf("%s has %v", object.GetKind(), data["edited"])
			}
			if object.GetLabels()["app.kubernetes.io/managed-by"] != "Helm" {
				return fmt.Errorf("a label of %s is not back", object.GetKind())
			}
		}
		return nil
	}), nil
}

// remove deletes the custom resource, and returns which objects are left, and which were lost that should be kept.
func (a *attempt) remove(ctx context.Context) (string, error) {
	objects, err := a.objects(ctx)
	if err != nil && !errors.Is(err, driver.ErrReleaseNotFound) {
		return "", err
	}
	if err := a.Client.Delete(ctx, a.resource()); err != nil {
		return "", err
	}
	cell := taken(ctx, stepLimit, func() error {
		if err := a.Client.Get(ctx, client.ObjectKeyFromObject(a.resource()), a.resource()); !apierrors.IsNotFound(err) {
			return errors.Join(errors.New("it still exists"), err)
		}
		return nil
	})
	for _, object := range objects {
		keep := object.GetAnnotations()["helm.sh/resource-policy"] == "keep"
		err := a.Client.Get(ctx, client.ObjectKeyFromObject(object), object)
		owned := len(object.GetOwnerReferences()) > 0 // the garbage collector, which does not run here, would delete it
		switch {
		case keep && (err != nil || object.GetDeletionTimestamp() != nil || owned):
			cell += ", **" + object.GetKind() + " is lost**"
		case !keep && err == nil && object.GetDeletionTimestamp() == nil && !owned:
			cell += ", " + object.GetKind() + " is left"
		}
	}
	return cell, nil
}
