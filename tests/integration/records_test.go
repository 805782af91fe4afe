package integration

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/release"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/controlplane"
	"demo.welcome.domain/welcome-operator/tests/kit"
)

// forge rewrites the newest release record of a custom resource.
func (s *scene) forge(name string, change func(record *corev1.ConfigMap, rel *release.Release)) {
	s.Helper()
	s.must(retry.RetryOnConflict(retry.DefaultBackoff, func() error { return s.forgeOnce(name, change) }))
}

func (s *scene) forgeOnce(name string, change func(record *corev1.ConfigMap, rel *release.Release)) error {
	s.Helper()
	records := s.records(name)
	record := &records[len(records)-1]
	rel := s.unpack(record)
	before := record.DeepCopy()
	change(record, rel)
	if record.Data["release"] == before.Data["release"] {
		text, err := json.Marshal(rel)
		s.must(err)
		record.Data["release"] = pack(text)
	}
	return env.Client.Update(ctx, record)
}

// unpack reads the release in a record.
func (s *scene) unpack(record *corev1.ConfigMap) *release.Release {
	s.Helper()
	packed, err := base64.StdEncoding.DecodeString(record.Data["release"])
	s.must(err)
	reader, err := gzip.NewReader(bytes.NewReader(packed))
	s.must(err)
	text, err := io.ReadAll(reader)
	s.must(err)
	rel := &release.Release{}
	s.must(json.Unmarshal(text, rel))
	return rel
}

func pack(text []byte) string {
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	_, _ = writer.Write(text) // to memory
	_ = writer.Close()
	return base64.StdEncoding.EncodeToString(packed.Bytes())
}

func serviceManifest(namespace string) string {
	return fmt.Sprintf("\n---\napiVersion: v1\nkind: Service\nmetadata: {name: precious, namespace: %s}\nspec: {ports: [{port: 1}]}\n", namespace)
}

// Whoever may edit ConfigMaps in a namespace must not borrow the operator's rights, and must not be able to stop it: what a
// forged record names survives an upgrade and the deletion, which go through.
func TestForgedRecord(t *testing.T) {
	s := newScene(t)
	elsewhere := s.newNamespace("elsewhere-")
	there := s.foreignService(elsewhere, "precious")
	role := &rbacv1.ClusterRole{ObjectMeta: objectMeta("", s.namespace)}
	s.must(env.Client.Create(ctx, role))

	for name, c := range map[string]struct {
		forge func(record *corev1.ConfigMap, rel *release.Release)
		event string // part of what is told
	}{
		"a Service of another namespace": {
			func(_ *corev1.ConfigMap, rel *release.Release) {
				rel.Manifest += serviceManifest(elsewhere)
			}, elsewhere,
		},
		"a Service of this namespace": {
			func(record *corev1.ConfigMap, rel *release.Release) {
				rel.Manifest += serviceManifest(record.Namespace)
			}, "not controlled by this custom resource",
		},
		"a cluster-scoped object": {
			func(_ *corev1.ConfigMap, rel *release.Release) {
				rel.Manifest += "\n---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: " + role.Name + "}\n"
			}, "cluster-scoped",
		},
		"an unknown kind": {
			func(_ *corev1.ConfigMap, rel *release.Release) {
				rel.Manifest += "\n---\napiVersion: example.com/v1\nkind: Unheard\nmetadata: {name: of}\n"
			}, "Unheard",
		},
		"a list": {
			func(_ *corev1.ConfigMap, rel *release.Release) {
				rel.Manifest += "\n---\napiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Service, metadata: {name: precious, namespace: " + elsewhere + "}}\n"
			}, elsewhere,
		},
		"no object": {
			func(_ *corev1.ConfigMap, rel *release.Release) { rel.Manifest += "\n---\n{{ not: [yaml\n" }, "no object",
		},
		"hooks": {
			func(_ *corev1.ConfigMap, rel *release.Release) {
				rel.Hooks = []*release.Hook{{
					Name: "forged", Kind: "ConfigMap", Events: []release.HookEvent{release.HookPreUpgrade, release.HookPreDelete, release.HookPostDelete},
					Manifest: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: forged}\n",
				}}
			}, "",
		},
		"another release": {
			func(_ *corev1.ConfigMap, rel *release.Release) {
				rel.Name, rel.Namespace, rel.Version, rel.Info, rel.Chart = "other", elsewhere, 99, nil, nil
			}, "",
		},
		"nothing that can be read": {
			func(record *corev1.ConfigMap, _ *release.Release) { record.Data["release"] = "rubbish" }, "cannot be read",
		},
		"more than fits into memory": {
			func(record *corev1.ConfigMap, _ *release.Release) {
				record.Data["release"] = pack([]byte(`{"manifest": "` + strings.Repeat("A", 64<<20) + `"}`))
			}, "unpacks to more than",
		},
		"an interrupted upgrade": {
			func(record *corev1.ConfigMap, rel *release.Release) {
				record.Labels["status"], rel.Info.Status = string(release.StatusPendingUpgrade), release.StatusPendingUpgrade
			}, "",
		},
		"children of an unknown kind": {
			func(record *corev1.ConfigMap, _ *release.Release) {
				record.Annotations["webapp.demo.welcome.domain/children"] = `[{"apiVersion": "example.com/v1", "kind": "Unheard", "name": "of"}]`
			}, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.operator()
			here := s.foreignService(s.namespace, "precious")
			cr := s.create("hello", kit.Greet("before"))
			s.awaitGreeting("hello", "before")
			s.awaitDeployed("hello")
			s.forge("hello", c.forge)
			s.edit("hello", kit.Greet("after"))
			s.awaitGreeting("hello", "after")
			s.awaitDeployed("hello")
			if c.event != "" {
				s.awaitEvent("hello", "ForeignObject", c.event)
			}

			s.forge("hello", c.forge)
			s.delete(cr)
			s.awaitGone(&appsv1.Deployment{}, "hello")
			s.awaitGone(&corev1.Service{}, "hello")
			s.unharmed(there)
			s.unharmed(here)
			s.must(env.Client.Get(ctx, client.ObjectKeyFromObject(role), &rbacv1.ClusterRole{}))
			s.awaitGone(&corev1.ConfigMap{}, "forged")
		})
	}
}

