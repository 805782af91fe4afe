package integration

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"helm.sh/helm/v3/pkg/action"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/controlplane"
	"demo.welcome.domain/welcome-operator/tests/kit"
	"demo.welcome.domain/welcome-operator/tests/waiting"
)

// as writes like another controller, whose name then is in the managed fields.
func (s *scene) as(manager string, object client.Object, change func()) {
	s.Helper()
	s.get(object, "hello")
	before := object.DeepCopyObject().(client.Object)
	change()
	s.must(env.Client.Patch(ctx, object, client.MergeFrom(before), client.FieldOwner(manager)))
}

// seen waits until the operator has seen what happened to the children of the Welcome hello.
func (s *scene) seen(operator *process) {
	s.Helper()
	s.sees(operator, func(poke kit.Edit) { s.edit("hello", poke) })
}

// seenOf is seen for the custom resource hello of another kind.
func (s *scene) seenOf(operator *process, kind string) {
	s.Helper()
	s.sees(operator, func(poke kit.Edit) { s.editOf(kind, "hello", poke) })
}

// costsNothing fails if an idle reconcile of the custom resource hello of another kind sends requests.
func (s *scene) costsNothing(operator *process, kind string) {
	s.Helper()
	s.settled(operator)
	before := s.record()
	s.seenOf(operator, kind)
	if requests := before.of(operator); len(requests) > 0 {
		s.Errorf("an idle reconcile asks the API server: %s", requests)
	}
}

// sees waits until an operator has reconciled an edit that changes nothing, and is idle.
func (s *scene) sees(operator *process, edit func(kit.Edit)) {
	s.Helper()
	reconciles := operator.reconciles(s.T)
	edit(kit.Annotate("example.com/poke", time.Now().String()))
	s.await("the edit is reconciled", func() error { return atLeast(operator.reconciles(s.T)-reconciles, 1) })
	s.settled(operator)
}

// ofDrift are the requests without those that also occur without a drift: lists of the pods of an unhealthy
// Welcome, and its status.
func ofDrift(all controlplane.Requests) controlplane.Requests {
	return slices.DeleteFunc(all, func(one controlplane.Request) bool {
		return one.ObjectRef.Resource == "pods" && one.ObjectRef.Name == "" || one.ObjectRef.Resource == "welcomes" && one.ObjectRef.Subresource == "status"
	})
}

// Who makes many Welcomes at once has them made after the few that others make meanwhile.
func TestFewGoBeforeMany(t *testing.T) {
	s := newScene(t)
	many := s.newNamespace("many")
	s.ownOperator(settings{namespaces: []string{s.namespace, many}})
	const count = 200
	var creators errgroup.Group
	creators.SetLimit(10) // faster than the operator, which sends several requests for each
	for i := range count {
		creators.Go(func() error {
			return env.Client.Create(ctx, kit.Welcome(many, fmt.Sprintf("w%d", i), kit.Set("replicas", 0)))
		})
	}
	s.must(creators.Wait())
	hello, deployment, all := s.create("hello", kit.Set("replicas", 0)), &appsv1.Deployment{}, &appsv1.DeploymentList{}
	s.awaitExists(deployment, "hello")
	s.must(env.Client.List(ctx, all, client.InNamespace(many)))
	// Nobody changes a Deployment here: its version tells when it was made, and a test that is slow to look counts
	// no more.
	isBefore := func(a, b client.Object) bool {
		order, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
		s.must(err)
		return order < 0
	}
	before, behind := 0, 0
	for i := range all.Items {
		switch one := &all.Items[i]; {
		case isBefore(one, hello):
			before++
		case isBefore(one, deployment):
			behind++
		}
	}
	t.Logf("%d of %d were made before, and %d more until it was its turn", before, count, behind)
	if before+behind > count-50 || behind > 25 { // those at work, and a few that go first as well, but not all that have begun and wait for others
		t.Errorf("%d of %d were made before, and %d more until it was one's turn that somebody else has made", before, count, behind)
	}
	s.must(env.Client.DeleteAllOf(ctx, kit.Welcome(many, ""), client.InNamespace(many)))
	s.await("nothing is left of the many", func() error {
		list := kit.List(kit.Welcome(many, "").GetAPIVersion(), "Welcome")
		if s.must(env.Client.List(ctx, list, client.InNamespace(many))); len(list.Items) > 0 {
			return fmt.Errorf("%d are left", len(list.Items))
		}
		return nil
	})
}

func TestAnnotationsOfOthersCostNothing(t *testing.T) {
	s := newScene(t)
	operator := s.operator()
	s.deploy("hello")
	s.settled(operator)
	for _, object := range []client.Object{&corev1.Service{}, &appsv1.Deployment{}} {
		before := s.record()
		for i := range 10 {
			s.as("other", object, func() {
				annotations := object.GetAnnotations()
				annotations["example.com/note"] = fmt.Sprint(i)
				object.SetAnnotations(annotations)
				labels := object.GetLabels()
				labels["example.com/label"] = fmt.Sprint(i)
				object.SetLabels(labels)
			})
		}
		s.seen(operator)
		requests := ofDrift(before.of(operator))
		t.Logf("10 writes of %T cost %s", object, requests)
		if len(requests) > 0 {
			t.Errorf("%T: annotations of others cost %s", object, requests)
		}
	}
}

// A key of the chart's, of Helm's or of the operator's comes back.
func TestKeysOfTheChartComeBack(t *testing.T) {
	for name, change := range map[string]func(*corev1.Service){
		"an annotation is removed":      func(service *corev1.Service) { delete(service.Annotations, "ours") },
		"an annotation is changed":      func(service *corev1.Service) { service.Annotations["ours"] = "2" },
		"a label is changed":            func(service *corev1.Service) { service.Labels["welcome"] = "another" },
		"an annotation of Helm is gone": func(service *corev1.Service) { delete(service.Annotations, "meta.helm.sh/release-name") },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.operator()
			s.deploy("hello", kit.Set("service.annotations", map[string]any{"ours": "1"}))
			service := &corev1.Service{}
			s.as("other", service, func() { service.Annotations["example.com/note"] = "theirs"; change(service) })
			s.await("it is as before", func() error {
				s.get(service, "hello")
				if service.Annotations["ours"] != "1" || service.Labels["welcome"] != "hello" ||
					service.Annotations["meta.helm.sh/release-name"] != "hello" || service.Annotations["example.com/note"] != "theirs" {
					return fmt.Errorf("annotations %v, labels %v", service.Annotations, service.Labels)
				}
				return nil
			})
		})
	}
}

