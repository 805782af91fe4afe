package integration

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/release"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// peak is the highest memory that the operator has used, in MiB.
func (s *scene) peak(operator *process) int64 {
	s.Helper()
	peak, err := operator.Peak()
	s.must(err)
	return peak >> 20
}

// warm makes the operator work for a while, so that its heap reaches the size to which its garbage collector
// lets it grow.
func (s *scene) warm(names ...string) {
	s.Helper()
	for _, greeting := range []string{"once", "twice", "thrice"} {
		for _, name := range names {
			s.edit(name, kit.Greet(greeting))
		}
		for _, name := range names {
			s.awaitGreeting(name, greeting)
		}
	}
}

// Who may write a ConfigMap beside a Welcome can forge a record of some kilobytes that unpacks to many
// megabytes, and is decoded to gigabytes. Neither one of them nor hundreds take the memory of the operator,
// and its Welcome goes on.
func TestForgedRecordsTakeNoMemory(t *testing.T) {
	// MiB, twice what was measured: up to half of a peak is garbage that is not yet collected, which differs
	// by 15 MiB from run to run. Without the bound of what is unproven they cost more.
	const limit = 64
	bombs := map[string]string{
		"small parts":       `{"hooks": [` + strings.Repeat("{},", 5<<20) + `{}]}`,
		"small values":      `{"config": {"a": [` + strings.Repeat("1,", 7<<20) + `1]}}`,
		"depth":             `{"config": ` + strings.Repeat(`{"a":`, 9000) + "1" + strings.Repeat("}", 9000) + `}`,
		"escapes":           `{"manifest": "` + strings.Repeat(`\u0041`, 2<<20) + `"}`,
		"text":              `{"manifest": "` + strings.Repeat("A", 2<<20-100) + `"}`,
		"text to be quoted": `{"manifest": "a: '` + strings.Repeat("<", 63<<10) + `'"}`,
		"no UTF-8":          `{"manifest": "` + strings.Repeat("\xff", 2<<20-100) + `"}`,
		"manifests":         `{"manifest": "` + strings.Repeat(`---\na: b\n`, 300_000) + `"}`,
		"few manifests":     `{"manifest": "` + strings.Repeat(`---\na: b\n`, 800) + `"}`,
		"deep YAML":         `{"manifest": "a: ` + strings.Repeat("[", 4900) + strings.Repeat("]", 4900) + `"}`,
		"deeper YAML":       `{"manifest": "a: ` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `"}`,
		"deep lists":        `{"manifest": "a:\n` + strings.Repeat("- ", 4900) + `b"}`,
		"anchors":           `{"manifest": "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n"}`,
	}
	s := newScene(t)
	only := settings{namespaces: []string{s.namespace}}
	operator := s.ownOperator(only)
	others := []string{"one", "two", "three", "four"}
	for _, name := range append(others, "hello") {
		s.deploy(name)
	}
	s.warm(append(others, "hello")...)
	s.settled(operator)
	before := s.peak(operator)
	packed := map[string]string{}
	for name, bomb := range bombs {
		packed[name] = pack([]byte(bomb))
		was := s.peak(operator)
		s.forge("hello", func(record *corev1.ConfigMap, _ *release.Release) { record.Data["release"] = packed[name] })
		s.edit("hello", kit.Greet(name))
		s.awaitGreeting("hello", name)
		s.awaitDeployed("hello")
		t.Logf("%s: %d KiB, %d unpacked, cost %d MiB", name, len(packed[name])>>10, len(bomb)>>10, s.peak(operator)-was)
	}
	// Hundreds, that the operator has all to believe to be of this Welcome; the newest of them is found in
	// the middle of an upgrade.
	welcome := s.welcome("hello")
	revision := 1000
	for range 30 {
		for _, data := range packed {
			revision++
			record := &corev1.ConfigMap{ObjectMeta: objectMeta(s.namespace, fmt.Sprintf("sh.helm.release.v1.hello.v%d", revision)), Data: map[string]string{"release": data}}
			record.Labels = map[string]string{"owner": "helm", "name": "hello", "status": "failed", kit.ManagedBy: "welcome-operator"}
			record.Annotations = map[string]string{childrenOfRecord: "[" + strings.Repeat("{},", 80<<10) + "{}]"}
			record.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(welcome, welcome.GroupVersionKind())}
			s.must(env.Client.Create(ctx, record))
		}
	}
	t.Logf("with hundreds: %d MiB", s.peak(operator))
	for _, name := range append(others, "hello") {
		s.forge(name, func(record *corev1.ConfigMap, _ *release.Release) {
			record.Labels["status"] = "pending-upgrade"
			record.Data["release"] = packed["text"]
		})
	}
	for _, name := range append(others, "hello") {
		s.edit(name, kit.Greet("all"))
	}
	for _, name := range append(others, "hello") {
		s.awaitGreeting(name, "all")
		s.awaitDeployed(name)
	}
	s.settled(operator)
	if cost := s.peak(operator) - before; cost >= limit {
		t.Errorf("forged records cost %d MiB over %d", cost, before)
	} else {
		t.Logf("%d forged records cost %d MiB over %d", revision-1000+len(packed), cost, before)
	}

	operator.Stop()
	operator = s.ownOperator(only)
	s.edit("hello", kit.Greet("again"))
	s.awaitGreeting("hello", "again")
	s.settled(operator)
	if cost := s.peak(operator) - before; cost >= limit {
		t.Errorf("at a start, forged records cost %d MiB", cost)
	}
	s.delete(s.welcome("hello"))
}