// A forged record that names hundreds of kinds has the API server asked about few: others wait for each answer.
func TestForgedRecordOfManyKinds(t *testing.T) {
	s := newScene(t)
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}})
	s.deploy("hello", kit.Greet("before"))
	s.settled(operator)
	s.forge("hello", func(_ *corev1.ConfigMap, rel *release.Release) {
		for i := range 200 {
			rel.Manifest += fmt.Sprintf("\n---\napiVersion: a%d.example.com/v1\nkind: Unheard\nmetadata: {name: of}\n", i)
		}
	})
	since := s.record()
	s.edit("hello", kit.Greet("after"))
	s.awaitGreeting("hello", "after")
	s.awaitDeployed("hello")
	s.awaitEvent("hello", "ForeignObject", "Unheard")
	asked := slices.DeleteFunc(since.of(operator), func(one controlplane.Request) bool { return one.ObjectRef.Resource != "" })
	if len(asked) == 0 || len(asked) > 40 {
		t.Errorf("a record with 200 unknown kinds has %v", asked)
	}
}

// What a new chart or spec no longer wants goes also where no record tells of it any more, because the custom
// resource owns it. Its hooks, and the records of its release, are not among that.
func TestRecordsLostWithAnObjectThatGoes(t *testing.T) {
	s := newScene(t)
	s.operator()
	s.deploy("hello", kit.Set("networkPolicy.enabled", true), kit.Greet("before"))
	s.get(&networkingv1.NetworkPolicy{}, "hello")
	s.pause()
	for _, record := range s.records("hello") {
		s.must(env.Client.Delete(ctx, &record))
	}
	s.edit("hello", kit.Set("networkPolicy.enabled", false), kit.Greet("after"), kit.Pause(false))
	s.awaitGreeting("hello", "after")
	s.awaitDeployed("hello")
	s.awaitGone(&networkingv1.NetworkPolicy{}, "hello")
	s.must(s.hasRecords("hello", 1))
}