// What Kubernetes' own tools and well-known controllers write stays, costs nothing, and survives an upgrade.
func TestOrdinaryWorkOfOthersStays(t *testing.T) {
	const restarted = "kubectl.kubernetes.io/restartedAt"
	restarts := []string{"reloader.stakater.com/last-reloaded-from", "vso.secrets.hashicorp.com/restartedAt", "openshift.openshift.io/restartedAt", "cattle.io/timestamp",
		"kubesphere.io/restartedAt", "operator.1password.io/last-restarted", "wave.pusher.com/config-hash"}
	host := "hello.example.com"
	challenge := networkingv1.HTTPIngressPath{
		Path: "/.well-known/acme-challenge/token", PathType: new(networkingv1.PathTypeImplementationSpecific),
		Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "cm-acme-http-solver-x", Port: networkingv1.ServiceBackendPort{Number: 8089}}},
	}
	for name, c := range map[string]struct {
		edits []kit.Edit
		write func(*scene)
		stays func(*scene) error
	}{
		"kubectl rollout restart": {
			write: func(s *scene) {
				s.await("kubectl restarts it", func() error { // it refuses to within a second
					_, err := s.kubectl("", "rollout", "restart", "deployment/hello")
					return err
				})
			},
			stays: func(s *scene) error {
				return s.ofDeployment(func(d *appsv1.Deployment) bool { return d.Spec.Template.Annotations[restarted] != "" })
			},
		},
		"kubectl rollout pause": {
			write: func(s *scene) { _, _ = s.kubectl("", "rollout", "pause", "deployment/hello") }, // it complains the second time
			stays: func(s *scene) error { return s.ofDeployment(func(d *appsv1.Deployment) bool { return d.Spec.Paused }) },
		},
		"Reloader": { // by its default strategy
			write: func(s *scene) {
				s.patchDeployment("Reloader", types.StrategicMergePatchType, fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"welcome","env":[{"name":"STAKATER_PAGE_CONFIGMAP","value":"%d"}]}]}}}}`, time.Now().UnixNano()))
			},
			stays: func(s *scene) error {
				return s.ofDeployment(func(d *appsv1.Deployment) bool {
					return slices.ContainsFunc(d.Spec.Template.Spec.Containers[0].Env, func(v corev1.EnvVar) bool { return v.Name == "STAKATER_PAGE_CONFIGMAP" && v.Value != "" })
				})
			},
		},
		"restarts by annotations": {
			write: func(s *scene) {
				for _, key := range restarts {
					s.patchDeployment(key, types.MergePatchType, fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{%q:"%d"}}}}}`, key, time.Now().UnixNano()))
				}
			},
			stays: func(s *scene) error {
				return s.ofDeployment(func(d *appsv1.Deployment) bool {
					return !slices.ContainsFunc(restarts, func(key string) bool { return d.Spec.Template.Annotations[key] == "" })
				})
			},
		},
		"an address of the load balancer": {
			write: func(s *scene) {
				service := &corev1.Service{}
				s.as("load-balancer", service, func() {
					service.Spec.LoadBalancerIP = "192.0.2.1"
					service.Annotations["service.kubernetes.io/load-balancer-cleanup"] = "x"
				})
			},
			stays: func(s *scene) error {
				service := &corev1.Service{}
				if err := s.find(service, "hello"); err != nil || service.Spec.LoadBalancerIP != "192.0.2.1" {
					return errors.Join(fmt.Errorf("it is %q", service.Spec.LoadBalancerIP), err)
				}
				return nil
			},
		},
		"an autoscaler of the user's": {
			write: func(s *scene) { s.scale("kube-controller-manager", 4) },
			stays: func(s *scene) error {
				return s.ofDeployment(func(d *appsv1.Deployment) bool { return *d.Spec.Replicas == 4 })
			},
		},
		"one that scales to none": { // KEDA, and kubectl scale
			write: func(s *scene) { s.scale("keda", 0) },
			stays: func(s *scene) error {
				return s.ofDeployment(func(d *appsv1.Deployment) bool { return *d.Spec.Replicas == 0 })
			},
		},
		"a challenge of cert-manager": {
			edits: []kit.Edit{kit.Set("ingress.enabled", true), kit.Set("ingress.host", host)},
			write: func(s *scene) {
				ingress := &networkingv1.Ingress{}
				s.as("cert-manager", ingress, func() {
					http := ingress.Spec.Rules[0].HTTP
					challenge.Backend.Service.Name += "x"
					if http.Paths[0].Path == challenge.Path {
						http.Paths = http.Paths[1:]
					}
					http.Paths = append([]networkingv1.HTTPIngressPath{challenge}, http.Paths...)
				})
			},
			stays: func(s *scene) error {
				ingress := &networkingv1.Ingress{}
				if err := s.find(ingress, "hello"); err != nil {
					return err
				}
				if paths := ingress.Spec.Rules[0].HTTP.Paths; len(paths) != 2 || paths[0].Path != challenge.Path {
					return fmt.Errorf("the paths are %v", paths)
				}
				return nil
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			operator := s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWith("  allow: {hosts: [" + host + "]}\n")})
			s.deploy("hello", append(c.edits, kit.Greet("before"))...)
			s.settled(operator)
			c.write(s)
			s.seen(operator)
			s.must(c.stays(s))
			before := s.record()
			c.write(s)
			s.seen(operator)
			s.must(c.stays(s))
			if requests := ofDrift(before.of(operator)); len(requests) > 0 {
				t.Errorf("a second time it costs %s", requests)
			}
			// Beside a drift, and through an upgrade.
			s.changeDeployment(func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Env[0].Value = "intruders" })
			s.awaitGreeting("hello", "before")
			s.must(c.stays(s))
			s.edit("hello", kit.Greet("after"))
			s.awaitGreeting("hello", "after")
			s.awaitDeployed("hello")
			s.must(c.stays(s))
		})
	}
}

// Reloader answers to a ConfigMap that an upgrade changes before the upgrade has come to the Deployment. That it restarts
// the pods stays: those of before would go on with what the ConfigMap no longer says.
func TestReloaderDuringAnUpgrade(t *testing.T) {
	s := newScene(t)
	s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\ndata: {pages: '{{ .Values.replicas }}'}")})
	s.deploy("hello")
	config := &corev1.ConfigMap{}
	s.get(config, "hello")
	asked, letGo := s.hold(admissionregistrationv1.Update, "", "configmaps", func(probe context.Context) error {
		return env.Client.Update(probe, config, client.DryRunAll)
	})
	s.edit("hello", kit.Set("replicas", 2))
	asked()
	s.patchDeployment("Reloader", types.StrategicMergePatchType, `{"spec":{"template":{"spec":{"containers":[{"name":"welcome","env":[{"name":"STAKATER_HELLO_CONFIGMAP","value":"x"}]}]}}}}`)
	letGo()
	s.awaitDeployed("hello")
	s.must(s.hasReplicas("hello", 2))
	s.must(s.ofDeployment(func(d *appsv1.Deployment) bool {
		return slices.ContainsFunc(d.Spec.Template.Spec.Containers[0].Env, func(v corev1.EnvVar) bool { return v.Name == "STAKATER_HELLO_CONFIGMAP" })
	}))
}

// A Deployment whose status changes all the time is upgraded, though a patch of its containers is for the object as it was
// seen.
func TestUpgradeOfABusyDeployment(t *testing.T) {
	s := newScene(t)
	s.ownOperator(settings{namespaces: []string{s.namespace}})
	s.deploy("hello", kit.Greet("before"))
	ctx, cancel := context.WithCancel(ctx)
	var writers sync.WaitGroup
	for writer := range 4 {
		writers.Go(func() {
			for generation := int64(0); ctx.Err() == nil; generation++ {
				status := fmt.Sprintf(`{"status":{"collisionCount":%d}}`, 4*generation+int64(writer))
				_ = env.Client.Status().Patch(ctx, &appsv1.Deployment{ObjectMeta: objectMeta(s.namespace, "hello")}, client.RawPatch(types.MergePatchType, []byte(status))) // again, if it fails
			}
		})
	}
	s.Cleanup(func() { cancel(); writers.Wait() })
	for i := range 5 {
		greeting := fmt.Sprint("after ", i)
		s.edit("hello", kit.Greet(greeting))
		s.awaitGreeting("hello", greeting)
		s.awaitDeployed("hello")
	}
	if records := s.records("hello"); !slices.ContainsFunc(records, func(record corev1.ConfigMap) bool {
		return record.Labels["version"] == "6" && record.Labels["status"] == "deployed"
	}) {
		t.Errorf("one edit has not made one revision: %v", names(records))
	}
}

