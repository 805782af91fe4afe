package object

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Who could write the fingerprint into the cluster would hide a drift, and what its pods request.
func TestSlimBelievesNoAnnotationOfTheCluster(t *testing.T) {
	forged := parse(t, deploymentYAML)
	forged.SetAnnotations(map[string]string{fingerprintAnnotation: "forged"})
	if _, err := slim(forged); err != nil {
		t.Fatal(err)
	}
	if got := forged.GetAnnotations()[fingerprintAnnotation]; got == "forged" {
		t.Error("the fingerprint is what the object says")
	}
}

func TestSlimKeepsWhatAPodRequests(t *testing.T) {
	for name, c := range map[string]struct {
		containers  string
		cpu, memory float64
	}{
		"no requests":             {"[{name: a}]", 0, 0},
		"the sum":                 {"[{resources: {requests: {cpu: 100m, memory: 32Mi}}}, {resources: {requests: {cpu: '1'}}}]", 1.1, 32 << 20},
		"what nobody can add up":  {"[{resources: {requests: {cpu: '1e3000000', memory: '1e3000000'}}}, {resources: {requests: {cpu: 1m, memory: '1'}}}]", 0.001, 1},
		"a limit without request": {"[{resources: {limits: {cpu: '2', memory: 1Gi}, requests: {cpu: 500m}}}]", 0.5, 1 << 30},
	} {
		t.Run(name, func(t *testing.T) {
			workload := parse(t, strings.Replace(deploymentYAML, "[{name: welcome, image: i}]", c.containers, 1))
			for range 2 { // what is listed at first comes twice
				if _, err := slim(workload); err != nil {
					t.Fatal(err)
				}
				if cpu, memory := Requested(workload, "cpu"), Requested(workload, "memory"); cpu != c.cpu || memory != c.memory {
					t.Errorf("%v cores and %v bytes, want %v and %v", cpu, memory, c.cpu, c.memory)
				}
			}
		})
	}
	service := parse(t, "{apiVersion: v1, kind: Service, metadata: {name: x, labels: {app: x}, ownerReferences: [{apiVersion: webapp.demo.welcome.domain/v1, kind: Welcome, name: x, uid: u, controller: true}]}, spec: {}}")
	if _, err := slim(service); err != nil || len(service.GetAnnotations()) != 1 {
		t.Errorf("a Service is kept with %v: %v", service.GetAnnotations(), err)
	}
}

func TestSlimKeepsTheFingerprintAndDropsTheBulk(t *testing.T) {
	whole := parse(t, deploymentYAML)
	want := Fingerprint(whole, nil)
	for range 2 { // what is listed at first comes twice
		if _, err := slim(whole); err != nil {
			t.Fatal(err)
		}
		if got := whole.GetAnnotations()[fingerprintAnnotation]; got != want {
			t.Errorf("fingerprint %q, want %q", got, want)
		}
	}
	if _, found, _ := unstructured.NestedMap(Unpack(whole).Object, "spec", "template"); found {
		t.Error("the pod template is still in memory")
	}
	if _, found, _ := unstructured.NestedFieldNoCopy(Unpack(whole).Object, "status", "replicas"); !found {
		t.Error("the status is gone")
	}
}

// Who may make an object of a small text can have it name the operator's custom resource: a megabyte of {} takes fifty.
func TestSlimKeepsLittleOfWhatIsLarge(t *testing.T) {
	many := make([]any, 100_000)
	for i := range many {
		many[i] = map[string]any{}
	}
	for kind, field := range map[string]string{"NetworkPolicy": "ingress", "Ingress": "rules", "Service": "ports", "Deployment": "selector"} {
		whole := parse(t, deploymentYAML)
		whole.SetKind(kind)
		whole.Object["spec"] = map[string]any{"replicas": int64(2), field: many}
		whole.Object["status"] = map[string]any{"replicas": int64(2), "conditions": many, "large": strings.Repeat("x", 1<<20)}
		if _, err := slim(whole); err != nil {
			t.Fatal(err)
		}
		whole = Unpack(whole)
		text, err := json.Marshal(whole)
		if err != nil || len(text) > 2048 {
			t.Errorf("of a %s, %d bytes are kept: %v", kind, len(text), err)
		}
		if replicas, _, _ := unstructured.NestedInt64(whole.Object, "status", "replicas"); replicas != 2 {
			t.Errorf("of a %s, the replicas are gone: %v", kind, whole.Object)
		}
	}
}

// A Service may have ten thousand ports, and is looked at whenever something in it changes, before all others of its kind.
func TestFingerprintOfManyPorts(t *testing.T) {
	ports := make([]any, 10_000)
	for i := range ports {
		ports[i] = map[string]any{"name": strconv.Itoa(i), "port": int64(i + 1)}
	}
	service := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Service", "spec": map[string]any{"ports": ports}}}
	allocated := testing.Benchmark(func(b *testing.B) {
		for b.Loop() {
			Fingerprint(service, nil)
		}
	}).AllocedBytesPerOp()
	if allocated > 64<<20 {
		t.Errorf("it takes %d MiB", allocated>>20)
	}
}

