package integration

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// configured is a chart with a ConfigMap that cannot be changed once it is immutable.
func configured(t *testing.T, settings string) string {
	return watchesWithMore(t, `
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}
  annotations: {keep: "{{ .Values.podLabels.keep }}"{{ if .Values.podLabels.keep }}, helm.sh/resource-policy: keep{{ end }}}
data: {"{{ .Values.name }}": it}`) + settings
}

func (s *scene) freezeConfigMap() types.UID {
	s.Helper()
	config := &corev1.ConfigMap{}
	s.get(config, "hello")
	config.Immutable = new(true)
	s.must(env.Client.Update(ctx, config))
	return config.UID
}

// awaitConfigMap waits until the ConfigMap has a key, and another UID than the old one.
func (s *scene) awaitConfigMap(key string, old types.UID) {
	s.Helper()
	s.await("the ConfigMap is another one, with the key "+key, func() error {
		config := &corev1.ConfigMap{}
		if err := s.find(config, "hello"); err != nil {
			return err
		}
		if config.UID == old || config.Data[key] == "" {
			return fmt.Errorf("it is %s with %v", config.UID, config.Data)
		}
		return nil
	})
}

// What cannot be changed is said by name, and made anew by whoever may delete it; Helm's force does not give
// that to the author.
func TestWhatCannotBeChangedIsSaid(t *testing.T) {
	s := newScene(t)
	s.ownOperator(settings{namespaces: []string{s.namespace}, watches: configured(t, "")})
	s.deploy("hello", kit.Greet("before"))
	old := s.freezeConfigMap()
	s.edit("hello", kit.Greet("after"), kit.Annotate("helm.sdk.operatorframework.io/upgrade-force", "true"))
	s.awaitCondition("hello", "Ready", "False", `ConfigMap "hello"`, "data: ", "immutable", "watches.yaml", "recreate: [ConfigMap]")
	s.awaitCondition("hello", "Stalled", "True")
	config := &corev1.ConfigMap{}
	s.get(config, "hello")
	if config.UID != old {
		t.Error("it was deleted")
	}
	s.must(env.Client.Delete(ctx, config))
	s.awaitConfigMap("after", old)
	s.awaitDeployed("hello")
	s.awaitGreeting("hello", "after")
}

// A workload that would select other pods is not advised what does not help: with the selector left to others,
// the API server does not take the pods' labels, and pods that a StatefulSet has left stay in the way of those
// of the new one, which does not select them.
func TestWhatSelectsOtherPodsIsSaid(t *testing.T) {
	for _, kind := range []string{"Deployment", "StatefulSet"} {
		t.Run(kind, func(t *testing.T) {
			s := newScene(t)
			s.grant("apps", "statefulsets")
			s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, "apiVersion: apps/v1\nkind: "+kind+`
metadata: {name: {{ .Release.Name }}-more}
spec:
  selector: {matchLabels: {greets: {{ .Values.name }}}}
  template:
    metadata: {labels: {greets: {{ .Values.name }}}}
    spec: {containers: [{name: a, image: a}]}`)})
			s.deploy("hello", kit.Greet("before"))
			s.edit("hello", kit.Greet("after"))
			s.awaitReason("hello", "Rejected", kind+` "hello-more"`, "spec", "recreate: ["+kind+".apps] in watches.yaml", "or delete it by hand", "its pods start anew")
			if ready, err := s.condition("hello", "Ready"); err != nil || strings.Contains(ready.Message, "driftDetection") || strings.Contains(ready.Message, "orphan") {
				t.Errorf("it says: %s, %v", ready.Message, err)
			}
		})
	}
}