// OpenShift appends Secrets of its own to the lists of a ServiceAccount, and does so again where they are gone.
func TestSecretsThatTheClusterGivesAServiceAccount(t *testing.T) {
	s := newScene(t)
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}, account: s.accountForCharts(), watches: watchesWithMore(t, `
apiVersion: v1
kind: ServiceAccount
metadata: {name: {{ .Release.Name }}}
imagePullSecrets: [{name: {{ .Values.name | quote }}}]`)})
	s.deploy("hello", kit.Greet("before"))
	s.settled(operator)
	account := &corev1.ServiceAccount{ObjectMeta: objectMeta(s.namespace, "hello")}
	has := func(pull, others []string) error {
		if err := s.find(account, account.Name); err != nil {
			return err
		}
		var pulls, secrets []string
		for _, secret := range account.ImagePullSecrets {
			pulls = append(pulls, secret.Name)
		}
		for _, secret := range account.Secrets {
			secrets = append(secrets, secret.Name)
		}
		if !slices.Equal(pulls, pull) || !slices.Equal(secrets, others) {
			return fmt.Errorf("it has %q and %q", pulls, secrets)
		}
		return nil
	}
	given := "hello-dockercfg-abcde"
	s.as("openshift-controller-manager", account, func() {
		account.ImagePullSecrets = append(account.ImagePullSecrets, corev1.LocalObjectReference{Name: given})
		account.Secrets = append(account.Secrets, corev1.ObjectReference{Name: given})
	})
	s.seen(operator)
	s.must(has([]string{"before", given}, []string{given}))
	before := s.record()
	s.as("somebody", account, func() { account.Labels["somebody"] = "x" })
	s.seen(operator)
	if requests := ofDrift(before.of(operator)); len(requests) > 0 {
		t.Errorf("to look at it costs %s", requests)
	}
	s.as("somebody", account, func() {
		account.ImagePullSecrets = append(account.ImagePullSecrets, corev1.LocalObjectReference{Name: "intruders"})
	})
	s.await("what others append goes", func() error { return has([]string{"before", given}, []string{given}) })
	s.edit("hello", kit.Greet("after"))
	s.await("an edit gets there", func() error { return has([]string{"after", given}, []string{given}) })
}

// A Secret to which the chart gives no value but empty ones is one that a controller fills, as those of webhooks
// are. It stays filled, whatever else is repaired or upgraded; a value that the chart gives comes, and goes with it.
func TestSecretThatAControllerFills(t *testing.T) {
	s := newScene(t)
	own := settings{namespaces: []string{s.namespace}, account: s.accountForSecrets(), watches: watchesWithMore(t, `
apiVersion: v1
kind: Secret
metadata: {name: {{ .Release.Name }}, labels: {greeting: {{ .Values.name }}}}
data:
{{- if eq .Values.name "given" }}
  ca.crt: {{ b64enc "chart" }}
{{- else if ne .Values.name "none" }}
  ca.crt: ""
  tls.crt: # null
{{- end }}`) + secrets}
	operator := s.ownOperator(own)
	s.deploy("hello", kit.Greet("before"))
	s.settled(operator)
	secret := &corev1.Secret{}
	has := func(want map[string]string) {
		t.Helper()
		s.settled(operator)
		s.seen(operator)
		if got := s.secret("hello"); !maps.Equal(got, want) {
			t.Errorf("it has %v, not %v", got, want)
		}
	}
	fill := func(with string) map[string]string {
		t.Helper()
		s.as("cert-controller", secret, func() {
			secret.Data = map[string][]byte{"ca.crt": []byte(with), "tls.crt": []byte(with), "tls.key": []byte(with)}
		})
		return map[string]string{"ca.crt": with, "tls.crt": with, "tls.key": with}
	}
	filled := fill("first")
	has(filled)
	filled = fill("renewed")
	has(filled)
	before := s.record()
	s.seen(operator)
	if requests := before.of(operator); len(requests) > 0 {
		t.Errorf("an idle reconcile asks the API server: %s", requests)
	}
	s.as("somebody", secret, func() { secret.Labels["greeting"] = "theirs" })
	s.await("the label is put back", func() error {
		s.get(secret, "hello")
		return says(secret.Labels["greeting"], []string{"before"})
	})
	has(filled)
	for _, greeting := range []string{"after", "none", "again"} {
		s.edit("hello", kit.Greet(greeting))
		s.awaitGreeting("hello", greeting)
		has(filled)
	}
	operator.Stop()
	operator = s.ownOperator(own)
	has(filled)
	s.must(env.Client.Delete(ctx, &corev1.Secret{ObjectMeta: objectMeta(s.namespace, "hello")}))
	s.awaitExists(secret, "hello")
	has(map[string]string{"ca.crt": "", "tls.crt": ""})
	fill("third")
	s.edit("hello", kit.Greet("given"))
	s.awaitGreeting("hello", "given")
	has(map[string]string{"ca.crt": "chart", "tls.key": "third"})
	s.edit("hello", kit.Greet("before"))
	s.awaitGreeting("hello", "before")
	has(map[string]string{"ca.crt": "", "tls.crt": "", "tls.key": "third"})
}

// An EndpointSlice of which the chart says no endpoints is one that a controller fills. It stays filled, whatever else is
// repaired or upgraded.
func TestEndpointsThatAControllerFills(t *testing.T) {
	s := newScene(t)
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}, account: s.accountForCharts(), watches: watchesWithMore(t, `
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: {{ .Release.Name }}, labels: {greeting: {{ .Values.name }}}}
addressType: IPv4`)})
	s.deploy("hello", kit.Greet("before"))
	slice := &discoveryv1.EndpointSlice{}
	s.as("endpoints-controller", slice, func() {
		slice.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{"192.0.2.1"}}}
		slice.Ports = []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(80))}}
	})
	isFilled := func(greeting string) {
		t.Helper()
		s.settled(operator)
		s.seen(operator)
		s.get(slice, "hello")
		if len(slice.Endpoints) != 1 || len(slice.Ports) != 1 || slice.Labels["greeting"] != greeting {
			t.Errorf("it has %v, %v, labels %v", slice.Endpoints, slice.Ports, slice.Labels)
		}
	}
	isFilled("before")
	s.as("somebody", slice, func() { slice.Labels["greeting"] = "theirs" })
	isFilled("before")
	s.edit("hello", kit.Greet("after"))
	s.awaitGreeting("hello", "after")
	isFilled("after")
}