// Without records that can be found, a release is made anew over the objects that it already has.
func TestRecordsLost(t *testing.T) {
	for name, lose := range map[string]func(*corev1.ConfigMap) error{
		"deleted": func(record *corev1.ConfigMap) error { return env.Client.Delete(ctx, record) },
		"without labels": func(record *corev1.ConfigMap) error {
			record.Labels = nil
			return env.Client.Update(ctx, record)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			operator := s.operator()
			s.deploy("hello", kit.Greet("before"))
			s.settled(operator)
			deployment := &appsv1.Deployment{}
			s.get(deployment, "hello")
			for _, record := range s.records("hello") {
				s.must(lose(&record))
			}
			s.edit("hello", kit.Greet("after"))
			s.awaitGreeting("hello", "after")
			s.awaitDeployed("hello")
			s.must(atLeast(len(s.records("hello")), 1)) // two, if it was reconciled between the loss and the edit
			now := &appsv1.Deployment{}
			s.get(now, "hello")
			if now.UID != deployment.UID {
				t.Error("the Deployment was made anew")
			}
		})
	}
}

// A record that somebody takes out of the operator's sight as it is made is told of at once, and not waited
// for while others wait.
func TestRecordOutOfSight(t *testing.T) {
	s := newScene(t)
	lift := s.mutate(`[JSONPatch{op: "add", path: "/metadata/labels/webapp.demo.welcome.domain~1managed-by", value: "nobody"}]`, "configmaps", func() error {
		probe := &corev1.ConfigMap{ObjectMeta: objectMeta(s.namespace, "probe")}
		probe.Labels = map[string]string{"some": "label"}
		if err := env.Client.Create(ctx, probe, client.DryRunAll); err != nil || len(probe.Labels) != 2 {
			return errors.Join(fmt.Errorf("it has the labels %v", probe.Labels), err)
		}
		return nil
	}, admissionregistrationv1.Create)
	s.ownOperator(settings{namespaces: []string{s.namespace}})
	s.create("hello")
	s.awaitCondition("hello", "Ready", "False", "it has lost its label ", "Let the webhook or policy that takes it off ConfigMaps leave it there")
	lift()
	s.awaitDeployed("hello")
	s.must(s.hasRecords("hello", 1))
}

// A record from which a webhook or policy takes its owner is told of, and nothing is begun with it: it would not
// count at the next reconcile, and each one would install again.
func TestRecordWithoutItsOwner(t *testing.T) {
	s := newScene(t)
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}})
	s.deploy("hello", kit.Greet("before"))
	s.settled(operator)
	lift := s.dropOwners(admissionregistrationv1.Create, admissionregistrationv1.Update)
	s.edit("hello", kit.Greet("after"))
	s.create("new")
	for _, name := range []string{"hello", "new"} {
		s.awaitCondition(name, "Ready", "False", "has lost its owner reference", "webhook or policy", "ConfigMaps with the label "+kit.ManagedBy)
		s.awaitCondition(name, "Irreconcilable", "True")
	}
	s.must(s.hasRecords("hello", 1))
	s.awaitGreeting("hello", "before")
	s.must(s.isGone(&appsv1.Deployment{}, "new"))
	lift()
	s.awaitGreeting("hello", "after")
	s.awaitDeployed("hello")
	s.awaitDeployed("new")
	s.must(s.hasRecords("hello", 2))
	s.must(s.hasRecords("new", 1))
}

// It is told, too, where only the last write loses the owner, after the objects have changed.
func TestRecordThatLosesItsOwner(t *testing.T) {
	s := newScene(t)
	s.ownOperator(settings{namespaces: []string{s.namespace}})
	s.deploy("hello", kit.Greet("before"))
	lift := s.dropOwners(admissionregistrationv1.Update)
	s.edit("hello", kit.Greet("after"))
	s.awaitCondition("hello", "Ready", "False", "has lost its owner reference", "webhook or policy")
	s.awaitCondition("hello", "Irreconcilable", "True")
	lift()
	s.awaitDeployed("hello")
	s.awaitGreeting("hello", "after")
}