// Who deletes by hand what cannot be changed, one object after the other, as the message says of each, has what the
// chart wants in their place, and not what was there.
func TestWhatCannotBeChangedIsDeletedByHand(t *testing.T) {
	s := newScene(t)
	s.grant("", "configmaps")
	const frozen = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}-%s}\nimmutable: true\ndata: {name: {{ .Values.name | quote }}}"
	s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, fmt.Sprintf(frozen, "first")+"\n---\n"+fmt.Sprintf(frozen, "second"))})
	s.deploy("hello", kit.Greet("before"))
	s.edit("hello", kit.Greet("after"))
	s.awaitCondition("hello", "Ready", "False", `ConfigMap "hello-first"`, `ConfigMap "hello-second"`, "immutable", "or delete it by hand")
	remove := func(name string) {
		s.must(env.Client.Delete(ctx, &corev1.ConfigMap{ObjectMeta: objectMeta(s.namespace, name)}))
	}
	remove("hello-second")
	s.awaitCondition("hello", "Ready", "False", `ConfigMap "hello-first"`, "made again with the rest: ConfigMap hello-second")
	remove("hello-first")
	s.awaitDeployed("hello")
	s.awaitGreeting("hello", "after")
	for _, name := range []string{"hello-first", "hello-second"} {
		config := &corev1.ConfigMap{}
		if s.get(config, name); config.Data["name"] != "after" {
			t.Errorf("%s has %v", name, config.Data)
		}
	}
}

// What somebody has deleted for an edit that is not to be any more is put back, whatever the next one fails of.
func TestWhatWasDeletedForAnotherSpec(t *testing.T) {
	s := newScene(t)
	s.grant("", "configmaps")
	const first, second = "hello-first", "hello-second"
	s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, `
{{- range list "first" "second" }}
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ $.Release.Name }}-{{ . }}}
immutable: true
data: {name: {{ $.Values.name | quote }}}
---
{{- end }}
{{- if eq (int .Values.replicas) 3 }}
apiVersion: v1
kind: ConfigMap
metadata: {name: No_Name}
{{- end }}`)})
	s.deploy("hello", kit.Greet("before"))
	s.edit("hello", kit.Greet("after"))
	s.awaitCondition("hello", "Ready", "False", first, second)
	s.must(env.Client.Delete(ctx, &corev1.ConfigMap{ObjectMeta: objectMeta(s.namespace, second)}))
	s.awaitCondition("hello", "Ready", "False", first, "made again with the rest: ConfigMap "+second)
	s.edit("hello", kit.Greet("before"), kit.Set("replicas", 3))
	s.awaitCondition("hello", "Ready", "False", "No_Name")
	s.awaitExists(&corev1.ConfigMap{}, second)
}

// A Service whose chart asks for an address again does not silently stay without one, as the API server would have it.
func TestServiceThatIsHeadlessNoLonger(t *testing.T) {
	const service = `
apiVersion: v1
kind: Service
metadata: {name: "{{ .Release.Name }}-peers"}
spec: { {{ if eq .Values.name "before" }}clusterIP: None, {{ end }}ports: [{port: 80}] }`
	address := func(s *scene) string {
		peers := &corev1.Service{}
		s.get(peers, "hello-peers")
		return peers.Spec.ClusterIP
	}
	t.Run("is told", func(t *testing.T) {
		s := newScene(t)
		s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, service)})
		s.deploy("hello", kit.Greet("before"))
		s.edit("hello", kit.Greet("after"))
		s.awaitCondition("hello", "Ready", "False", `Service "hello-peers"`, "spec.clusterIP", "None", "recreate: [Service]", "delete it by hand")
		s.must(env.Client.Delete(ctx, &corev1.Service{ObjectMeta: objectMeta(s.namespace, "hello-peers")}))
		s.awaitDeployed("hello")
		if has := address(s); has == "" || has == corev1.ClusterIPNone {
			t.Errorf("its address is %q", has)
		}
	})
	t.Run("is made anew", func(t *testing.T) {
		s := newScene(t)
		s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, service) + "  recreate: [Service]\n"})
		s.deploy("hello", kit.Greet("before"))
		s.edit("hello", kit.Greet("after"))
		s.awaitDeployed("hello")
		s.awaitEvent("hello", "Recreated", `Service "hello-peers"`, "spec.clusterIP")
		if has := address(s); has == "" || has == corev1.ClusterIPNone {
			t.Errorf("its address is %q", has)
		}
	})
	t.Run("may be left to others", func(t *testing.T) {
		s := newScene(t)
		s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, service) + `  driftDetection: {ignore: [{target: {kind: Service}, paths: ["/spec/clusterIP"]}]}` + "\n"})
		s.deploy("hello", kit.Greet("before"))
		s.edit("hello", kit.Greet("after"))
		s.awaitGreeting("hello", "after")
		s.awaitDeployed("hello")
		if has := address(s); has != corev1.ClusterIPNone {
			t.Errorf("its address is %q", has)
		}
	})
}