// A value that the chart itself has given is no filled one, also where the attempt that gave it has failed, and nothing
// proves it: a password goes with the spec that had it.
func TestSecretOfAFailedAttempt(t *testing.T) {
	s := newScene(t)
	s.ownOperator(settings{namespaces: []string{s.namespace}, account: s.accountForSecrets(), watches: watchesWithMore(t, `
apiVersion: v1
kind: Secret
metadata: {name: {{ .Release.Name }}}
data:
  password: {{ if eq .Values.name "given" }}{{ b64enc "chart" }}{{ else }}""{{ end }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-more}
data: { {{- if eq .Values.name "given" }}"not a key"{{ else }}key{{ end }}: ""}`) + secrets})
	s.create("hello", kit.Greet("given"))
	s.awaitReason("hello", "Rejected", "hello-more")
	if got := s.secret("hello"); got["password"] != "chart" {
		t.Fatalf("it has %v", got)
	}
	s.edit("hello", kit.Greet("empty"))
	s.awaitGreeting("hello", "empty")
	s.awaitDeployed("hello")
	if got := s.secret("hello"); !maps.Equal(got, map[string]string{"password": ""}) {
		t.Errorf("it has %v", got)
	}
}

// patchDeployment patches the Deployment hello as a field manager does.
func (s *scene) patchDeployment(manager string, kind types.PatchType, patch string) {
	s.Helper()
	deployment := &appsv1.Deployment{ObjectMeta: objectMeta(s.namespace, "hello")}
	s.must(env.Client.Patch(ctx, deployment, client.RawPatch(kind, []byte(patch)), client.FieldOwner(manager)))
}

func (s *scene) ofDeployment(is func(*appsv1.Deployment) bool) error {
	deployment := &appsv1.Deployment{}
	if err := s.find(deployment, "hello"); err != nil {
		return err
	}
	if !is(deployment) {
		return fmt.Errorf("it has %v", deployment.Spec)
	}
	return nil
}

// scale sets the replicas as an autoscaler does.
func (s *scene) scale(manager string, count int32) {
	s.Helper()
	s.scaleOf("hello", manager, count)
}

func (s *scene) scaleOf(name, manager string, count int32) {
	s.Helper()
	deployment := &appsv1.Deployment{ObjectMeta: objectMeta(s.namespace, name)}
	scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: count}}
	s.must(env.Client.SubResource("scale").Update(ctx, deployment, client.WithSubResourceBody(scale), client.FieldOwner(manager)))
}

// awaitReplicas waits until the Deployment hello asks for that many replicas.
func (s *scene) awaitReplicas(count int32) {
	s.Helper()
	s.awaitReplicasOf("hello", count)
}

func (s *scene) awaitReplicasOf(name string, count int32) {
	s.Helper()
	s.await(fmt.Sprintf("Deployment %s has %d replicas", name, count), func() error { return s.hasReplicas(name, count) })
}

func (s *scene) hasReplicas(name string, count int32) error {
	deployment := &appsv1.Deployment{}
	if err := s.find(deployment, name); err != nil {
		return err
	}
	if *deployment.Spec.Replicas != count {
		return fmt.Errorf("it has %d replicas, not %d", *deployment.Spec.Replicas, count)
	}
	return nil
}

// Replicas that a Welcome sets are the chart's, whoever scales; and when it sets others, they come.
func TestReplicasThatAreSetComeBack(t *testing.T) {
	s := newScene(t)
	operator := s.operator()
	s.deploy("hello", kit.Set("replicas", 2))
	s.scale("kube-controller-manager", 4)
	s.awaitReplicas(2)
	s.edit("hello", kit.Set("replicas", 1)) // as many as the chart has by default
	s.awaitReplicas(1)
	s.scale("kube-controller-manager", 4)
	s.seen(operator)
	s.must(s.hasReplicas("hello", 4))
	s.edit("hello", kit.Set("replicas", 3))
	s.awaitReplicas(3)
}

// Replicas that were scaled stay whose they are when somebody edits them: other work on the workload would
// else bring them down to the chart's default, weeks later.
func TestReplicasThatWereScaledAndEdited(t *testing.T) {
	s := newScene(t)
	own := settings{namespaces: []string{s.namespace}}
	operator := s.ownOperator(own)
	s.deploy("hello", kit.Greet("before"))
	s.scale("kube-controller-manager", 5)
	s.settled(operator)
	s.changeDeployment(func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(6)) })
	s.seen(operator)
	s.must(s.hasReplicas("hello", 6))
	operator.Stop()
	s.ownOperator(own)
	s.changeDeployment(func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Env[0].Value = "intruders" })
	s.awaitGreeting("hello", "before")
	s.must(s.hasReplicas("hello", 6))
	s.edit("hello", kit.Greet("after"))
	s.awaitGreeting("hello", "after")
	s.must(s.hasReplicas("hello", 6))
	s.edit("hello", kit.Set("replicas", 3))
	s.awaitReplicas(3)
}

// So they do where the operator puts nothing back: an upgrade leaves them.
func TestReplicasThatWereScaledAndEditedWithAWarning(t *testing.T) {
	s := newScene(t)
	own := settings{namespaces: []string{s.namespace}, watches: watchesWith("  driftDetection: {mode: warn}\n")}
	operator := s.ownOperator(own)
	s.deploy("hello", kit.Greet("before"))
	s.scale("kube-controller-manager", 5)
	s.seen(operator)
	operator.Stop()
	operator = s.ownOperator(own)
	s.changeDeployment(func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(6)) })
	s.seen(operator)
	if condition, err := s.condition("hello", "Drifted"); err == nil {
		t.Errorf("it says %+v", condition)
	}
	s.edit("hello", kit.Greet("after"))
	s.awaitGreeting("hello", "after")
	s.must(s.hasReplicas("hello", 6))
}

// So they are where another value of the chart sets them.
func TestReplicasByAnotherValue(t *testing.T) {
	s := newScene(t)
	s.serveKind("Counted")
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}, account: s.accountForCharts(), watches: entryOf("Counted", countedChart(t), "")})
	s.createOf("Counted", "hello", kit.Set("server.count", 3))
	s.awaitReplicas(3)
	s.awaitOf("Counted", "hello", "Deployed")
	s.scale("kubectl", 5)
	s.awaitReplicas(3)
	s.editOf("Counted", "hello", kit.Set("server.count", 1)) // as many as the chart has by default
	s.awaitReplicas(1)
	s.awaitOf("Counted", "hello", "Deployed")
	s.settled(operator)
	s.scale("kube-controller-manager", 4)
	s.seenOf(operator, "Counted")
	s.must(s.hasReplicas("hello", 4))
}

// countedChart is a chart with the number of replicas at server.count.
func countedChart(t *testing.T) string {
	t.Helper()
	return chartOf(t, map[string]string{
		"Chart.yaml":  "{apiVersion: v2, name: counted, version: 1.0.0}",
		"values.yaml": "server: {count: 1}",
		"templates/all.yaml": `
apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ .Release.Name }}}
spec:
  replicas: {{ .Values.server.count }}
  selector: {matchLabels: {app: {{ .Release.Name }}}}
  template:
    metadata: {labels: {app: {{ .Release.Name }}}}
    spec: {containers: [{name: main, image: "example.com/main:1"}]}
`})
}