// slim is that of an operator which serves greetings and Welcomes.
var slim = IgnoredByKind{
	greeting().GroupVersionKind().GroupKind():              nil,
	{Group: "webapp.demo.welcome.domain", Kind: "Welcome"}: nil,
}.Slim

// What is kept has no owner: its marks say whose it is.
func TestSlimOfWhatIsKept(t *testing.T) {
	kept := parse(t, deploymentYAML)
	kept.SetAnnotations(map[string]string{Policy: "keep", ReleaseName: "hello"})
	kept.SetOwnerReferences(nil)
	Adopt(kept, greeting())
	child := Child{UID: "u", Fingerprint: Fingerprint(kept, nil)}
	kept.SetUID("u")
	if _, err := slim(kept); err != nil {
		t.Fatal(err)
	}
	if kind, of := MadeFor(kept); kind.String() != "Greeting.example.com" || of.Name != "hello" || !child.Intact(kept, greeting(), "") {
		t.Errorf("it is made for %v %q, intact: %t", kind, of, child.Intact(kept, greeting(), ""))
	}
	for name, change := range map[string]func(*unstructured.Unstructured){
		"made anew": func(o *unstructured.Unstructured) { o.SetUID("another") },
		"kept no longer": func(o *unstructured.Unstructured) {
			o.SetAnnotations(map[string]string{fingerprintAnnotation: child.Fingerprint})
		},
		"with a controller": func(o *unstructured.Unstructured) {
			o.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(greeting(), greeting().GroupVersionKind())})
		},
	} {
		other := kept.DeepCopy()
		if change(other); child.Intact(other, greeting(), "") {
			t.Errorf("%s, it is intact", name)
		}
	}
}

// Anybody can put the label on an object by which the cache selects, and other operators do.
func TestSlimKeepsNothingOfWhatNobodyControls(t *testing.T) {
	bulk := strings.Repeat("x", 64<<10)
	for name, forge := range map[string]func(*unstructured.Unstructured){
		"no owner":                 func(o *unstructured.Unstructured) { o.SetOwnerReferences(nil) },
		"an owner of another kind": func(o *unstructured.Unstructured) { setOwnerKind(o, "Farewell") },
		"an owner of a long name":  func(o *unstructured.Unstructured) { setOwnerName(o, bulk) },
		"kept, and of a long name": func(o *unstructured.Unstructured) { o.SetOwnerReferences(nil) },
	} {
		t.Run(name, func(t *testing.T) {
			forged := parse(t, deploymentYAML)
			forge(forged)
			forged.SetFinalizers([]string{bulk})
			annotations := map[string]string{"a": bulk}
			for i := range 10_000 { // each has a mark in a fingerprint
				annotations[strconv.Itoa(i)] = ""
			}
			if strings.HasPrefix(name, "kept") {
				annotations[Policy], annotations[CustomResource], annotations[ReleaseName] = Keep, "Welcome.example.com", bulk
			}
			forged.SetAnnotations(annotations)
			forged.SetLabels(map[string]string{"a": bulk})
			forged.Object["status"] = map[string]any{"a": bulk}
			forged.Object["other"] = bulk
			if _, err := slim(forged); err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(Unpack(forged))
			if err != nil || len(text) > 1024 {
				t.Errorf("%d bytes are kept: %v", len(text), err)
			}
			if kept := forged; kept.GetName() != "x" || kept.GetResourceVersion() != "1" || kept.GetKind() != "Deployment" {
				t.Errorf("it is no longer known what it is: %s", text)
			}
		})
	}
}

func setOwnerKind(o *unstructured.Unstructured, kind string) {
	owners := o.GetOwnerReferences()
	owners[0].Kind = kind
	o.SetOwnerReferences(owners)
}

func setOwnerName(o *unstructured.Unstructured, name string) {
	owners := o.GetOwnerReferences()
	owners[0].Name = name
	o.SetOwnerReferences(owners)
}

// What keeps an object that is being deleted is told. Else nobody reads finalizers, and somebody may have set thousands.
func TestSlimKeepsTheFinalizersOfWhatIsGoing(t *testing.T) {
	for name, c := range map[string]struct {
		going      bool
		finalizers []string
		kept       int
	}{
		"going":        {true, []string{"a/b", "c/d"}, 2},
		"going, bulky": {true, slices.Repeat([]string{"a/b"}, maxReference), 0},
		"not going":    {false, []string{"a/b"}, 0},
	} {
		whole := parse(t, deploymentYAML)
		whole.SetFinalizers(c.finalizers)
		if c.going {
			whole.SetDeletionTimestamp(&metav1.Time{Time: time.Now()})
		}
		if _, err := slim(whole); err != nil {
			t.Fatal(err)
		}
		if got := Unpack(whole).GetFinalizers(); len(got) != c.kept {
			t.Errorf("%s: %d are kept, want %d", name, len(got), c.kept)
		}
	}
}