// recreateConfigMap edits hello, whose ConfigMap cannot be changed, and awaits that it is made anew.
func (s *scene) recreateConfigMap() {
	s.Helper()
	s.deploy("hello", kit.Greet("before"))
	old := s.freezeConfigMap()
	s.edit("hello", kit.Greet("after"))
	s.awaitConfigMap("after", old)
	s.awaitDeployed("hello")
}

// What cannot be changed is made anew where watches.yaml says so. While a finalizer keeps it, others have their turn.
func TestRecreate(t *testing.T) {
	s := newScene(t)
	s.ownOperator(settings{namespaces: []string{s.namespace}, watches: configured(t, "  recreate: [ConfigMap]\n  maxConcurrentReconciles: 1\n")})
	s.recreateConfigMap()
	s.awaitEvent("hello", "Recreated", `ConfigMap "hello"`, "data: ", "immutable")
	s.awaitEvent("hello", "Upgraded", "ConfigMap hello")
	if events, err := s.kubectl("", "get", "events"); err != nil || strings.Contains(events, "; deleted: ") {
		t.Errorf("nothing is deleted for good: %v\n%s", err, events)
	}

	config := &corev1.ConfigMap{}
	s.get(config, "hello")
	config.Finalizers, config.Immutable = []string{"example.com/theirs"}, new(true)
	s.must(env.Client.Update(ctx, config))
	s.edit("hello", kit.Greet("at-last"))
	s.await("it is deleted", func() error {
		if s.get(config, "hello"); config.DeletionTimestamp == nil {
			return errors.New("it is not")
		}
		return nil
	})
	s.deploy("other", kit.Greet("other"))
	s.must(env.Client.Patch(ctx, config, client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`))))
	s.awaitConfigMap("at-last", config.UID)
	s.awaitDeployed("hello")
}

// So it is where a policy rules names: that asks for the new object by another name is nothing that it would refuse.
func TestRecreateWhereNamesAreRuled(t *testing.T) {
	s := newScene(t)
	s.deny(admissionregistrationv1.Validation{Expression: `object.metadata.name.matches("^(hello|sh[.]helm[.]release)")`}, admissionregistrationv1.Create, "", "configmaps", func() error {
		return env.Client.Create(ctx, &corev1.ConfigMap{ObjectMeta: objectMeta(s.namespace, "dry-run")}, client.DryRunAll)
	})
	s.ownOperator(settings{namespaces: []string{s.namespace}, watches: configured(t, "  recreate: [ConfigMap]\n")})
	s.recreateConfigMap()
}

// Finalizers that keep what is to be made anew, in all of a namespace, take no more workers than hooks may.
func TestRecreateHoldsUpNobody(t *testing.T) {
	s := newScene(t)
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}, watches: configured(t, "  recreate: [ConfigMap]\n")})
	const stuck = 40 // more than there are workers
	for i := range stuck {
		s.create(fmt.Sprintf("stuck-%d", i), kit.Greet("before"))
	}
	for i := range stuck {
		name := fmt.Sprintf("stuck-%d", i)
		s.awaitDeployed(name)
		s.must(env.Client.Patch(ctx, &corev1.ConfigMap{ObjectMeta: objectMeta(s.namespace, name)}, client.RawPatch(types.MergePatchType, []byte(`{"immutable": true, "metadata": {"finalizers": ["example.com/theirs"]}}`))))
	}
	s.settled(operator)
	for i := range stuck {
		s.edit(fmt.Sprintf("stuck-%d", i), kit.Greet("after"))
	}
	s.await("as many wait as may", func() error {
		return atLeast(int(operator.metric(t, "controller_runtime_active_workers", `controller="welcome-controller"`)), 8)
	})
	start := time.Now()
	s.deploy("other", kit.Greet("other"))
	if took := time.Since(start); took > 25*time.Second { // who waits for them does so for 30 s
		t.Errorf("another one took %s", took)
	}
	for i := range stuck {
		s.must(env.Client.Patch(ctx, &corev1.ConfigMap{ObjectMeta: objectMeta(s.namespace, fmt.Sprintf("stuck-%d", i))}, client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`))))
	}
}