// Replicas that were scaled stay when a new chart has another default, also where the API server has stored the
// former one in the Welcome; and a number that somebody then asks for comes.
func TestReplicasWithANewDefault(t *testing.T) {
	s := newScene(t)
	s.serveKind("Recounted")
	chart := countedChart(t)
	entry := entryOf("Recounted", chart, "")
	own := settings{namespaces: []string{s.namespace}, account: s.accountForCharts(), watches: watchesWith("") + entry}
	operator := s.ownOperator(own)
	s.deploy("hello")
	s.createOf("Recounted", "counted")
	s.awaitOf("Recounted", "counted", "Deployed")
	s.settled(operator)
	for _, name := range []string{"hello", "counted"} {
		s.scaleOf(name, "kube-controller-manager", 5)
	}
	s.seen(operator)
	operator.Stop()

	own.watches = watchesWithFile(t, "values.yaml", "\nreplicas: 1\n", "\nreplicas: 2\n") + entry
	s.must(os.WriteFile(filepath.Join(chart, "values.yaml"), []byte("server: {count: 2}"), 0o600))
	operator = s.ownOperator(own)
	for _, name := range []string{"hello", "counted"} {
		s.await("the new chart is applied", func() error { return s.hasRecords(name, 2) })
	}
	s.settled(operator)
	s.must(errors.Join(s.hasReplicas("hello", 5), s.hasReplicas("counted", 5)))
	s.scale("kube-controller-manager", 6)
	s.seen(operator)
	s.must(s.hasReplicas("hello", 6))
	s.edit("hello", kit.Set("replicas", 2)) // the new default, and not what it has asked for so far
	s.awaitReplicas(2)
	s.editOf("Recounted", "counted", kit.Set("server.count", 3))
	s.awaitReplicasOf("counted", 3)
}

// A value replicas is that of one workload, and says nothing of another one.
func TestReplicasOfTwoWorkloads(t *testing.T) {
	s := newScene(t)
	s.serveKind("Counting")
	workload := func(name, count string) string {
		return `
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: ` + name + `}
spec:
  replicas: {{ .Values.` + count + ` }}
  selector: {matchLabels: {app: ` + name + `}}
  template:
    metadata: {labels: {app: ` + name + `}}
    spec: {containers: [{name: main, image: "example.com/main:1"}]}
`
	}
	chart := chartOf(t, map[string]string{
		"Chart.yaml":         "{apiVersion: v2, name: counting, version: 1.0.0}",
		"values.yaml":        "{replicas: 1, worker: {replicas: 2}}",
		"templates/all.yaml": workload("worker", "worker.replicas") + workload("hello", "replicas"),
	})
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}, account: s.accountForCharts(), watches: entryOf("Counting", chart, "")})
	s.createOf("Counting", "hello", kit.Set("replicas", 1), kit.Set("worker.replicas", 5)) // a CRD may store the default of the first
	s.awaitOf("Counting", "hello", "Deployed")
	s.settled(operator)
	s.scaleOf("worker", "kubectl", 0)
	s.awaitReplicasOf("worker", 5)
	s.editOf("Counting", "hello", kit.Set("replicas", 3), kit.Set("worker.replicas", 2)) // as many as it has by default
	s.awaitReplicasOf("worker", 2)
	s.awaitReplicas(3)
	s.settled(operator)
	s.scaleOf("worker", "kube-controller-manager", 4)
	s.seenOf(operator, "Counting")
	s.must(s.hasReplicas("worker", 4))
}

// Who takes the replicas away by an update of the Deployment, as Argo Rollouts (workloadRef) and Flagger do, has its
// way where watches.yaml ignores their number, also through repairs and upgrades.
func TestReplicasThatAreIgnored(t *testing.T) {
	s := newScene(t)
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWith("  driftDetection: {ignore: [{target: {kind: Deployment}, paths: [/spec/replicas]}]}\n")})
	s.deploy("hello", kit.Greet("before"))
	deployment := &appsv1.Deployment{}
	s.as("rollouts-controller", deployment, func() { deployment.Spec.Replicas = new(int32(0)) })
	s.changeDeployment(func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Env[0].Value = "intruders" })
	s.awaitGreeting("hello", "before")
	s.edit("hello", kit.Greet("after"))
	s.awaitGreeting("hello", "after")
	s.seen(operator)
	s.must(s.hasReplicas("hello", 0))
}

// fight makes another controller write to the Service whenever that is not as the controller wants it, until
// the test ends or stop is called.
func (s *scene) fight(change func(*corev1.Service) bool) (stop func()) {
	service := &corev1.Service{}
	return s.fightOver(service, "hello", func() bool { return change(service) })
}

func (s *scene) fightOver(object client.Object, name string, change func() bool) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		for ; ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
			if s.find(object, name) != nil {
				continue
			}
			before := object.DeepCopyObject().(client.Object)
			if change() {
				_ = env.Client.Patch(ctx, object, client.MergeFrom(before), client.FieldOwner("test-controller")) // again, if it fails
			}
		}
	}()
	stop = func() { cancel(); <-over }
	s.Cleanup(stop)
	return stop
}

func theirPort(service *corev1.Service) bool {
	changes := service.Spec.Ports[0].Port != 9999
	service.Spec.Ports[0].Port = 9999
	return changes
}

func TestFightHasAnEnd(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}})
	s.deploy("hello", kit.Greet("before"))
	s.settled(operator)
	before, start := s.record(), time.Now()
	stop := s.fight(theirPort)
	s.awaitCondition("hello", "DriftLoop", "True", "Service", "spec.ports[0].port", `"test-controller"`)
	s.awaitEvent("hello", "DriftLoop", "spec.ports[0].port", `"test-controller"`)
	s.awaitMetric(operator, "welcome_operator_drift_loop", `name="hello"`, 1)

	time.Sleep(time.Until(start.Add(time.Minute))) // that no more happens is what is tested
	requests := before.of(operator)
	t.Logf("a minute of a fight cost %s", requests)
	if minutes := max(1, time.Since(start).Minutes()); float64(len(requests)) > 40*minutes {
		t.Errorf("%d requests in %.1f minutes", len(requests), minutes)
	}

	// Other objects of the Welcome do not wait, nor does an upgrade, which brings the Service to what it should be, too.
	s.changeDeployment(func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Env[0].Value = "intruders" })
	s.awaitGreeting("hello", "before")
	stop()
	s.edit("hello", kit.Greet("after"))
	s.awaitGreeting("hello", "after")
	s.await("the Service is as it should be", func() error {
		service := &corev1.Service{}
		s.get(service, "hello")
		if got := service.Spec.Ports[0].Port; got != 8080 {
			return fmt.Errorf("the port is %d", got)
		}
		return nil
	})
	s.must(waiting.For(ctx, s.Logf, "the fight is over", 2*time.Minute, time.Second, func(context.Context) error {
		if condition, err := kit.Condition(s.welcome("hello"), "DriftLoop"); err == nil {
			return fmt.Errorf("it still says %v", condition)
		}
		return nil
	}))
}

