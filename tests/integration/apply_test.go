package integration

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"helm.sh/helm/v3/pkg/release"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

func (s *scene) changeService(change func(*corev1.Service)) {
	s.Helper()
	service := &corev1.Service{}
	s.get(service, "hello")
	change(service)
	s.must(env.Client.Update(ctx, service))
}

// Whatever somebody did to the objects while the operator looked away, the next edit reaches what the chart
// wants. Helm's merge cannot: a list entry with another key is one more for it, and the API server refuses
// two ports of one name.
func TestUpgradeOverWhatOthersChanged(t *testing.T) {
	for name, change := range map[string]func(*scene){
		"another port of the Service": func(s *scene) {
			s.changeService(func(service *corev1.Service) { service.Spec.Ports[0].Port = 8081 })
		},
		"another name of the port": func(s *scene) {
			s.changeService(func(service *corev1.Service) { service.Spec.Ports[0].Name = "other" })
		},
		"one more port": func(s *scene) {
			s.changeService(func(service *corev1.Service) {
				service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{Name: "more", Port: 9999, TargetPort: intstr.FromInt32(9999)})
			})
		},
		"as many annotations as it may have": func(s *scene) {
			s.changeService(func(service *corev1.Service) {
				service.Annotations = map[string]string{"example.com/theirs": strings.Repeat("x", 256<<10-len("example.com/theirs"))}
			})
		},
		"another port of the container": func(s *scene) {
			s.changeDeployment(func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Ports[0].ContainerPort = 8081 })
		},
		"another name of the container": func(s *scene) {
			s.changeDeployment(func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Name = "other" })
		},
		"no owner's marks of Helm": func(s *scene) {
			s.changeDeployment(func(d *appsv1.Deployment) {
				delete(d.Labels, "app.kubernetes.io/managed-by")
				delete(d.Annotations, "meta.helm.sh/release-name")
			})
			for _, record := range s.records("hello") {
				s.must(env.Client.Delete(ctx, &record))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.operator()
			s.deploy("hello", kit.Greet("before"))
			deployment := &appsv1.Deployment{}
			s.get(deployment, "hello")
			s.pause()
			change(s)
			s.edit("hello", kit.Pause(false), kit.Greet("after"), kit.Set("replicas", 3))
			s.awaitGreeting("hello", "after")
			s.awaitDeployed("hello")
			s.awaitDeployment("hello", "the Deployment is what the chart wants", func(d *appsv1.Deployment) error {
				c := d.Spec.Template.Spec.Containers
				if d.UID != deployment.UID || len(c) != 1 || c[0].Name != "welcome" || len(c[0].Ports) != 1 || c[0].Ports[0].ContainerPort != 8080 || *d.Spec.Replicas != 3 {
					return fmt.Errorf("it has %v replicas of %v", *d.Spec.Replicas, c)
				}
				return nil
			})
			service := &corev1.Service{}
			s.get(service, "hello")
			if p := service.Spec.Ports; len(p) != 1 || p[0].Name != "http" || p[0].Port != 8080 {
				t.Errorf("the Service has the ports %v", p)
			}
		})
	}
}

// What others have set goes where a policy denies it beside what the chart wants. What it denies anyway stays
// as it was: nothing is deleted for it.
func TestUpgradeThatAPolicyDenies(t *testing.T) {
	s := newScene(t)
	s.ownOperator(settings{namespaces: []string{s.namespace}, watches: configured(t, "  recreate: [ConfigMap]\n")})
	s.deploy("hello", kit.Greet("before"))
	config := &corev1.ConfigMap{}
	s.as("other", config, func() { config.Data["theirs"] = "set" })
	probe := &corev1.ConfigMap{ObjectMeta: objectMeta(s.namespace, "probe"), Data: map[string]string{"never": ""}}
	lift := s.deny(admissionregistrationv1.Validation{
		Expression: "!has(object.data) || !('never' in object.data) && !('after' in object.data && 'theirs' in object.data)", Message: "not both", Reason: new(metav1.StatusReasonForbidden),
	}, admissionregistrationv1.OperationAll, "", "configmaps", func() error { return env.Client.Create(ctx, probe, client.DryRunAll) })
	defer lift()
	s.edit("hello", kit.Greet("after"))
	s.awaitDeployed("hello")
	s.awaitGreeting("hello", "after")
	s.edit("hello", kit.Greet("never"))
	s.awaitCondition("hello", "Ready", "False", "patch ConfigMap", "not both")
	before := config.UID
	if s.get(config, "hello"); config.UID != before || config.Data["after"] == "" || config.Data["theirs"] != "" {
		t.Errorf("it is %s with %v", config.UID, config.Data)
	}
}