// Nothing is deleted for the sake of what the API server would never take, nor what the chart asks to keep.
func TestRecreateDeletesNothingInVain(t *testing.T) {
	s := newScene(t)
	s.ownOperator(settings{namespaces: []string{s.namespace}, watches: configured(t, "  recreate: [ConfigMap]\n")})
	s.deploy("hello", kit.Greet("before"))
	old := s.freezeConfigMap()
	s.edit("hello", kit.Greet("no key of a ConfigMap"))
	s.awaitCondition("hello", "Ready", "False", "data[no key of a ConfigMap]")
	s.edit("hello", kit.Greet("after"), kit.Set("podLabels", map[string]any{"keep": "yes"}))
	s.awaitCondition("hello", "Ready", "False", `ConfigMap "hello"`, "asks to keep it")
	config := &corev1.ConfigMap{}
	if s.get(config, "hello"); config.UID != old || config.Data["before"] == "" {
		t.Errorf("it is %s with %v", config.UID, config.Data)
	}
}

// Where a quota has no room for another one, whoever deletes the old one by hand has what the chart wants in its place.
func TestRecreateWithoutRoom(t *testing.T) {
	s := newScene(t)
	controllers, err := env.RunControllers("resourcequota-controller")
	s.must(err)
	s.Cleanup(controllers.Stop)
	s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithFile(t, "templates/_helpers.tpl",
		`{{- define "welcome.selectorLabels" -}}`, "{{- define \"welcome.selectorLabels\" -}}\ngreets: {{ .Values.name }}") + "  recreate: [Deployment.apps]\n"})
	const counted = "count/deployments.apps"
	quota := &corev1.ResourceQuota{ObjectMeta: objectMeta(s.namespace, "one"), Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{counted: resource.MustParse("1")}}}
	s.must(env.Client.Create(ctx, quota))
	used := func(want int64) {
		s.Helper()
		s.await(fmt.Sprintf("the quota counts %d", want), func() error {
			s.get(quota, quota.Name)
			if used, counts := quota.Status.Used[counted]; !counts || used.Value() != want {
				return fmt.Errorf("it counts %v", quota.Status.Used)
			}
			return nil
		})
	}
	used(0)
	s.deploy("hello", kit.Greet("before"))
	used(1)
	s.edit("hello", kit.Greet("after"))
	s.awaitCondition("hello", "Ready", "False", "exceeded quota: one", "delete it by hand")
	s.must(controllers.Freeze()) // it may take a while until the quota has room
	s.must(env.Client.Delete(ctx, &appsv1.Deployment{ObjectMeta: objectMeta(s.namespace, "hello")}))
	s.awaitCondition("hello", "Ready", "False", "exceeded quota: one", "made again with the rest: Deployment hello")
	s.must(controllers.Thaw())
	s.awaitDeployed("hello")
	s.awaitGreeting("hello", "after")
}

