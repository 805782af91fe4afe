package integration

import (
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

var chartDirs = flag.String("charts", "", "directories of charts, separated by commas, for TestCharts to try instead of those in tests/charts")

// TestCharts tries every chart of tests/charts as a kind of its own: that it installs, is quiet, that its
// drift is repaired, that an edit reaches it whatever its objects have become, and that nothing is left of it
// but what it asks to keep.
func TestCharts(t *testing.T) {
	dirs := strings.Split(*chartDirs, ",")
	if *chartDirs == "" {
		files, err := filepath.Glob(kit.File("tests/charts/*/Chart.yaml"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no charts: %v", err)
		}
		dirs = nil
		for _, file := range files {
			dirs = append(dirs, filepath.Dir(file))
		}
	}
	for i, dir := range dirs {
		if !filepath.IsAbs(dir) {
			dirs[i] = kit.File(dir)
		}
	}
	s := newScene(t)
	var watches strings.Builder
	for i, dir := range dirs {
		s.serveKind(chartKind(i))
		entry, err := kit.EntryOf(dir)
		s.must(err)
		watches.WriteString(entryOf(chartKind(i), dir, "  recreate: [ConfigMap, Job.batch, Deployment.apps]\n"+entry))
	}
	operator := s.ownOperator(settings{account: s.accountForCharts(), watches: watches.String()})
	s.must(env.EndJobs(t.Context()))
	rows := []string{fmt.Sprintf("%-24s %10s %14s %10s %10s %10s  %s", "chart", "installed", "idle requests", "drift", "upgrade", "deletion", "objects")}
	for i, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			c := &triedChart{scene: newScene(t), kind: chartKind(i), operator: operator, edited: "edited"}
			if _, err := os.Stat(filepath.Join(dir, "values.schema.json")); err == nil {
				c.edited = "global.edited" // what every chart may have
			}
			c.operators = s.operators
			t.Cleanup(c.discard)
			rows = append(rows, fmt.Sprintf("%-24s %s", filepath.Base(dir), c.try()))
		})
	}
	t.Log("\n" + strings.Join(rows, "\n"))
}

// records are the release records, ConfigMaps or Secrets, oldest first.
func (c *triedChart) records() []corev1.ConfigMap {
	c.Helper()
	records := c.scene.records(tried)
	for _, secret := range c.recordSecrets(tried) {
		records = append(records, corev1.ConfigMap{ObjectMeta: secret.ObjectMeta})
	}
	return records
}

func chartKind(i int) string { return fmt.Sprintf("Trait%c%c", 'a'+i/26, 'a'+i%26) }

// triedChart is a chart that is served as a kind, and a custom resource of that.
type triedChart struct {
	*scene
	kind     string
	operator *process
	edited   string // the value that is edited
}

const tried = "it"

// try tries the chart, and returns what that took.
func (c *triedChart) try() string {
	c.Helper()
	took := func(what func()) string {
		start := time.Now()
		what()
		return fmt.Sprintf("%d ms", time.Since(start).Milliseconds())
	}
	installed := took(func() {
		c.createOf(c.kind, tried)
		c.awaitApplied()
	})
	objects := c.objects()
	c.settled(c.operator)
	idle := c.idle()
	drift := took(func() { c.drift(objects) })
	c.settled(c.operator)
	upgrade := took(c.upgradeOfChanged)
	c.settled(c.operator)
	if again := c.idle(); again > 0 {
		c.Errorf("after the upgrade, 3 idle reconciles cost %d requests", again)
	}
	objects = c.objects()
	deletion := took(func() { c.deletion(objects) })
	return fmt.Sprintf("%10s %14d %10s %10s %10s  %s", installed, idle, drift, upgrade, deletion, strings.Join(kindsOf(objects), ", "))
}

func kindsOf(objects []*unstructured.Unstructured) []string {
	var kinds []string
	for _, object := range objects {
		kinds = append(kinds, object.GetKind())
	}
	return kinds
}

// awaitApplied waits until the current spec is applied, and nothing is in the way.
func (c *triedChart) awaitApplied() {
	c.Helper()
	c.await("the release is applied", func() error {
		object := c.of(c.kind, tried)
		if generation, _, _ := unstructured.NestedInt64(object.Object, "status", "release", "generation"); generation != object.GetGeneration() {
			ready, _ := kit.Condition(object, "Ready")
			return fmt.Errorf("generation %d is applied, not %d: %s: %s", generation, object.GetGeneration(), ready.Reason, ready.Message)
		}
		stalled, err := kit.Condition(object, "Stalled")
		if err == nil && stalled.Status == metav1.ConditionTrue {
			err = fmt.Errorf("it is stalled: %s: %s", stalled.Reason, stalled.Message)
		}
		return err
	})
}

// objects are the live objects of the release.
func (c *triedChart) objects() []*unstructured.Unstructured {
	c.Helper()
	text, _, _ := unstructured.NestedString(c.of(c.kind, tried).Object, "status", "release", "children")
	var children []struct{ APIVersion, Kind, Name string }
	c.must(json.Unmarshal([]byte(text), &children))
	var objects []*unstructured.Unstructured
	for _, child := range children {
		object := kit.Object(child.APIVersion, child.Kind)
		c.get(object, child.Name)
		objects = append(objects, object)
	}
	return objects
}