// Nor is anything deleted because a policy that changes objects fails at the upgrade, and takes a new one as it is.
func TestUpgradeAtWhichAMutatingPolicyFails(t *testing.T) {
	s := newScene(t)
	s.ownOperator(settings{namespaces: []string{s.namespace}, watches: configured(t, "  recreate: [ConfigMap]\n")})
	s.deploy("hello", kit.Greet("before"))
	config := &corev1.ConfigMap{}
	s.get(config, "hello")
	before := config.DeepCopy()
	lift := s.mutate(`object.metadata.name == "hello" ? [JSONPatch{op: "remove", path: "/data/none"}] : []`, "configmaps", func() error {
		if env.Client.Update(ctx, config, client.DryRunAll) == nil {
			return errors.New("the update would go through")
		}
		return nil
	}, admissionregistrationv1.Update)
	s.edit("hello", kit.Greet("after"))
	s.awaitReason("hello", "Rejected", `patch ConfigMap "hello"`, "policy '"+s.namespace+"'", "or the policy that refuses the object")
	if s.get(config, "hello"); config.UID != before.UID || config.ResourceVersion != before.ResourceVersion {
		t.Errorf("it is %s with %v", config.UID, config.Data)
	}
	lift()
	s.awaitDeployed("hello")
	s.awaitGreeting("hello", "after")
}

// What a webhook denies once in a while costs others nothing of what they have set.
func TestUpgradeThatAWebhookDeniesOnce(t *testing.T) {
	s := newScene(t)
	s.ownOperator(settings{namespaces: []string{s.namespace}, watches: configured(t, "")})
	s.deploy("hello", kit.Greet("before"))
	config := &corev1.ConfigMap{}
	s.as("other", config, func() { config.Data["theirs"] = "set" })
	var asked atomic.Int32
	s.webhook(admissionregistrationv1.Update, "", "configmaps", func(_ context.Context, request *admissionv1.AdmissionRequest) string {
		switch {
		case request.Name == "probe":
			return "asked"
		case request.Name == "hello" && asked.Add(1) == 1:
			return "not now"
		}
		return ""
	})
	probe := &corev1.ConfigMap{ObjectMeta: objectMeta(s.namespace, "probe")}
	s.must(env.Client.Create(ctx, probe))
	s.await("the webhook is asked", func() error {
		if err := env.Client.Update(ctx, probe, client.DryRunAll); err == nil {
			return errors.New("it is not")
		}
		return nil
	})
	s.edit("hello", kit.Greet("after"))
	s.awaitDeployed("hello")
	s.awaitGreeting("hello", "after")
	if s.get(config, "hello"); config.Data["after"] == "" || config.Data["theirs"] != "set" || asked.Load() < 2 {
		t.Errorf("asked %d times, it has %v", asked.Load(), config.Data)
	}
}

// Who enables autoscaling under load has ten pods, and then one that an autoscaler has to make ten of again.
func TestAutoscalingDoesNotScaleDown(t *testing.T) {
	s := newScene(t)
	s.operator()
	s.deploy("hello", kit.Set("replicas", 10))
	watch, err := env.Client.Watch(ctx, &appsv1.DeploymentList{}, client.InNamespace(s.namespace))
	s.must(err)
	defer watch.Stop()
	s.edit("hello", kit.Set("autoscaling.enabled", true), kit.Set("autoscaling.minReplicas", 10), kit.Set("autoscaling.maxReplicas", 20), kit.Greet("after"))
	s.awaitGreeting("hello", "after")
	s.awaitDeployed("hello")
	for {
		deployment := (<-watch.ResultChan()).Object.(*appsv1.Deployment)
		if got := ptr.Deref(deployment.Spec.Replicas, 0); got != 10 {
			t.Fatalf("it was scaled to %d", got)
		}
		if kit.Greeting(deployment) == "after" {
			return // what is to be seen has been
		}
	}
}