// Who writes the same every half a minute or more, as a GitOps tool, is put back each time, and told.
func TestSlowFight(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.ownOperator(settings{namespaces: []string{s.namespace}})
	s.deploy("hello")
	service, repairs := &corev1.Service{}, 0
	const pace = 31 * time.Second // from one repair to the next: three within a minute would be a fast fight
	for ; ; time.Sleep(pace) {
		s.as("git", service, func() { service.Spec.Ports[0].Port = 9999 })
		s.await("the port is put back", func() error {
			if s.get(service, "hello"); service.Spec.Ports[0].Port != 8080 {
				return fmt.Errorf("it is %d", service.Spec.Ports[0].Port)
			}
			return nil
		})
		if repairs++; repairs == 5 {
			break
		}
		if condition, err := s.condition("hello", "DriftLoop"); err == nil {
			t.Fatalf("after %d repairs it says %v", repairs, condition)
		}
	}
	s.awaitCondition("hello", "DriftLoop", "True", "Service", "spec.ports[0].port", `"git"`, "again and again")
	s.awaitEvent("hello", "DriftLoop", "spec.ports[0].port")
	isOver := func() error {
		if condition, err := s.condition("hello", "DriftLoop"); err == nil {
			return fmt.Errorf("it still says %v", condition)
		}
		return nil
	}
	s.edit("hello", kit.Greet("after")) // it might be what git has
	s.await("the upgrade has ended the fight, as far as is known", isOver)
	time.Sleep(pace)
	s.as("git", service, func() { service.Spec.Ports[0].Port = 9999 })
	s.awaitCondition("hello", "DriftLoop", "True", "again and again")
	s.awaitWithin(3*time.Minute, "the fight is over", isOver)
}

// What is deleted while others fight for a field of it comes back at once: that may be how the fight ends, as where Flux
// prunes what was in git by mistake.
func TestDeletedInAFight(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}})
	s.deploy("hello")
	stop := s.fight(theirPort)
	s.awaitCondition("hello", "DriftLoop", "True", "Service")
	stop()
	s.deleteService("hello")
	s.awaitWithin(20*time.Second, "the Service is back", func() error { return s.find(&corev1.Service{}, "hello") })

	// Not so an object of which the label is taken off, which the cache no longer shows.
	s.fight(func(service *corev1.Service) bool {
		taken := service.Labels[kit.ManagedBy] != ""
		delete(service.Labels, kit.ManagedBy)
		return taken
	})
	s.await("the label stays off", func() error {
		before := s.record()
		s.seen(operator)
		if requests := ofDrift(before.of(operator)); slices.ContainsFunc(requests, controlplane.Request.Writes) {
			return fmt.Errorf("it is put back by %s", requests)
		}
		service := &corev1.Service{}
		if s.get(service, "hello"); service.Labels[kit.ManagedBy] != "" {
			return errors.New("it is there")
		}
		return nil
	})
}

// An autoscaler that fights for replicas with a number in the spec has its way once that is left out, as the
// condition says.
func TestFightForReplicas(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}})
	s.deploy("hello", kit.Set("replicas", 2))
	s.settled(operator)
	scaling, end := context.WithCancel(ctx)
	over := make(chan struct{})
	s.Cleanup(func() { end(); <-over })
	go func() {
		defer close(over)
		for ; scaling.Err() == nil; time.Sleep(time.Second) {
			if s.hasReplicas("hello", 4) != nil {
				scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 4}}
				_ = env.Client.SubResource("scale").Update(ctx, &appsv1.Deployment{ObjectMeta: objectMeta(s.namespace, "hello")}, client.WithSubResourceBody(scale)) // again, if it fails
			}
		}
	}()
	s.awaitCondition("hello", "DriftLoop", "True", "spec.replicas", "leaves the number of replicas out")
	s.edit("hello", func(welcome *unstructured.Unstructured) {
		unstructured.RemoveNestedField(welcome.Object, "spec", "replicas")
	})
	s.awaitDeployed("hello")
	s.awaitReplicas(4)
	s.seen(operator)
	s.must(s.hasReplicas("hello", 4))
	s.awaitWithin(2*time.Minute, "the fight is over", func() error {
		if condition, err := s.condition("hello", "DriftLoop"); err == nil {
			return fmt.Errorf("it still says %v", condition)
		}
		return nil
	})
	s.must(s.hasReplicas("hello", 4))
}

// Edits of different fields, by different people, are no fight: all are put back.
func TestEditsOfDifferentFieldsAreNoFight(t *testing.T) {
	s := newScene(t)
	s.ownOperator(settings{namespaces: []string{s.namespace}})
	s.deploy("hello", kit.Greet("before"))
	before := &appsv1.Deployment{}
	s.get(before, "hello")
	for i, change := range []func(*appsv1.Deployment){
		func(d *appsv1.Deployment) { d.Labels["welcome"] = "other" },
		func(d *appsv1.Deployment) { d.Spec.RevisionHistoryLimit = new(int32(7)) },
		func(d *appsv1.Deployment) { d.Spec.Template.Spec.TerminationGracePeriodSeconds = new(int64(5)) },
		func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Env[0].Value = "intruders" },
		func(d *appsv1.Deployment) { d.Spec.MinReadySeconds = 5 },
	} {
		now := &appsv1.Deployment{}
		s.as(fmt.Sprintf("person-%d", i), now, func() { change(now) })
		s.await("it is put back", func() error {
			if loop, err := kit.Condition(s.welcome("hello"), "DriftLoop"); err == nil {
				return fmt.Errorf("it says %v", loop)
			}
			if s.get(now, "hello"); now.Labels["welcome"] != "hello" || !equality.Semantic.DeepEqual(now.Spec, before.Spec) {
				return errors.New("it is not")
			}
			return nil
		})
	}
}

func TestDriftDetectionWarns(t *testing.T) {
	s := newScene(t)
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWith("  driftDetection: {mode: warn}\n")})
	s.deploy("hello", kit.Greet("before"))
	s.bringUp("hello")
	service := &corev1.Service{}
	s.as("other", service, func() { service.Spec.Ports[0].Port = 9999 })
	s.awaitCondition("hello", "Drifted", "True", "Service", "spec.ports[0].port", `"other"`)
	s.awaitEvent("hello", "DriftDetected", "spec.ports[0].port")
	s.settled(operator)
	before := s.record()
	s.seen(operator)
	if requests := ofDrift(before.of(operator)); len(requests) > 0 {
		t.Errorf("to leave it so costs %s", requests)
	}
	s.get(service, "hello")
	if got := service.Spec.Ports[0].Port; got != 9999 {
		t.Errorf("the port is %d", got)
	}
	if got := operator.metric(t, "welcome_operator_resources", `condition="Drifted".*status="True"`); got != 1 {
		t.Errorf("the metric says %v", got)
	}
	s.deleteService("hello")
	s.awaitCondition("hello", "Drifted", "True", "Service", "deleted")
	s.awaitReason("hello", "ObjectDeleted", `Service "hello" was deleted`, "kubectl welcome reconcile --force")
	s.edit("hello", kit.Greet("after")) // an upgrade does what it always does
	s.awaitExists(service, "hello")
	s.await("there is no drift", func() error {
		if condition, err := kit.Condition(s.welcome("hello"), "Drifted"); err == nil {
			return fmt.Errorf("it says %v", condition)
		}
		return nil
	})
}