// What no longer blocks an upgrade that something else still blocks is put back like anything else.
func TestRecreateThatHasRoomAgain(t *testing.T) {
	s := newScene(t)
	s.grant("", "configmaps")
	controllers, err := env.RunControllers("resourcequota-controller")
	s.must(err)
	s.Cleanup(controllers.Stop)
	s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, `
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ .Release.Name }}-frozen"}
immutable: true
data: {name: {{ .Values.name | quote }}}
---
apiVersion: v1
kind: Service
metadata: {name: "{{ .Release.Name }}-peers"}
spec: { {{ if eq .Values.name "before" }}clusterIP: None, {{ end }}ports: [{port: 80}] }`) + "  recreate: [Service]\n"})
	room := func(count string) corev1.ResourceQuotaSpec {
		return corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourceServices: resource.MustParse(count)}}
	}
	s.deploy("hello", kit.Greet("before"))
	quota := &corev1.ResourceQuota{ObjectMeta: objectMeta(s.namespace, "two"), Spec: room("2")}
	s.must(env.Client.Create(ctx, quota))
	s.await("the quota is full", func() error {
		s.get(quota, quota.Name)
		used := quota.Status.Used[corev1.ResourceServices]
		return atLeast(int(used.Value()), 2)
	})
	s.edit("hello", kit.Greet("after"))
	s.awaitCondition("hello", "Ready", "False", "exceeded quota: two", `ConfigMap "hello-frozen"`)
	s.must(retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		s.get(quota, quota.Name)
		quota.Spec = room("9")
		return env.Client.Update(ctx, quota)
	}))
	s.await("only the ConfigMap blocks", func() error {
		condition, err := s.condition("hello", "Ready")
		if err == nil && strings.Contains(condition.Message, "quota") {
			err = errors.New(condition.Message)
		}
		return err
	})
	peers := &corev1.Service{ObjectMeta: objectMeta(s.namespace, "hello-peers")}
	s.must(env.Client.Delete(ctx, peers))
	s.awaitExists(peers, "hello-peers")
}

// The pods of a Deployment that is made anew are not left behind.
func TestRecreateDeployment(t *testing.T) {
	s := newScene(t)
	controllers, err := env.RunControllers("deployment-controller", "replicaset-controller", "garbage-collector-controller")
	s.must(err)
	s.Cleanup(controllers.Stop)
	s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithFile(t, "templates/_helpers.tpl",
		`{{- define "welcome.selectorLabels" -}}`, "{{- define \"welcome.selectorLabels\" -}}\ngreets: {{ .Values.name }}") + "  recreate: [Deployment.apps]\n"})
	s.deploy("hello", kit.Greet("before"), kit.Set("replicas", 2))
	pods := func(greets string, count int) {
		t.Helper()
		s.await(fmt.Sprintf("%d pods greet %s, and no others are there", count, greets), func() error {
			list := &corev1.PodList{}
			if err := env.Client.List(ctx, list, client.InNamespace(s.namespace)); err != nil {
				return err
			}
			for _, pod := range list.Items {
				if pod.Labels["greets"] != greets {
					return fmt.Errorf("%s greets %s", pod.Name, pod.Labels["greets"])
				}
			}
			return atLeast(len(list.Items), count)
		})
	}
	pods("before", 2)
	s.edit("hello", kit.Greet("after"))
	s.awaitDeployed("hello")
	s.awaitDeployment("hello", "it has another selector", func(d *appsv1.Deployment) error {
		if got := d.Spec.Selector.MatchLabels["greets"]; got != "after" {
			return fmt.Errorf("it selects %s", got)
		}
		return nil
	})
	s.awaitEvent("hello", "Recreated", `Deployment "hello"`, "spec.selector", "immutable")
	pods("after", 2)
}

