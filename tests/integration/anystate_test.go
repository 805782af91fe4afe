package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/kit"
	"demo.welcome.domain/welcome-operator/tests/waiting"
)

var (
	stateCases = flag.Int("state-cases", 1000, "how many changes of objects TestAnyState makes that the API server takes")
	stateSeed  = flag.Uint64("state-seed", 0, "of what TestAnyState chooses at random, to choose the same again; 0 for another one each time")
)

const (
	// zoos are how many custom resources are changed at once, besides the one that nobody touches.
	zoos = 40
	// untouched is its name. Each name is as long as the others, and stands for nothing else in the objects.
	untouched = "zoo-untouched"
)

// zooKinds are the kinds of the chart: those whose whole spec is the chart's, and the others, to whose
// objects anybody may add fields.
var zooKinds = []struct {
	apiVersion, kind string
	whole            bool
}{
	{"apps/v1", "Deployment", true}, {"apps/v1", "StatefulSet", true}, {"apps/v1", "DaemonSet", true}, {"v1", "Service", true},
	{"networking.k8s.io/v1", "Ingress", true}, {"networking.k8s.io/v1", "NetworkPolicy", true}, {"policy/v1", "PodDisruptionBudget", true},
	{"autoscaling/v2", "HorizontalPodAutoscaler", true}, {"batch/v1", "CronJob", true}, {"batch/v1", "Job", false}, {"v1", "ConfigMap", false},
	{"v1", "ServiceAccount", false}, {"v1", "PersistentVolumeClaim", false}, {"rbac.authorization.k8s.io/v1", "Role", false}, {"rbac.authorization.k8s.io/v1", "RoleBinding", false},
}