// A policy that puts a label "owner" on everything writes over Helm's: nobody would find the record again, and each
// reconcile would install, with its hooks, and other passwords. Nothing is begun then.
func TestRecordWithALabelOfAPolicy(t *testing.T) {
	for name, operations := range map[string][]admissionregistrationv1.OperationType{
		"always":     {admissionregistrationv1.Create, admissionregistrationv1.Update},
		"at updates": {admissionregistrationv1.Update},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			operator := s.ownOperator(settings{namespaces: []string{s.namespace}})
			s.deploy("hello", kit.Greet("before"))
			s.settled(operator)
			lift := s.labelOwners(&corev1.ConfigMap{ObjectMeta: objectMeta(s.namespace, "probe")}, "configmaps", operations...)
			s.edit("hello", kit.Greet("after"))
			s.create("new")
			welcomes := []string{"hello", "new"}
			if len(operations) == 1 {
				welcomes = welcomes[:1] // what can be repeated is recorded once
			}
			for _, name := range welcomes {
				s.awaitCondition(name, "Ready", "False", "has lost the labels name="+name+",owner=helm", "webhook or policy", "ConfigMaps with the label "+kit.ManagedBy)
				s.awaitCondition(name, "Irreconcilable", "True")
			}
			if len(operations) > 1 {
				s.must(s.hasRecords("hello", 1))
				s.awaitGreeting("hello", "before")
				s.must(s.isGone(&appsv1.Deployment{}, "new"))
			}
			lift()
			s.awaitGreeting("hello", "after")
			for _, name := range []string{"hello", "new"} {
				s.awaitDeployed(name)
			}
			s.must(s.hasRecords("new", 1))
		})
	}
}

// Who forges records that list thousands of objects holds up nobody in other namespaces.
func TestForgedRecordsHoldUpNobody(t *testing.T) {
	s := newScene(t)
	s.ownOperator(settings{})
	others := &scene{T: t, namespace: s.newNamespace("others-"), operators: s.operators}
	others.deploy("hello")
	var names []string
	for i := range 8 {
		names = append(names, fmt.Sprintf("forged-%d", i))
		s.create(names[i])
	}
	for _, name := range names {
		s.awaitDeployed(name)
		welcome := s.welcome(name)
		for i := range 10 {
			record := &corev1.ConfigMap{ObjectMeta: objectMeta(s.namespace, fmt.Sprintf("sh.helm.release.v1.%s.v%d", name, 1000+i))}
			record.Labels = map[string]string{"owner": "helm", "name": name, "status": "superseded", kit.ManagedBy: "welcome-operator"}
			record.Annotations = map[string]string{childrenOfRecord: "[" + strings.Repeat("{},", 10_800) + "{}]"}
			record.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(welcome, welcome.GroupVersionKind())}
			s.must(env.Client.Create(ctx, record))
		}
	}
	for _, name := range names {
		s.edit(name, kit.Greet("forged"))
	}
	start := time.Now()
	for _, greeting := range []string{"once", "twice", "thrice"} {
		others.edit("hello", kit.Greet(greeting))
		others.awaitGreeting("hello", greeting)
	}
	if took := time.Since(start); took > 15*time.Second { // without a bound: 30 s
		t.Errorf("three edits took %s", took)
	}
	for _, name := range names {
		s.awaitGreeting(name, "forged")
	}
}

// A policy that puts a value of its own into the label by which Helm knows what has become of a revision is told of, too.
func TestRecordWithAStatusOfAPolicy(t *testing.T) {
	for name, operations := range map[string][]admissionregistrationv1.OperationType{
		"always":     {admissionregistrationv1.Create, admissionregistrationv1.Update},
		"at updates": {admissionregistrationv1.Update},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			operator := s.ownOperator(settings{namespaces: []string{s.namespace}})
			s.deploy("hello", kit.Greet("before"))
			s.settled(operator)
			lift := s.overwrite("status", &corev1.ConfigMap{ObjectMeta: objectMeta(s.namespace, "probe")}, "configmaps", operations...)
			s.edit("hello", kit.Greet("after"))
			s.awaitCondition("hello", "Ready", "False", `has the label status=team-a, which Helm does not know`, "webhook or policy", "ConfigMaps with the label "+kit.ManagedBy)
			if len(operations) > 1 {
				s.must(s.hasRecords("hello", 1))
				s.awaitGreeting("hello", "before")
			}
			lift()
			s.awaitGreeting("hello", "after")
			s.awaitDeployed("hello")
		})
	}
}