// Who has stopped a Welcome and enables autoscaling has it run: no autoscaler scales what has no replicas.
func TestAutoscalingAfterAStop(t *testing.T) {
	s := newScene(t)
	s.operator()
	s.deploy("hello", kit.Set("replicas", 0))
	s.awaitReplicas(0)
	s.edit("hello", kit.Set("autoscaling.enabled", true))
	s.awaitReplicas(1)
	s.awaitDeployed("hello")
}

// What is not of its type in a rendering is told with its object, and without what else that has.
func TestNumberForAText(t *testing.T) {
	s := newScene(t)
	s.ownOperator(settings{namespaces: []string{s.namespace}, account: s.accountForCharts(), watches: watchesWithMore(t, `
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ if eq .Values.name "name" }}1{{ else }}{{ .Release.Name }}{{ end }}
  labels: {version: {{ if eq .Values.name "label" }}1.10{{ else }}"1.10"{{ end }}}
data: {port: {{ if eq .Values.name "data" }}80{{ else }}"80"{{ end }}}`)})
	for _, name := range []string{"installed", "upgraded"} {
		if name == "upgraded" {
			s.deploy(name)
		} else {
			s.create(name, kit.Greet("data"))
		}
		for mistake, says := range map[string]string{
			"data":  fmt.Sprintf(`ConfigMap %q in namespace %q: `, name, s.namespace),
			"label": fmt.Sprintf(`ConfigMap %q: the value 1.1 of the label version is not a string`, name),
			"name":  `ConfigMap "1": its name is not a string`,
		} {
			s.edit(name, kit.Greet(mistake))
			s.awaitReason(name, "ChartError", says)
			s.awaitCondition(name, "Stalled", "True", says)
			if ready, err := s.condition(name, "Ready"); err != nil || len(ready.Message) > 400 || strings.Contains(ready.Message, "managedFields") {
				t.Errorf("%v: it says %s", err, ready.Message)
			}
		}
	}
}

// What a forged record says that the chart once wanted is taken out of nothing.
func TestForgedRecordTakesNothingOut(t *testing.T) {
	s := newScene(t)
	s.operator()
	s.deploy("hello", kit.Greet("before"))
	s.changeService(func(service *corev1.Service) { service.Annotations["example.com/note"] = "mine" })
	s.forge("hello", func(_ *corev1.ConfigMap, rel *release.Release) {
		forged := strings.Replace(rel.Manifest, "kind: Service\nmetadata:\n", "kind: Service\nmetadata:\n  annotations: {example.com/note: mine}\n", 1)
		if forged == rel.Manifest {
			t.Fatal("the manifest of the Service begins in another way")
		}
		rel.Manifest = forged
	})
	s.edit("hello", kit.Greet("after"), kit.Set("service.port", 8081))
	s.awaitGreeting("hello", "after")
	s.awaitDeployed("hello")
	service := &corev1.Service{}
	s.get(service, "hello")
	if service.Spec.Ports[0].Port != 8081 || service.Annotations["example.com/note"] != "mine" {
		t.Errorf("ports %v, annotations %v", service.Spec.Ports, service.Annotations)
	}
}

// What the chart has dropped goes, and only that.
func TestUpgradeDropsWhatTheChartDropped(t *testing.T) {
	s := newScene(t)
	s.operator()
	s.deploy("hello", kit.Set("service.annotations", map[string]any{"first": "1", "second": "2"}))
	s.changeService(func(service *corev1.Service) { service.Annotations["example.com/note"] = "mine" })
	s.edit("hello", kit.Set("service.annotations", map[string]any{"second": "2"}), kit.Greet("after"))
	s.awaitGreeting("hello", "after")
	s.awaitDeployed("hello")
	s.await("the annotations are right", func() error {
		service := &corev1.Service{}
		s.get(service, "hello")
		if a := service.Annotations; a["first"] != "" || a["second"] != "2" || a["example.com/note"] != "mine" {
			return fmt.Errorf("they are %v", a)
		}
		return nil
	})
}