// othersInSpec are the fields of a whole spec that stay as others have set them, or that the cluster assigns.
var othersInSpec = map[string][]string{
	"CronJob":    {"suspend"},
	"Deployment": {"paused"},
	"Ingress":    {"ingressClassName"},
	"Service":    {"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "loadBalancerClass", "loadBalancerIP"},
}

func zoo(namespace, name string, edits ...kit.Edit) *unstructured.Unstructured {
	object := kit.Object(kindsGroup+"/v1", "Zoo")
	object.SetNamespace(namespace)
	object.SetName(name)
	for _, edit := range edits {
		edit(object)
	}
	return object
}

// states is one run of TestAnyState.
type states struct {
	*scene
	schemas  schemas
	random   *rand.Rand
	names    []string
	number   int
	ways     map[string][]mutation // by kind: all that may be done to a field
	queues   map[string][]mutation // by kind: what of it is still to be done
	twice    map[string]bool       // by kind: whether all has been done, and two of it are done at once
	refused  map[string]int
	accepted map[string]int
	mu       sync.Mutex
	history  map[string][]string // what was done, by object
}

// Whatever the live objects look like, an upgrade reaches what the chart wants. While the operator looks
// away, somebody adds, changes, removes, reorders and renames each field of each kind of child that the API
// server lets them; then the custom resource is edited.
func TestAnyState(t *testing.T) {
	s := &states{scene: newScene(t), number: 1, ways: map[string][]mutation{}, queues: map[string][]mutation{}, twice: map[string]bool{}, refused: map[string]int{}, accepted: map[string]int{}, history: map[string][]string{}}
	seed := *stateSeed
	for seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed: go test ./tests/integration -run TestAnyState -state-cases=%d -state-seed=%d", *stateCases, seed)
	s.random = rand.New(rand.NewPCG(seed, 0))
	s.serveKind("Zoo")
	entry, err := kit.EntryOf(kit.File("tests/charts/zoo"))
	s.must(err)
	settings := settings{
		namespaces: []string{s.namespace}, account: s.accountForCharts(),
		watches: entryOf("Zoo", "tests/charts/zoo", "  maxConcurrentReconciles: 8\n  recreate: [ConfigMap, Job.batch]\n"+entry),
	}
	operator := s.ownOperator(settings)
	for i := range zoos {
		s.names = append(s.names, fmt.Sprintf("zoo-%09d", i))
	}
	for _, name := range append(s.names, untouched) {
		s.must(env.Client.Create(ctx, zoo(s.namespace, name, kit.Set("number", s.number))))
	}
	s.reaches()
	s.readPaths()
	for round := 0; s.total(s.accepted) < *stateCases; round++ {
		away := round%2 == 0 // the other times, it is told to look away
		if away {
			operator.Stop()
		} else {
			s.each(s.names, func(name string) error { return s.patchZoo(name, kit.Pause(true)) })
			s.await("all are paused", func() error { return s.all(s.names, "Paused", metav1.ConditionTrue) })
		}
		s.mutate()
		s.number++
		s.each(append(s.names, untouched), func(name string) error {
			return s.patchZoo(name, kit.Pause(false), kit.Set("number", s.number))
		})
		if away {
			operator = s.ownOperator(settings)
		}
		s.reaches()
	}
	ways := 0
	for _, kind := range zooKinds {
		t.Logf("%-24s %4d ways, %4d cases accepted, %4d refused", kind.kind, len(s.ways[kind.kind]), s.accepted[kind.kind], s.refused[kind.kind])
		ways += len(s.ways[kind.kind])
	}
	t.Logf("%d kinds, %d ways to change a field, %d cases accepted and %d refused by the API server; seed %d", len(zooKinds), ways, s.total(s.accepted), s.total(s.refused), seed)
	s.tidy()
}

func (s *states) total(counts map[string]int) (sum int) {
	for _, count := range counts {
		sum += count
	}
	return sum
}

// each calls do for all names, some at a time.
func (s *states) each(names []string, do func(name string) error) {
	s.Helper()
	errs := make(chan error)
	next := make(chan string)
	for range 8 {
		go func() {
			for name := range next {
				errs <- do(name)
			}
		}()
	}
	go func() {
		for _, name := range names {
			next <- name
		}
		close(next)
	}()
	for range names {
		s.must(<-errs)
	}
}

func (s *states) patchZoo(name string, edits ...kit.Edit) error {
	content, err := json.Marshal(zoo(s.namespace, name, edits...).Object)
	if err != nil {
		return err
	}
	return env.Client.Patch(ctx, zoo(s.namespace, name), client.RawPatch("application/merge-patch+json", content))
}

// all is nil if all of these are there, and say so of themselves as they are now.
func (s *states) all(names []string, condition string, status metav1.ConditionStatus) error {
	list := kit.List(kindsGroup+"/v1", "Zoo")
	if err := env.Client.List(ctx, list, client.InNamespace(s.namespace)); err != nil {
		return err
	}
	var errs []error
	missing := len(names)
	for _, item := range list.Items {
		if !slices.Contains(names, item.GetName()) {
			continue
		}
		missing--
		got, err := kit.Condition(&item, condition)
		if err == nil && (got.Status != status || kit.Seen(&item) != nil) {
			err = fmt.Errorf("%s: %s is %s: %s", item.GetName(), condition, got.Status, got.Message)
		}
		if failed, e := kit.Condition(&item, "ReleaseFailed"); e == nil && failed.Status == metav1.ConditionTrue {
			err = fmt.Errorf("%s: %s", item.GetName(), failed.Message)
		}
		errs = append(errs, err)
	}
	if missing > 0 {
		errs = append(errs, fmt.Errorf("%d are missing", missing))
	}
	return errors.Join(errs...)
}

// readPaths lists what may be done to the objects as they are.
func (s *states) readPaths() {
	s.Helper()
	discovery, err := discovery.NewDiscoveryClientForConfig(env.Admin)
	s.must(err)
	var versions []string
	for _, kind := range zooKinds {
		versions = append(versions, kind.apiVersion)
	}
	s.schemas, err = readSchemas(discovery.RESTClient(), versions...)
	s.must(err)
	for _, kind := range zooKinds {
		object := kit.Object(kind.apiVersion, kind.kind)
		s.get(object, untouched)
		schema, err := s.schemas.of(object)
		s.must(err)
		for _, m := range s.schemas.mutations(schema, object.Object) {
			switch {
			case slices.Contains([]string{"apiVersion", "kind", "status"}, m.path[0]):
			case m.path[0] == "metadata" && (len(m.path) < 2 || m.path[1] != "labels" && m.path[1] != "annotations"): // whose and which it is
			default:
				s.ways[kind.kind] = append(s.ways[kind.kind], m)
			}
		}
		s.queues[kind.kind] = shuffled(s.ways[kind.kind], s.random)
	}
}

// mutate changes each child of each zoo in one way, as long as there are any.
func (s *states) mutate() {
	s.Helper()
	var done sync.WaitGroup
	errs := make(chan error, len(zooKinds))
	for _, kind := range zooKinds {
		random := rand.New(rand.NewPCG(s.random.Uint64(), 0))
		done.Go(func() {
			for _, name := range s.names {
				if err := s.mutateOne(kind.apiVersion, kind.kind, name, random); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	done.Wait()
	close(errs)
	for err := range errs {
		s.must(err)
	}
}

func shuffled(ways []mutation, random *rand.Rand) []mutation {
	ways = slices.Clone(ways)
	random.Shuffle(len(ways), func(i, j int) { ways[i], ways[j] = ways[j], ways[i] })
	return ways
}

// next is what to do to an object of a kind: each way once, and then, with other values, two of them at once.
func (s *states) next(kind string, random *rand.Rand) []mutation {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queues[kind]) < 2 && (s.twice[kind] || len(s.queues[kind]) == 0) {
		s.queues[kind], s.twice[kind] = shuffled(s.ways[kind], random), true
	}
	count := 1
	if s.twice[kind] {
		count = 2
	}
	defer func() { s.queues[kind] = s.queues[kind][count:] }()
	return s.queues[kind][:count]
}

// mutateOne does the next that the API server takes.
func (s *states) mutateOne(apiVersion, kind, name string, random *rand.Rand) error {
	object := kit.Object(apiVersion, kind)
	if err := s.find(object, name); err != nil {
		return err
	}
	for {
		changed, how := object.DeepCopy(), s.next(kind, random)
		for _, m := range how {
			m.in(changed, random)
		}
		err := env.Client.Update(ctx, changed)
		s.mu.Lock()
		switch {
		case err != nil:
			s.refused[kind]++
		case changed.GetResourceVersion() != object.GetResourceVersion():
			s.accepted[kind]++
			for _, version := range []*unstructured.Unstructured{object, changed} {
				version.SetManagedFields(nil)
				version.SetGeneration(0)
				version.SetResourceVersion("")
			}
			patch, _ := client.MergeFrom(object).Data(changed)
			s.history[kind+" "+name] = append(s.history[kind+" "+name], fmt.Sprintf("%s: %.600s", how, patch))
			s.mu.Unlock()
			return nil
		}
		s.mu.Unlock()
		if answer := apierrors.APIStatus(nil); err != nil && !errors.As(err, &answer) {
			return fmt.Errorf("%s %s: %s: %w", kind, name, how, err)
		}
	}
}

// reaches fails unless all are upgraded, and each object is as the chart wants it.
func (s *states) reaches() {
	s.Helper()
	start := time.Now()
	if err := waiting.For(ctx, s.Logf, "all are deployed", 2*time.Minute, 200*time.Millisecond, func(context.Context) error {
		return s.all(append(s.names, untouched), "Deployed", metav1.ConditionTrue)
	}); err != nil {
		s.Fatalf("%v\n%s", err, s.historyOf(err))
	}
	err := waiting.For(ctx, s.Logf, "all objects are what the chart wants", patience, 500*time.Millisecond, func(context.Context) error { return s.compare() })
	if err != nil {
		s.Fatalf("%v\n%s", err, s.historyOf(err))
	}
	s.Logf("number %d: all are what the chart wants after %s", s.number, time.Since(start).Round(100*time.Millisecond))
}

// historyOf tells what was done to the objects of the zoos that an error names.
func (s *states) historyOf(err error) string {
	var told []string
	for _, object := range slices.Sorted(maps.Keys(s.history)) {
		_, name, _ := strings.Cut(object, " ")
		if strings.Contains(err.Error(), name) {
			told = append(told, object+"\n    "+strings.Join(s.history[object], "\n    "))
		}
	}
	return strings.Join(told, "\n")
}

// compare is nil if the objects of all are as the chart wants them.
func (s *states) compare() error {
	wanted := map[string]map[string]any{}
	records := s.records(untouched)
	rendered, err := kit.Objects([]byte(s.unpack(&records[len(records)-1]).Manifest))
	s.must(err)
	for _, object := range rendered {
		wanted[object.GetKind()] = named(object, untouched)
	}
	var errs []error
	for _, kind := range zooKinds {
		list := kit.List(kind.apiVersion, kind.kind)
		s.must(env.Client.List(ctx, list, client.InNamespace(s.namespace), client.MatchingLabels{kit.ManagedBy: "welcome-operator"}))
		objects := map[string]map[string]any{}
		for _, object := range list.Items {
			objects[object.GetName()] = named(&object, object.GetName())
		}
		for _, name := range append(s.names, untouched) {
			object := objects[name]
			if object == nil {
				errs = append(errs, fmt.Errorf("%s %s is not there", kind.kind, name))
				continue
			}
			differences := lacks("", object, wanted[kind.kind])
			if kind.whole && objects[untouched] != nil { // else that is told below
				differences = append(differences, unequal(kind.kind, object, objects[untouched])...)
			}
			if len(differences) > 0 {
				errs = append(errs, fmt.Errorf("%s %s: %s", kind.kind, name, strings.Join(differences, "; ")))
			}
		}
	}
	return errors.Join(errs...)
}

// named is an object with another name in the place of its own, wherever that stands.
func named(object *unstructured.Unstructured, name string) map[string]any {
	object = object.DeepCopy()
	object.SetManagedFields(nil)
	text, _ := json.Marshal(object.Object)
	content := map[string]any{}
	_ = json.Unmarshal(bytes.ReplaceAll(text, []byte(name), []byte("NAME")), &content)
	return content
}

// lacks lists what of wanted is not in live.
func lacks(path string, live, wanted any) []string {
	switch wanted := wanted.(type) {
	case map[string]any:
		var all []string
		for _, key := range slices.Sorted(maps.Keys(wanted)) {
			all = append(all, lacks(path+"."+key, child(live, key), wanted[key])...)
		}
		return all
	case []any:
		elements, _ := live.([]any)
		if len(elements) != len(wanted) {
			return []string{fmt.Sprintf("%s has %d elements, not %d", path, len(elements), len(wanted))}
		}
		var all []string
		for i := range wanted {
			all = append(all, lacks(fmt.Sprintf("%s[%d]", path, i), elements[i], wanted[i])...)
		}
		return all
	}
	if !reflect.DeepEqual(live, wanted) {
		return []string{fmt.Sprintf("%s is %v, not %v", path, live, wanted)}
	}
	return nil
}

// unequal lists where the spec of an object is not that of the one that nobody has touched.
func unequal(kind string, object, control map[string]any) []string {
	spec := func(of map[string]any) map[string]any {
		fields := copied(of["spec"]).(map[string]any)
		for _, name := range othersInSpec[kind] {
			delete(fields, name)
		}
		ports, _ := fields["ports"].([]any)
		for _, port := range ports {
			if _, assigned := child(port, "nodePort").(float64); assigned {
				port.(map[string]any)["nodePort"] = "assigned"
			}
		}
		metadata, _, _ := unstructured.NestedMap(fields, "template", "metadata")
		if unstructured.RemoveNestedField(metadata, "annotations", "kubectl.kubernetes.io/restartedAt"); metadata != nil {
			_ = unstructured.SetNestedMap(fields, metadata, "template", "metadata")
		}
		return fields
	}
	return append(lacks(".spec", spec(object), spec(control)), more(".spec", spec(object), spec(control))...)
}

// more lists what live has besides wanted.
func more(path string, live, wanted any) []string {
	var all []string
	switch live := live.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(live)) {
			if live[key] == nil { // a creationTimestamp, as older API servers have it
				continue
			}
			if child(wanted, key) == nil {
				all = append(all, fmt.Sprintf("%s.%s is %v", path, key, live[key]))
				continue
			}
			all = append(all, more(path+"."+key, live[key], child(wanted, key))...)
		}
	case []any:
		if elements, _ := wanted.([]any); len(elements) == len(live) {
			for i := range live {
				all = append(all, more(fmt.Sprintf("%s[%d]", path, i), live[i], elements[i])...)
			}
		}
	}
	return all
}

// tidy deletes what other tests would have to go through.
func (s *states) tidy() {
	s.Helper()
	for _, name := range append(s.names, untouched) {
		s.must(env.Client.Delete(ctx, zoo(s.namespace, name)))
	}
	s.must(waiting.For(ctx, s.Logf, "all are gone", 2*time.Minute, 200*time.Millisecond, func(context.Context) error {
		list := kit.List(kindsGroup+"/v1", "Zoo")
		if err := env.Client.List(ctx, list, client.InNamespace(s.namespace)); err != nil || meta.LenList(list) > 0 {
			return errors.Join(fmt.Errorf("%d are there", meta.LenList(list)), err)
		}
		return nil
	}))
}