// labelOwners has a policy write over the label "owner" of a resource, of which probe is one, until lift is called. Updates
// are among operations.
func (s *scene) labelOwners(probe client.Object, resource string, operations ...admissionregistrationv1.OperationType) (lift func()) {
	s.Helper()
	return s.overwrite("owner", probe, resource, operations...)
}

// overwrite is labelOwners for another label.
func (s *scene) overwrite(label string, probe client.Object, resource string, operations ...admissionregistrationv1.OperationType) (lift func()) {
	s.Helper()
	s.must(env.Client.Create(ctx, probe))
	return s.mutate(fmt.Sprintf(`[JSONPatch{op: "add", path: "/metadata/labels/%s", value: "team-a"}]`, label), resource, func() error {
		probe.SetLabels(map[string]string{label: "ours"})
		if err := env.Client.Update(ctx, probe, client.DryRunAll); err != nil || probe.GetLabels()[label] == "ours" {
			return errors.Join(fmt.Errorf("it has the labels %v", probe.GetLabels()), err)
		}
		return nil
	}, operations...)
}

// dropOwners has a policy take the owner references off ConfigMaps, until lift is called. Updates are among operations.
func (s *scene) dropOwners(operations ...admissionregistrationv1.OperationType) (lift func()) {
	s.Helper()
	probe := &corev1.ConfigMap{ObjectMeta: objectMeta(s.namespace, "probe")}
	s.must(env.Client.Create(ctx, probe))
	return s.mutate(`has(object.metadata.ownerReferences) ? [JSONPatch{op: "remove", path: "/metadata/ownerReferences"}] : []`, "configmaps", func() error {
		probe.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "other", UID: "other"}}
		if err := env.Client.Update(ctx, probe, client.DryRunAll); err != nil || len(probe.OwnerReferences) > 0 {
			return errors.Join(fmt.Errorf("it has the owners %v", probe.OwnerReferences), err)
		}
		return nil
	}, operations...)
}

// Whoever may edit ConfigMaps can have nobody change a record any more. The release goes on all the same,
// with one revision for each edit, and nothing is rolled back.
func TestImmutableRecord(t *testing.T) {
	s := newScene(t)
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}})
	cr := s.deploy("hello", kit.Greet("first"))
	s.settled(operator)
	freeze := func() {
		records := s.records("hello")
		newest := &records[len(records)-1]
		newest.Immutable = new(true)
		s.must(env.Client.Update(ctx, newest))
	}
	for i, greeting := range []string{"second", "third"} {
		freeze()
		if greeting == "third" { // metadata can be changed always
			newest := &s.records("hello")[i]
			newest.Labels["status"] = string(release.StatusPendingUpgrade)
			s.must(env.Client.Update(ctx, newest))
		}
		deployment := &appsv1.Deployment{}
		s.get(deployment, "hello")
		s.edit("hello", kit.Greet(greeting))
		s.awaitGreeting("hello", greeting)
		s.awaitDeployed("hello")
		s.settled(operator)
		now := &appsv1.Deployment{}
		s.get(now, "hello")
		if now.Generation != deployment.Generation+1 {
			t.Errorf("the edit has changed the Deployment %d times", now.Generation-deployment.Generation)
		}
		if records := s.records("hello"); len(records) != i+2 || records[i+1].Labels["status"] != string(release.StatusDeployed) || records[i].Labels["status"] == string(release.StatusDeployed) {
			t.Errorf("the records are %v", names(records))
		}
	}
	freeze()
	s.delete(cr)
	s.awaitGone(&appsv1.Deployment{}, "hello")
	s.must(s.hasRecords("hello", 0))
}