// With a StatefulSet goes what its pods have stored, if that says so. Then it is not made anew.
func TestRecreateLosesNoClaims(t *testing.T) {
	s := newScene(t)
	s.serveKind("Stored")
	chart := chartOf(t, map[string]string{
		"Chart.yaml":  "{apiVersion: v2, name: stored, version: 1.0.0}",
		"values.yaml": "{service: before, whenDeleted: Delete}",
		"templates/all.yaml": `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: {{ .Release.Name }}}
spec:
  serviceName: {{ .Values.service }}
  persistentVolumeClaimRetentionPolicy: {whenDeleted: {{ .Values.whenDeleted }}}
  selector: {matchLabels: {app: {{ .Release.Name }}}}
  template:
    metadata: {labels: {app: {{ .Release.Name }}}}
    spec: {containers: [{name: main, image: "example.com/main:1"}]}
`})
	s.ownOperator(settings{namespaces: []string{s.namespace}, account: s.accountForCharts(), watches: entryOf("Stored", chart, "  recreate: [StatefulSet.apps]\n")})
	s.createOf("Stored", "hello")
	s.awaitOf("Stored", "hello", "Deployed")
	before, now := &appsv1.StatefulSet{}, &appsv1.StatefulSet{}
	s.get(before, "hello")
	s.editOf("Stored", "hello", kit.Set("service", "after"), kit.Set("whenDeleted", "Retain"))
	s.awaitOf("Stored", "hello", "Stalled", `StatefulSet "hello"`, "would go with it", "say Retain first")
	s.editOf("Stored", "hello", kit.Set("service", "before"))
	s.awaitOf("Stored", "hello", "Deployed")
	if s.get(now, "hello"); now.UID != before.UID {
		t.Error("it was made anew")
	}
	observed := func(generation int64) {
		s.must(retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			s.get(now, "hello")
			now.Status.ObservedGeneration = generation
			return env.Client.Status().Update(ctx, now)
		}))
	}
	observed(now.Generation - 1)
	s.editOf("Stored", "hello", kit.Set("service", "after"))
	s.awaitOf("Stored", "hello", "Irreconcilable", `StatefulSet "hello"`, "until its controller has seen")
	if s.get(now, "hello"); now.UID != before.UID {
		t.Error("it was made anew before its controller had let its claims go")
	}
	observed(now.Generation)
	s.await("another one of the Service after", func() error {
		found := &appsv1.StatefulSet{}
		if err := s.find(found, "hello"); err != nil {
			return err
		}
		if found.UID == before.UID || found.Spec.ServiceName != "after" {
			return fmt.Errorf("it is %s of the Service %s", found.UID, found.Spec.ServiceName)
		}
		return nil
	})
	s.awaitOf("Stored", "hello", "Deployed")
}

// Admission may change an immutable field when the object is made: a webhook has images come from a mirror, say.
// That stays, and no upgrade fails for it, as long as the chart wants the same of the field as before.
func TestImmutableFieldThatAdmissionHasChanged(t *testing.T) {
	s := newScene(t)
	s.grantJobs()
	probe := func() error {
		job := &batchv1.Job{ObjectMeta: objectMeta(s.namespace, "probe")}
		job.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "once", Image: "example.com/once:0"}}}
		if err := env.Client.Create(ctx, job, client.DryRunAll); err != nil {
			return err
		}
		if image := job.Spec.Template.Spec.Containers[0].Image; image != "mirror.example.com/once:0" {
			return fmt.Errorf("the image is %s", image)
		}
		return nil
	}
	s.mutate(`[JSONPatch{op: "replace", path: "/spec/template/spec/containers/0/image", value: "mirror." + object.spec.template.spec.containers[0].image}]`, "jobs", probe, admissionregistrationv1.Create)
	once := settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, `
apiVersion: batch/v1
kind: Job
metadata: {name: {{ .Release.Name }}, labels: {greets: {{ .Values.name | quote }}}}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: once, image: example.com/once:{{ .Values.replicas }}}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-before, annotations: {helm.sh/hook: pre-upgrade}}`) + "  allow: {hosts: ['*.example.com']}\n"}
	first := s.ownOperator(once)
	s.deploy("hello", kit.Greet("before"))
	greets := func(name string) {
		s.edit("hello", kit.Greet(name))
		s.awaitGreeting("hello", name)
		s.awaitDeployed("hello")
		job := &batchv1.Job{}
		s.get(job, "hello")
		if job.Labels["greets"] != name || job.Spec.Template.Spec.Containers[0].Image != "mirror.example.com/once:1" {
			t.Errorf("the Job has the labels %v and the image %s", job.Labels, job.Spec.Template.Spec.Containers[0].Image)
		}
	}
	greets("after")
	s.settled(first)
	first.Stop()
	second := s.ownOperator(once)
	greets("restarted")
	s.settled(second)

	// Nor is it when an upgrade has come as far, and was rolled back for something else.
	lift := s.noIngresses()
	s.edit("hello", kit.Greet("refused"), kit.Set("ingress.enabled", true), kit.Set("ingress.host", "hello.example.com"))
	s.awaitReason("hello", "Rejected", "no ways in today")
	s.awaitGreeting("hello", "restarted")
	lift()
	s.awaitGreeting("hello", "refused") // by an attempt that is rehearsed before its hooks
	s.awaitDeployed("hello")
	greets("let")

	s.edit("hello", kit.Set("replicas", 2))
	s.awaitReason("hello", "Rejected", `Job "hello"`, "(spec.template: field is immutable)")

	// What is refused like this changes nothing else, and replaces no pods, when another operator tries it first.
	before, now := &appsv1.Deployment{}, &appsv1.Deployment{}
	s.get(before, "hello")
	second.Stop()
	third := s.ownOperator(once)
	s.await("another attempt", func() error {
		if !strings.Contains(third.Text(), "field is immutable") {
			return errors.New("there was none")
		}
		return nil
	})
	if s.get(now, "hello"); now.Generation != before.Generation {
		t.Error("the Deployment was changed")
	}
}