func TestDriftDetectionDisabled(t *testing.T) {
	s := newScene(t)
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWith("  driftDetection: {mode: disabled}\n")})
	s.deploy("hello")
	s.settled(operator)
	before := s.record()
	service := &corev1.Service{}
	s.as("other", service, func() { service.Spec.Ports[0].Port = 9999 })
	s.seen(operator)
	if requests := ofDrift(before.of(operator)); len(requests) > 0 {
		t.Errorf("not to look costs %s", requests)
	}
	s.get(service, "hello")
	if got := service.Spec.Ports[0].Port; got != 9999 {
		t.Errorf("the port is %d", got)
	}

	// What lacks the label by which the cache selects, nobody waits for.
	deployment := &appsv1.Deployment{}
	s.as("other", deployment, func() { delete(deployment.Labels, kit.ManagedBy) })
	s.settled(operator)
	spent := func() float64 {
		return operator.metric(t, "controller_runtime_reconcile_time_seconds_sum", `controller="welcome-controller"`)
	}
	since := spent()
	for range 3 {
		s.seen(operator)
	}
	if took := spent() - since; took > 5 { // each would wait for two seconds
		t.Errorf("three reconciles took %.1f s", took)
	}
}

// What watches.yaml ignores is left to others, in upgrades too; what it does not, and whose an object is, never.
func TestDriftDetectionIgnores(t *testing.T) {
	s := newScene(t)
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWith(`  driftDetection:
    ignore:
    - target: {group: apps, kind: Deployment, labelSelector: welcome=hello}
      paths: [/spec/template/spec/containers/0/image, /spec/template/spec/nodeSelector, /metadata/annotations/ours]
    - target: {kind: Deployment, labelSelector: theirs=added}
      paths: [/spec/template/spec/hostNetwork]
`)})
	s.deploy("hello", kit.Greet("before"))
	const theirs = "example.com/theirs:1"
	theirsStays := func() {
		t.Helper()
		s.must(s.ofDeployment(func(d *appsv1.Deployment) bool {
			pods := d.Spec.Template.Spec
			return pods.Containers[0].Image == theirs && pods.NodeSelector["theirs"] == "true"
		}))
	}
	s.settled(operator)
	before := s.record()
	deployment := &appsv1.Deployment{}
	s.as("other", deployment, func() {
		deployment.Spec.Template.Spec.Containers[0].Image = theirs
		deployment.Spec.Template.Spec.NodeSelector = map[string]string{"theirs": "true"}
	})
	s.seen(operator)
	theirsStays()
	if requests := ofDrift(before.of(operator)); len(requests) > 0 {
		t.Errorf("to ignore it costs %s", requests)
	}
	s.as("other", deployment, func() {
		deployment.Labels["theirs"] = "added" // makes nothing ignored
		deployment.Spec.Template.Spec.HostNetwork = true
		deployment.OwnerReferences[0].BlockOwnerDeletion = new(false)
		delete(deployment.Labels, kit.ManagedBy)
	})
	s.awaitDeployment("hello", "the rest is repaired", func(d *appsv1.Deployment) error {
		if d.Spec.Template.Spec.HostNetwork || d.Labels[kit.ManagedBy] == "" {
			return fmt.Errorf("labels %v, host network %v", d.Labels, d.Spec.Template.Spec.HostNetwork)
		}
		return nil
	})
	theirsStays()
	s.edit("hello", kit.Greet("after"))
	s.awaitGreeting("hello", "after")
	s.awaitDeployed("hello")
	theirsStays()
}

// What others write into objects of a release, and the operator leaves as it is, costs little, however often
// they do; and is not called a fight.
func TestWorkThatStaysCostsLittle(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\ndata: {ours: '1'}")})
	s.deploy("hello")
	s.settled(operator)
	service, config := &corev1.Service{}, &corev1.ConfigMap{}

	before := s.record()
	for i := range 10 {
		s.as("other", service, func() { service.Spec.Ports[0].NodePort = int32(20010 + i) }) // the API server gives these to nobody who asks for none
	}
	s.seen(operator)
	if requests := ofDrift(before.of(operator)); len(requests) > 0 {
		t.Errorf("a node port of the cluster's costs %s", requests)
	}

	before = s.record()
	start := time.Now()
	var beats int
	stop := s.fightOver(config, "hello", func() bool {
		beats++
		config.Data["heartbeat"] = fmt.Sprint(beats)
		return true
	})
	reconciles := operator.reconciles(t)
	s.await("it was noticed often", func() error { return atLeast(operator.reconciles(t)-reconciles, 100) })
	stop()
	requests := before.of(operator)
	t.Logf("%d writes into a ConfigMap cost %s", beats, requests)
	if minutes := max(1, time.Since(start).Minutes()); float64(len(requests)) > 40*minutes {
		t.Errorf("%d writes cost %d requests in %.1f minutes", beats, len(requests), minutes)
	}
	if condition, err := kit.Condition(s.welcome("hello"), "DriftLoop"); err == nil {
		t.Errorf("it says %v", condition)
	}
	// What the chart has in it comes back when the object has rested.
	s.as("other", config, func() { config.Data["ours"] = "2" })
	s.await("the ConfigMap is as it should be", func() error {
		s.get(config, "hello")
		if config.Data["ours"] != "1" || config.Data["heartbeat"] == "" {
			return fmt.Errorf("its data are %v", config.Data)
		}
		return nil
	})
}

// So does an object into which somebody has put so much that nobody can tell whether it has changed, however
// often its custom resource is looked at.
func TestLooksAtACrowdedObject(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}})
	s.deploy("hello")
	s.settled(operator)
	crowded := &appsv1.Deployment{}
	s.as("other", crowded, func() {
		for i := range 1400 {
			crowded.Annotations[fmt.Sprintf("a%04d", i)] = ""
		}
	})
	s.seen(operator)
	before, reconciles := s.record(), operator.reconciles(t)
	for i := range 100 {
		_, err := s.kubectl("", "label", "welcome", "hello", fmt.Sprintf("x=%d", i), "--overwrite")
		s.must(err)
	}
	s.await("it was noticed often", func() error { return atLeast(operator.reconciles(t)-reconciles, 50) })
	if requests := ofDrift(before.of(operator)); len(requests) > 60 {
		t.Errorf("100 labels of a custom resource cost %s", requests)
	}
}

// refuseAutoscalers refuses the objects that an upgrade writes last, so that what comes before is rolled
// back.
func (s *scene) refuseAutoscalers() (lift func()) {
	s.Helper()
	return s.refuse(admissionregistrationv1.Create, "autoscaling", "horizontalpodautoscalers", "nothing scales here", func() error {
		return env.Client.Create(ctx, &autoscalingv1.HorizontalPodAutoscaler{
			ObjectMeta: objectMeta(s.namespace, "probe"),
			Spec:       autoscalingv1.HorizontalPodAutoscalerSpec{ScaleTargetRef: autoscalingv1.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "hello"}, MaxReplicas: 1},
		}, client.DryRunAll)
	})
}