// What a chart makes null goes from a custom resource, even if it was empty there: that means something, as the type of an issuer.
func TestNullForWhatWasEmpty(t *testing.T) {
	s := newScene(t)
	s.serveKind("Issuer")
	s.ownOperator(settings{namespaces: []string{s.namespace}, account: s.accountForCharts(), watches: watchesWithMore(t, `
apiVersion: kinds.example.com/v1
kind: Issuer
metadata: {name: {{ .Release.Name }}}
spec: {selfSigned: {{ ternary dict nil (eq .Values.name "before") | toJson }}, ca: {secretName: {{ .Values.name }}}}`) + "  allow: {kinds: [Issuer.kinds.example.com]}\n"})
	s.deploy("hello", kit.Greet("before"))
	s.edit("hello", kit.Greet("after"))
	s.awaitGreeting("hello", "after")
	s.awaitDeployed("hello")
	want := map[string]any{"ca": map[string]any{"secretName": "after"}}
	if got := s.of("Issuer", "hello").Object["spec"]; !reflect.DeepEqual(got, want) {
		t.Errorf("it has %v", got)
	}
}

// The guard's patches carry the UID of what it has looked at. Should somebody have made the object anew, the
// API server says so in the way that the guard expects.
func TestPatchOfAnotherObjectIsRefused(t *testing.T) {
	s := newScene(t)
	service := s.foreignService(s.namespace, "precious")
	err := env.Client.Patch(ctx, service, client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"uid": "another"}, "spec": {"ports": [{"port": 1}]}}`)))
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details.Causes[0].Field != "metadata.uid" {
		t.Errorf("the answer is %v", err)
	}
	s.unharmed(service)
}

// A ConfigMap of a chart is no release record, and the records are none of the chart's: with the first, the
// operator watches both. What the chart has dropped from its data goes, and what somebody has added stays.
func TestConfigMapInAChart(t *testing.T) {
	s := newScene(t)
	s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, `
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}}
data:
  greeting: {{ .Values.name }}
{{- if eq .Values.name "first" }}
  dropped: "true"
{{- end }}`)})
	welcome := s.deploy("hello", kit.Greet("first"))
	s.changeConfigMap("hello", func(data map[string]string) { data["theirs"] = "stays" })
	for i, greeting := range []string{"second", "third"} {
		s.edit("hello", kit.Greet(greeting))
		s.awaitGreeting("hello", greeting)
		s.awaitDeployed("hello")
		s.await("the ConfigMap is right", func() error {
			config := &corev1.ConfigMap{}
			s.get(config, "hello")
			if len(config.Data) != 2 || config.Data["greeting"] != greeting || config.Data["theirs"] != "stays" {
				return fmt.Errorf("its data are %v", config.Data)
			}
			return s.hasRecords("hello", i+2)
		})
	}
	s.delete(welcome)
	s.awaitGone(&corev1.ConfigMap{}, "hello")
	s.must(s.hasRecords("hello", 0))
}

func (s *scene) changeConfigMap(name string, change func(data map[string]string)) {
	s.Helper()
	config := &corev1.ConfigMap{}
	s.get(config, name)
	change(config.Data)
	s.must(env.Client.Update(ctx, config))
}

// A port of a Service that gets the name of one, and another the number of it, do not both get its node port,
// which the API server would not take.
func TestPortsThatAreRenamed(t *testing.T) {
	s := newScene(t)
	s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, `
apiVersion: v1
kind: Service
metadata: {name: "{{ .Release.Name }}-more"}
spec:
  type: NodePort
  selector: {a: b}
  ports: [{{ if eq .Values.name "before" }}{name: http, port: 80}{{ else }}{name: old, port: 80}, {name: http, port: 8080}{{ end }}]`)})
	s.deploy("hello", kit.Greet("before"))
	service := &corev1.Service{}
	s.get(service, "hello-more")
	before := service.Spec.Ports[0].NodePort
	s.edit("hello", kit.Greet("after"))
	s.awaitDeployed("hello")
	s.get(service, "hello-more")
	if ports := service.Spec.Ports; len(ports) != 2 || ports[1].NodePort != before || ports[0].NodePort == before {
		t.Errorf("its ports are %v, and http had node port %d", ports, before)
	}
}