// So does what it has made of a StatefulSet, of which the rest is put back and rolled back, and whose pods go
// on where it is deleted as the message says.
func TestStatefulSetThatAdmissionHasChanged(t *testing.T) {
	s := newScene(t)
	s.collectGarbage()
	s.grant(appsv1.GroupName, "statefulsets")
	set := func(name string) *appsv1.StatefulSet {
		found := &appsv1.StatefulSet{}
		s.get(found, name)
		return found
	}
	s.mutate(`[JSONPatch{op: "replace", path: "/spec/serviceName", value: object.spec.serviceName == "moved" ? "moved" : "ours"}]`, "statefulsets", func() error {
		probe := &appsv1.StatefulSet{ObjectMeta: objectMeta(s.namespace, "probe"), Spec: appsv1.StatefulSetSpec{ServiceName: "theirs", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}}
		probe.Spec.Template.Labels = map[string]string{"a": "b"}
		probe.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main", Image: "example.com/main:1"}}
		if err := env.Client.Create(ctx, probe, client.DryRunAll); err != nil {
			return err
		}
		if probe.Spec.ServiceName != "ours" {
			return errors.New("its name stays")
		}
		return nil
	}, admissionregistrationv1.Create)
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: {{ .Release.Name }}}
spec:
  serviceName: {{ .Values.name }} # of which admission makes the same but once
  selector: {matchLabels: {set: {{ .Release.Name }}}}
  template:
    metadata: {labels: {set: {{ .Release.Name }}}}
    spec:
      containers: [{name: main, image: "example.com/main:{{ .Values.name }}"}]`) + "  allow: {hosts: ['*.example.com']}\n"})
	s.deploy("hello", kit.Greet("one"))
	is := func(name string) {
		t.Helper()
		s.await("its image is "+name, func() error {
			found := &appsv1.StatefulSet{}
			if err := s.find(found, "hello"); err != nil {
				return err
			}
			if got := found.Spec.Template.Spec.Containers[0].Image; got != "example.com/main:"+name {
				return errors.New(got)
			}
			return nil
		})
	}
	upgraded := func(name string) {
		t.Helper()
		s.edit("hello", kit.Greet(name))
		is(name)
		s.awaitDeployed("hello")
	}
	upgraded("two")

	drifted := set("hello")
	drifted.Spec.Template.Spec.Containers[0].Image = "example.com/main:theirs"
	s.must(env.Client.Update(ctx, drifted))
	is("two")
	s.settled(operator)

	lift := s.noIngresses()
	s.edit("hello", kit.Greet("refused"), kit.Set("ingress.enabled", true), kit.Set("ingress.host", "hello.example.com"))
	s.awaitReason("hello", "Rejected", "no ways in today")
	is("two")
	lift()
	upgraded("let")

	s.edit("hello", kit.Greet("moved"))
	s.awaitReason("hello", "Rejected", `StatefulSet "hello"`, "--cascade=orphan")
	_, err := s.kubectl("", "delete", "statefulset", "hello", "--cascade=orphan")
	s.must(err)
	is("moved")
	s.awaitDeployed("hello")
	if got := set("hello").Spec.ServiceName; got != "moved" {
		t.Errorf("its service is %s", got)
	}
}