// A claim that somebody has made grow stays so, through upgrades, and also where claims may be made anew; and
// it grows further when the chart wants more.
func TestGrownClaim(t *testing.T) {
	s := newScene(t)
	s.grant("", "persistentvolumeclaims")
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: {{ .Release.Name }}}\nspec:\n  accessModes: [ReadWriteOnce]\n"+
		"  resources: {requests: {storage: {{ index .Values.podLabels \"size\" }}}}") + "  recreate: [PersistentVolumeClaim]\n"})
	s.deploy("hello", kit.Set("podLabels", map[string]any{"size": "1Gi"}))
	claim := &corev1.PersistentVolumeClaim{}
	s.get(claim, "hello")
	uid := claim.UID
	claim.Status.Phase, claim.Status.Capacity = corev1.ClaimBound, claim.Spec.Resources.Requests // nobody makes volumes here
	s.must(env.Client.Status().Update(ctx, claim))
	grow := func(size string) {
		s.as("resizer", claim, func() { claim.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse(size) })
		claim.Status.Capacity = claim.Spec.Resources.Requests
		s.must(env.Client.Status().Update(ctx, claim))
	}
	is := func(size string) {
		s.Helper()
		s.await("the claim asks for "+size, func() error {
			s.get(claim, "hello")
			if got := claim.Spec.Resources.Requests[corev1.ResourceStorage]; claim.UID != uid || got.String() != size {
				return fmt.Errorf("%s asks for %s", claim.UID, got.String())
			}
			return nil
		})
	}
	s.must(env.Client.Create(ctx, &storagev1.StorageClass{ObjectMeta: objectMeta("", s.namespace), Provisioner: "example.com/none", AllowVolumeExpansion: new(true)}))
	s.as("binder", claim, func() { claim.Spec.StorageClassName, claim.Spec.VolumeName = new(s.namespace), "volume" })
	for i, size := range []string{"5Gi", "6Gi"} {
		grow(size)
		s.seen(operator)
		s.edit("hello", kit.Greet(fmt.Sprint("grown-", i)))
		s.awaitGreeting("hello", fmt.Sprint("grown-", i))
		s.awaitDeployed("hello")
		is(size)
	}
	s.settled(operator)
	before := s.record()
	s.seen(operator)
	if requests := ofDrift(before.of(operator)); len(requests) > 0 {
		t.Errorf("a grown claim costs %s", requests)
	}
	s.edit("hello", kit.Set("podLabels", map[string]any{"size": "9Gi"}))
	is("9Gi")
	s.awaitDeployed("hello")
	// Nor does what takes back a failed upgrade, which has made it grow, want it to shrink, or make it anew.
	lift := s.refuseAutoscalers()
	s.edit("hello", kit.Set("autoscaling.enabled", true), kit.Set("podLabels", map[string]any{"size": "12Gi"}))
	s.awaitReason("hello", "Rejected", "nothing scales here")
	is("12Gi")
	if condition, err := kit.Condition(s.welcome("hello"), "Ready"); err != nil || strings.Contains(condition.Message, "roll back") {
		t.Errorf("it says %v: %v", condition, err)
	}
	lift()
	s.awaitDeployed("hello")
	is("12Gi")
}

// What serves people is kept as it was while the newest spec fails, also by an operator that has just begun.
func TestRepairsWhileTheSpecFails(t *testing.T) {
	s := newScene(t)
	only := settings{namespaces: []string{s.namespace}}
	operator := s.ownOperator(only)
	s.deploy("hello", kit.Greet("before"))
	lift := s.refuseAutoscalers()
	s.edit("hello", kit.Greet("after"), kit.Set("autoscaling.enabled", true))
	s.awaitReason("hello", "Rejected", "nothing scales here")
	comesBack := func() {
		t.Helper()
		service := &corev1.Service{}
		s.get(service, "hello")
		s.must(env.Client.Delete(ctx, service))
		was := service.UID
		s.awaitWithin(15*time.Second, "the Service is back", func() error { // the next try may be a minute away
			if err := s.find(service, "hello"); err != nil {
				return err
			}
			if service.UID == was {
				return errors.New("it is not deleted yet")
			}
			return nil
		})
	}
	for range 3 {
		comesBack()
	}
	operator.Kill()
	operator = s.ownOperator(only)
	s.await("the operator works", func() error { return atLeast(operator.reconciles(t), 1) })
	comesBack()
	s.awaitReason("hello", "Rejected", "nothing scales here")
	lift()
	s.awaitGreeting("hello", "after")
	s.awaitDeployed("hello")
}

// Helm's own commands take off what they do not know of the records that they write. The release goes on,
// after each of them and at each later edit.
func TestHelmByHand(t *testing.T) {
	s := newScene(t)
	s.operator()
	s.deploy("hello", kit.Greet("one"))
	s.edit("hello", kit.Greet("two"))
	s.awaitGreeting("hello", "two")
	s.awaitDeployed("hello")
	config := s.helm("configmap")
	for i, command := range []func() error{
		func() error { return action.NewRollback(config).Run("hello") },
		func() error {
			uninstall := action.NewUninstall(config)
			uninstall.KeepHistory = true
			_, err := uninstall.Run("hello")
			return err
		},
		func() error { // by somebody who tidies up
			records := s.records("hello")
			return env.Client.Patch(ctx, &records[len(records)-1], client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"ownerReferences": null}}`)))
		},
	} {
		s.must(command())
		for _, what := range []string{"first", "second", "third"} {
			greeting := fmt.Sprint(what, "-", i)
			s.edit("hello", kit.Greet(greeting))
			s.awaitGreeting("hello", greeting)
			s.awaitDeployed("hello")
		}
	}
}

// A record without the operator's label, as older versions of Helm write it, the operator may not delete: it says so.
func TestRecordOfAnOlderHelm(t *testing.T) {
	s := newScene(t)
	s.operator()
	s.deploy("hello", kit.Greet("one"))
	record := &s.records("hello")[0]
	s.must(env.Client.Patch(ctx, record, client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"ownerReferences": null, "labels": {"webapp.demo.welcome.domain/managed-by": null}}}`))))
	s.edit("hello", kit.Greet("two"))
	s.awaitReason("hello", "ObjectInTheWay", `ConfigMap "`+record.Name+`"`, "delete")
	s.must(env.Client.Delete(ctx, record))
	s.awaitGreeting("hello", "two")
	s.awaitDeployed("hello")
}

// A pod of a chart stays with what admission and the scheduler put into it, and gets the chart's next image.
func TestPodOfAChart(t *testing.T) {
	s := newScene(t)
	s.grant("", "pods")
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, `
apiVersion: v1
kind: Pod
metadata: {name: {{ .Release.Name }}}
spec:
  automountServiceAccountToken: false
  tolerations: [{key: ours, operator: Exists}]
  containers: [{name: it, image: "example.com/{{ .Values.name }}:1", args: [a, b]}]`) + "  recreate: [Pod]\n"})
	s.deploy("hello", kit.Greet("before"))
	pod := &corev1.Pod{}
	s.get(pod, "hello")
	uid := pod.UID
	if len(pod.Spec.Tolerations) < 2 {
		t.Fatalf("admission has added nothing to %v", pod.Spec.Tolerations)
	}
	s.must(env.Client.SubResource("binding").Create(ctx, pod, &corev1.Binding{ObjectMeta: objectMeta(s.namespace, "hello"), Target: corev1.ObjectReference{Kind: "Node", Name: "somewhere"}}))
	s.seen(operator)
	before := s.record()
	s.seen(operator)
	if requests := ofDrift(before.of(operator)); len(requests) > 0 {
		t.Errorf("a pod that is scheduled costs %s", requests)
	}
	s.edit("hello", kit.Greet("after"))
	s.awaitGreeting("hello", "after")
	s.awaitDeployed("hello")
	s.get(pod, "hello")
	if pod.UID != uid || pod.Spec.Containers[0].Image != "example.com/after:1" || pod.Spec.NodeName != "somewhere" {
		t.Errorf("it is another one (%t), with image %s on node %q", pod.UID != uid, pod.Spec.Containers[0].Image, pod.Spec.NodeName)
	}
}