// idle returns the number of requests of three idle reconciles.
func (c *triedChart) idle() int {
	c.Helper()
	before, revisions, reconciles := c.record(), len(c.records()), c.operator.reconciles(c.T)
	for i := range 3 {
		c.editOf(c.kind, tried, kit.Annotate("example.com/poke", fmt.Sprint(i, time.Now())))
		c.await("the edit is reconciled", func() error { return atLeast(c.operator.reconciles(c.T)-reconciles, i+1) })
	}
	c.settled(c.operator)
	if now := len(c.records()); now != revisions {
		c.Errorf("%d revisions became %d, although nobody edited anything", revisions, now)
	}
	count := 0
	for _, request := range before.of(c.operator) {
		if request.Writes() {
			c.Errorf("an idle reconcile writes: %s", request)
		}
		if request.ObjectRef.Resource != "pods" { // now and then, those of what is not healthy are looked at; nobody runs them here
			count++
		}
	}
	return count
}

// drift deletes each object, and changes it, and each time waits until it is back as it was.
func (c *triedChart) drift(objects []*unstructured.Unstructured) {
	c.Helper()
	for _, object := range objects {
		c.must(env.Client.Delete(ctx, object.DeepCopy(), client.PropagationPolicy(metav1.DeletePropagationBackground)))
		c.release(object)
		again := object.DeepCopy()
		c.await(describeObject(object)+" is back", func() error {
			err := env.Client.Get(ctx, client.ObjectKeyFromObject(object), again)
			if err == nil && again.GetUID() == object.GetUID() {
				err = fmt.Errorf("it is not gone")
			}
			return err
		})
		c.must(env.Client.Patch(ctx, again.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"app.kubernetes.io/managed-by":"somebody"}}}`))))
		c.await(describeObject(object)+" is repaired", func() error {
			err := env.Client.Get(ctx, client.ObjectKeyFromObject(object), again)
			if got := again.GetLabels()["app.kubernetes.io/managed-by"]; err == nil && got != "Helm" {
				err = fmt.Errorf("it is managed by %s", got)
			}
			return err
		})
	}
	c.awaitApplied()
}

// release removes the finalizers of Kubernetes' own controllers, none of which runs here.
func (c *triedChart) release(object *unstructured.Unstructured) {
	c.Helper()
	if len(object.GetFinalizers()) > 0 {
		c.must(client.IgnoreNotFound(env.Client.Patch(ctx, object.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))))
	}
}

func describeObject(object *unstructured.Unstructured) string {
	return object.GetKind() + " " + object.GetName()
}

// upgradeOfChanged edits the custom resource after its objects were changed while it was paused.
func (c *triedChart) upgradeOfChanged() {
	c.Helper()
	c.editOf(c.kind, tried, kit.Pause(true))
	c.awaitOf(c.kind, tried, "Paused", "True")
	changes := map[types.UID]bool{}
	for _, child := range c.objects() {
		changed := child.DeepCopy()
		changed.SetLabels(map[string]string{"webapp.demo.welcome.domain/managed-by": "welcome-operator", "somebody": "else"})
		if data, ok := changed.Object["data"].(map[string]any); ok {
			clear(data)
			data["somebody"] = "else"
		}
		if err := env.Client.Update(ctx, changed); !apierrors.IsInvalid(err) { // it is immutable
			c.must(err)
			changes[child.GetUID()] = true
		}
	}
	c.editOf(c.kind, tried, kit.Pause(false), kit.Set(c.edited, "after"))
	c.awaitApplied()
	// What an edit does not change is not looked at until the cache shows that it was changed, which may be
	// after the upgrade.
	c.await("every object is as the chart wants it", func() error {
		for _, child := range c.objects() {
			if labels := child.GetLabels(); labels["app.kubernetes.io/managed-by"] != "Helm" || changes[child.GetUID()] && labels["somebody"] != "else" {
				return fmt.Errorf("%s has the labels %v", describeObject(child), child.GetLabels())
			}
			edited := any("after")
			if child.GetKind() == "Secret" {
				edited = base64.StdEncoding.EncodeToString([]byte("after"))
			}
			if data, ok := child.Object["data"].(map[string]any); ok && data["edited"] != nil && data["edited"] != edited {
				return fmt.Errorf("the edit has not reached %s: %v", describeObject(child), data)
			}
		}
		return nil
	})
}

// discard deletes what is left of a chart that failed: attempts for it would count as requests of the next
// one.
func (c *triedChart) discard() {
	object := c.of(c.kind, tried)
	err := env.Client.Delete(ctx, object)
	if err == nil { // its deletion may fail as well
		err = env.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
	}
	c.must(client.IgnoreNotFound(err))
}

// deletion deletes the custom resource, and waits until only what the chart keeps is left.
func (c *triedChart) deletion(objects []*unstructured.Unstructured) {
	c.Helper()
	object := c.of(c.kind, tried)
	c.must(env.Client.Delete(ctx, object))
	c.awaitGone(object.DeepCopy(), tried)
	for _, child := range objects {
		keep := child.GetAnnotations()["helm.sh/resource-policy"] == "keep"
		err := env.Client.Get(ctx, client.ObjectKeyFromObject(child), child)
		switch {
		case keep && (err != nil || child.GetDeletionTimestamp() != nil):
			c.Errorf("%s was to be kept: %v", describeObject(child), err)
		case !keep && err == nil && child.GetDeletionTimestamp() == nil:
			c.Errorf("%s is left", describeObject(child))
		}
	}
	if left := c.records(); len(left) > 0 {
		c.Errorf("%d records are left", len(left))
	}
}