// Who may write ConfigMaps or Services anywhere can put the operator's label on them. What is not the
// operator's is not kept in memory.
func TestFloodOfLabelledObjectsTakesNoMemory(t *testing.T) {
	s := newScene(t)
	with, profiles := s.profiled(settings{})
	operator := s.ownOperator(with)
	s.deploy("hello")
	s.warm("hello")
	s.settled(operator)
	before := s.held(operator, profiles)
	elsewhere := s.newNamespace("elsewhere-")
	bulk := strings.Repeat("x", 255<<10)
	flood := map[string]func(*corev1.ConfigMap){
		"foreign annotations": func(c *corev1.ConfigMap) { c.Annotations = map[string]string{"a": bulk} },
		"foreign annotations of records": func(c *corev1.ConfigMap) {
			c.Name = "sh.helm.release.v1." + c.Name + ".v1"
			c.Annotations = map[string]string{"a": bulk}
		},
		"the operator's annotations": func(c *corev1.ConfigMap) {
			c.Name, c.Annotations = "sh.helm.release.v1."+c.Name+".v1", map[string]string{childrenOfRecord: bulk[:100<<10], inputsOfRecord: bulk[:100<<10]}
		},
		"owners, finalizers and data": func(c *corev1.ConfigMap) {
			c.Name = "sh.helm.release.v1." + c.Name + ".v1"
			c.Finalizers = []string{"example.com/" + bulk[:60]}
			c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: bulk, Name: bulk, UID: types.UID(bulk), Controller: new(true)}}
			c.Data = map[string]string{"release": bulk}
		},
	}
	for name, forge := range flood {
		for i := range 100 {
			c := &corev1.ConfigMap{ObjectMeta: objectMeta(elsewhere, fmt.Sprintf("flood-%s-%d", kit.NameOf(name), i))}
			c.Labels = map[string]string{kit.ManagedBy: "welcome-operator"}
			forge(c)
			s.must(env.Client.Create(ctx, c))
		}
	}
	for i := range 100 {
		service := &corev1.Service{ObjectMeta: objectMeta(elsewhere, fmt.Sprintf("flood-%d", i)), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
		service.Labels = map[string]string{kit.ManagedBy: "welcome-operator"}
		service.Annotations = map[string]string{"a": bulk}
		s.must(env.Client.Create(ctx, service))
	}
	s.deploy("later") // its record was seen, so what was written before it was, too
	s.warm("hello", "later")
	s.settled(operator)
	s.takesNoMemory(operator, profiles, before, 20, "500 labelled objects of 255 KiB and more")
}

// The operator keeps in memory only the annotations of a custom resource that it reads, and writes back none of the others.
func TestAnnotationsOfAWelcomeAreNobodysButItsAuthors(t *testing.T) {
	s := newScene(t)
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}})
	mine := map[string]string{"example.com/mine": "stays", "kubectl.kubernetes.io/last-applied-configuration": "{}", kit.Group + "/paused": "false"}
	check := func(when string) {
		t.Helper()
		now := s.welcome("hello").GetAnnotations()
		for key, value := range mine {
			if now[key] != value {
				t.Errorf("%s, %s is %q", when, key, now[key])
			}
		}
	}
	s.create("hello", func(w *unstructured.Unstructured) {
		w.SetAnnotations(mine)
		w.SetFinalizers([]string{"example.com/held"})
	})
	s.awaitDeployed("hello")
	check("after the installation")
	s.edit("hello", kit.Greet("after"))
	s.awaitGreeting("hello", "after")
	s.awaitDeployed("hello")
	check("after an upgrade")
	s.deleteChildren()
	s.awaitExists(&appsv1.Deployment{}, "hello")
	s.settled(operator)
	check("after a repair")
	s.must(env.Client.Delete(ctx, s.welcome("hello")))
	s.await("the operator has let go", func() error {
		if now := s.welcome("hello").GetFinalizers(); len(now) != 1 || now[0] != "example.com/held" {
			return errors.New(strings.Join(now, ", "))
		}
		return nil
	})
	check("after the deletion")
	s.edit("hello", func(w *unstructured.Unstructured) { w.SetFinalizers(nil) })
	s.awaitGone(kit.Welcome(s.namespace, "hello"), "hello")
}

// profiled makes an operator serve its profiles, at the address that is returned.
func (s *scene) profiled(with settings) (settings, string) {
	s.Helper()
	profiles, err := kit.FreeAddress()
	s.must(err)
	with.args = append(with.args, "--pprof-bind-address="+profiles)
	return with, profiles
}

// held is how many bytes an operator keeps in memory once it has collected its garbage. What else it has of the
// machine is garbage, or was: how much differs from run to run, and is given back at leisure.
func (s *scene) held(operator *process, profiles string) int64 {
	s.Helper()
	status, _, err := kit.Scrape(ctx, "http://"+profiles+"/debug/pprof/heap?gc=1", "")
	s.must(err)
	if status != http.StatusOK {
		s.Fatalf("the collection is answered with %d", status)
	}
	return int64(operator.metric(s.T, "go_gc_heap_live_bytes", ""))
}

// takesNoMemory waits until an operator holds, after a flood of something, less than limit MiB more than before.
func (s *scene) takesNoMemory(operator *process, profiles string, before, limit int64, flood string) {
	s.Helper()
	s.await("the flood takes no memory", func() error {
		now := s.held(operator, profiles)
		if more := (now - before) >> 20; more >= limit {
			return fmt.Errorf("it takes %d MiB over %d", more, before>>20)
		}
		s.Logf("%s take %d MiB over %d; at most it was %d", flood, (now-before)>>20, before>>20, s.peak(operator))
		return nil
	})
}
