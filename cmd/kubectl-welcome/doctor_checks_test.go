package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"demo.welcome.domain/welcome-operator/internal/object"
	boot "demo.welcome.domain/welcome-operator/internal/operator"
	"demo.welcome.domain/welcome-operator/internal/status"
)

func welcome(name string, edit func(*unstructured.Unstructured)) unstructured.Unstructured {
	obj := unstructured.Unstructured{Object: map[string]any{"apiVersion": "webapp.demo.welcome.domain/v1", "kind": "Welcome"}}
	obj.SetNamespace("team-a")
	obj.SetName(name)
	if edit != nil {
		edit(&obj)
	}
	return obj
}

func isReady(reason, message string) func(*unstructured.Unstructured) {
	return func(obj *unstructured.Unstructured) {
		obj.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "False", "reason": reason, "message": message}}}
	}
}

func watching(env ...corev1.EnvVar) operator { return configured(nil, env...) }

// configured is an operator with an environment, beside which is the ConfigMap "settings".
func configured(from []corev1.EnvFromSource, env ...corev1.EnvVar) operator {
	deployment := appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "operators", Name: "op"}}
	deployment.Spec.Template.Annotations = map[string]string{"olm.targetNamespaces": "team-a,team-b"}
	deployment.Spec.Template.Spec.ServiceAccountName = "account"
	deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: "proxy", Args: []string{"--upstream=x"}}, {Name: "manager", Args: []string{"--enable-leader-election=1", "--shard", "b"}, Env: env}}
	deployment.Spec.Template.Spec.Containers[1].EnvFrom = from
	deployment.Status.AvailableReplicas = 1
	api := fake.NewClientBuilder().WithObjects(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "operators", Name: "settings"}, Data: map[string]string{"NAMESPACE": "team-c"}}).Build()
	return newOperator(context.Background(), api, deployment)
}

func TestDeletionsEnd(t *testing.T) {
	deleted := func(ago time.Duration) func(*unstructured.Unstructured) {
		return func(obj *unstructured.Unstructured) {
			isReady("UninstallError", "Service x is kept by a finalizer")(obj)
			obj.SetDeletionTimestamp(&metav1.Time{Time: time.Now().Add(-ago)})
			obj.SetFinalizers([]string{"uninstall-helm-release"})
		}
	}
	p := &patient{cluster: &cluster{}, customResources: []unstructured.Unstructured{welcome("lives", nil), welcome("goes", deleted(time.Second)), welcome("stuck", deleted(time.Hour))}}
	for name, test := range map[string]struct {
		operators []operator
		remedy    string
	}{
		"an operator runs": {[]operator{watching()}, "kubectl welcome status welcome/stuck -n team-a says why"},
		"none watches it":  {[]operator{watching(corev1.EnvVar{Name: "WATCH_NAMESPACE", Value: "team-b"})}, `Kubernetes deletes what it owns in its namespace, its data too, without hooks (after --cascade=orphan, it owns nothing any more); what is in none stays: kubectl -n team-a patch welcome.webapp.demo.welcome.domain/stuck --type=merge -p '{"metadata":{"finalizers":[]}}'`},
		"there is none":    {nil, "no operator that runs serves it"},
	} {
		p.operators = test.operators
		looked, found, err := deletionsEnd(context.Background(), p)
		if err != nil || looked != "2 under way" || len(found) != 1 {
			t.Fatalf("%s: %q, %v, %v", name, looked, found, err)
		}
		if problem := found[0].problem; !strings.Contains(problem, "welcome/stuck in namespace team-a") || !strings.Contains(problem, "uninstall-helm-release: Service x is kept") {
			t.Errorf("%s: %s", name, problem)
		}
		if !strings.Contains(found[0].remedy, test.remedy) {
			t.Errorf("%s: %s", name, found[0].remedy)
		}
	}
}

// An operator of other kinds, or another shard, never takes the finalizer off: the remedy is not to read the status, which
// says no more than that the operator has yet to see it.
func TestDeletionsThatNobodyEnds(t *testing.T) {
	gone := welcome("stuck", func(obj *unstructured.Unstructured) {
		obj.Object["status"] = map[string]any{"operator": "operators/" + boot.LeaderElectionID + "-b"}
		obj.SetDeletionTimestamp(&metav1.Time{Time: time.Now().Add(-time.Hour)})
		obj.SetFinalizers([]string{"uninstall-helm-release"})
	})
	unclaimed := *gone.DeepCopy()
	delete(unclaimed.Object, "status")
	of := func(kind, shard string) operator {
		o := operator{options: boot.Options{LeaderElectionID: boot.LeaderElectionID, Shard: shard}, serves: sets.New(schema.GroupKind{Group: welcomes.Group, Kind: kind})}
		o.Namespace, o.Status.AvailableReplicas = "elsewhere", 1
		return o
	}
	for name, test := range map[string]struct {
		obj  unstructured.Unstructured
		by   operator
		ends bool
	}{
		"its own":                             {gone, watching(), true},
		"one of other kinds":                  {gone, of("CronTab", ""), false},
		"another shard":                       {gone, of("Welcome", "a"), false},
		"one that takes over":                 {gone, of("Welcome", ""), true},
		"of nobody, one of other kinds":       {unclaimed, of("CronTab", ""), false},
		"of nobody, one of the kind":          {unclaimed, of("Welcome", ""), true},
		"of nobody, one of unknown kinds":     {unclaimed, watching(), true},
		"of nobody, one of the kind's shards": {unclaimed, of("Welcome", "a"), true},
	} {
		_, found, err := deletionsEnd(t.Context(), &patient{cluster: &cluster{}, customResources: []unstructured.Unstructured{test.obj}, operators: []operator{test.by}})
		if err != nil || len(found) != 1 || strings.Contains(found[0].remedy, "kubectl welcome status") != test.ends || strings.Contains(found[0].remedy, "no operator that runs") == test.ends {
			t.Errorf("%s: %v, %v", name, found, err)
		}
	}
}

// Which kinds an operator serves, its lease tells, and not the namespace that it shares with another.
func TestServesByLease(t *testing.T) {
	of := func(lease string) appsv1.Deployment {
		d := appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "operators", Name: lease}}
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "manager", Args: []string{"--leader-elect", "--leader-election-id=" + lease}}}
		return d
	}
	p := &patient{cluster: &cluster{}, Client: fake.NewClientBuilder().Build(), customResources: []unstructured.Unstructured{
		welcome("hello", func(obj *unstructured.Unstructured) {
			obj.Object["status"] = map[string]any{"operator": "operators/first"}
		}),
	}}
	for _, o := range p.meant(t.Context(), []appsv1.Deployment{of("first"), of("second")}) {
		if got, want := o.serves.Len(), map[string]int{"first": 1, "second": 0}[o.Name]; got != want {
			t.Errorf("%s serves %v", o, o.serves)
		}
	}
}

// A shard that has claimed nothing yet serves what the others do, as far as is known.
func TestShardThatServesNothingYet(t *testing.T) {
	kind := schema.GroupKind{Group: welcomes.Group, Kind: "Welcome"}
	crd := &apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{Group: kind.Group, Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind.Kind}}}
	p := &patient{operators: []operator{
		{options: boot.Options{Shard: "a"}, serves: sets.New(kind)}, {options: boot.Options{Shard: "b"}}, {options: boot.Options{}},
	}}
	serving, err := p.serving([]*apiextensionsv1.CustomResourceDefinition{crd})
	if err != nil || len(serving) != 2 || serving[1].options.Shard != "b" {
		t.Errorf("%v, %v", serving, err)
	}
}

// The status of before a deletion does not say what keeps the custom resource.
func TestDeletionNotSeenYet(t *testing.T) {
	p := &patient{cluster: &cluster{}, customResources: []unstructured.Unstructured{welcome("stuck", func(obj *unstructured.Unstructured) {
		isReady("Healthy", "All is well")(obj)
		obj.SetGeneration(2) // as the API server does
		obj.SetDeletionTimestamp(&metav1.Time{Time: time.Now().Add(-time.Hour)})
	})}}
	if _, found, err := deletionsEnd(context.Background(), p); err != nil || len(found) != 1 || strings.Contains(found[0].problem, "All is well") {
		t.Error(found, err)
	}
}

// If a custom resource that was deleted with --cascade=orphan is given up, its objects stay.
func TestGivenUpWhileOrphaned(t *testing.T) {
	p := &patient{cluster: &cluster{}, customResources: []unstructured.Unstructured{welcome("stuck", func(obj *unstructured.Unstructured) {
		obj.SetDeletionTimestamp(&metav1.Time{Time: time.Now().Add(-time.Hour)})
		obj.SetFinalizers([]string{"orphan", "uninstall-helm-release"})
	})}}
	_, found, err := deletionsEnd(context.Background(), p)
	if err != nil || len(found) != 1 || !strings.Contains(found[0].remedy, `what it has made stays: kubectl -n team-a patch welcome.webapp.demo.welcome.domain/stuck --type=merge -p '{"metadata":{"finalizers":["orphan"]}}'`) {
		t.Error(found, err)
	}
}

// Events stay after their cause: that an operator left a custom resource to another one is no problem once a third one
// has taken it over.
func TestOperatorsThatWereTwo(t *testing.T) {
	minutesAgo := func(minutes int, holder, other string) client.Object {
		event := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: fmt.Sprint("event-", minutes)}, InvolvedObject: corev1.ObjectReference{Namespace: "team-a", Name: "a", UID: "1"}}
		event.Reason, event.Message, event.LastTimestamp = status.StandsBack, fmt.Sprintf("%s%q. This operator is %q", status.LeftTo, holder, other), metav1.NewTime(time.Now().Add(-time.Duration(minutes)*time.Minute))
		return event
	}
	by := func(operator string) unstructured.Unstructured {
		return welcome("a", func(obj *unstructured.Unstructured) {
			obj.SetUID("1")
			obj.Object["status"] = map[string]any{"operator": operator}
		})
	}
	for name, test := range map[string]struct {
		served   string
		events   []client.Object
		problems int
	}{
		"they are":           {"machine vm/b", []client.Object{minutesAgo(1, "machine vm/b", "a")}, 1},
		"they were":          {"system/a", []client.Object{minutesAgo(7, "system/a", "machine vm/b")}, 0}, // make run has ended
		"taken over":         {"machine vm/b", []client.Object{minutesAgo(1, "system/a", "b")}, 0},
		"and back":           {"machine vm/a", []client.Object{minutesAgo(5, "machine vm/a", "b"), minutesAgo(1, "machine vm/b", "a")}, 0},
		"and back, and anew": {"machine vm/a", []client.Object{minutesAgo(5, "machine vm/a", "b"), minutesAgo(3, "machine vm/b", "a"), minutesAgo(1, "machine vm/a", "b")}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			api := fake.NewClientBuilder().WithObjects(test.events...).WithIndex(&corev1.Event{}, "reason", func(o client.Object) []string { return []string{o.(*corev1.Event).Reason} }).Build()
			_, found, err := operatorsAreAlone(context.Background(), &patient{cluster: &cluster{}, Client: api, customResources: []unstructured.Unstructured{by(test.served)}})
			found = slices.DeleteFunc(found, func(f finding) bool { return !strings.Contains(f.problem, "an event of") })
			if err != nil || len(found) != test.problems {
				t.Error(found, err)
			}
		})
	}
}

// A pod that was evicted still exists, but another one has replaced it.
func TestUnready(t *testing.T) {
	long := metav1.Time{Time: time.Now().Add(-time.Hour)}
	pod := corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: long}}}}
	if got := unready(pod); !strings.HasPrefix(got, "is not ready since ") {
		t.Errorf("it runs, and is not ready: %q", got)
	}
	pod.Status.Phase = corev1.PodFailed
	if got := unready(pod); got != "" {
		t.Errorf("it is evicted: %q", got)
	}
}

// Of a pod in which nothing has ended yet, kubectl logs --previous shows only that there is no such container.
func TestLogsOf(t *testing.T) {
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "a"}, Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{}}}}
	if got := logsOf(pod); got != "kubectl -n system logs a --all-containers" {
		t.Errorf("it runs, and is not ready: %s", got)
	}
	pod.Status.ContainerStatuses[0] = corev1.ContainerStatus{
		State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}},
	}
	if got := logsOf(pod); got != "kubectl -n system logs a --all-containers --previous" {
		t.Errorf("it keeps ending: %s", got)
	}
}

func TestImagesArePulled(t *testing.T) {
	fails := isReady("ImagePullFailed", `Pod "a-1" cannot pull the image example.com:5000/page:v1: not found`)
	p := &patient{cluster: &cluster{}, customResources: []unstructured.Unstructured{welcome("a", fails), welcome("b", fails), welcome("c", isReady("CrashLooping", "no"))}}
	_, found, err := imagesArePulled(context.Background(), p)
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	if want := "pods of 2 custom resources lack their image example.com:5000/page:v1, as those of welcome/a in namespace team-a"; found[0].problem != want {
		t.Errorf("%s, not %s", found[0].problem, want)
	}
}

// If one kind cannot be listed, the problems of the others are told, and so is the error.
func TestChecksOfWhatIsListed(t *testing.T) {
	gone := welcome("gone", func(obj *unstructured.Unstructured) {
		isReady("ImagePullFailed", `Pod "a-1" cannot pull the image page:v1: not found`)(obj)
		obj.SetDeletionTimestamp(&metav1.Time{Time: time.Now().Add(-time.Hour)})
		obj.SetFinalizers([]string{"uninstall-helm-release"})
	})
	dead := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "judge"}, Webhooks: []admissionregistrationv1.ValidatingWebhook{{
		Name: "judge.example.com", ClientConfig: admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: "judges", Name: "judge"}},
		Rules: []admissionregistrationv1.RuleWithOperations{{Rule: admissionregistrationv1.Rule{APIGroups: []string{"apps"}, Resources: []string{"deployments"}}}},
	}}}
	rights, err := needs(nil)
	if err != nil {
		t.Fatal(err)
	}
	api := fake.NewClientBuilder().WithObjects(dead).WithIndex(&corev1.Event{}, "reason", func(client.Object) []string { return nil }).Build()
	p := &patient{cluster: &cluster{}, Client: api, needs: rights, customResources: []unstructured.Unstructured{gone}, unlisted: errors.New("list crontabs: its webhook is away")}
	for name, look := range map[string]func(context.Context, *patient) (string, []finding, error){
		"nobody serves welcome/gone": operatorsAreAlone, "webhook judge.example.com": admissionLets, "image page:v1": imagesArePulled, "welcome/gone in namespace team-a is being deleted": deletionsEnd,
	} {
		_, found, err := look(context.Background(), p)
		if len(found) == 0 || !strings.Contains(found[0].problem, name) || !errors.Is(err, p.unlisted) {
			t.Errorf("%s: %v, %v", name, found, err)
		}
	}
}

// That the caller may not create, or the API server does not answer, says nothing about what the operator may. What
// refuses it, does.
func TestAdmissionLets(t *testing.T) {
	configMaps := schema.GroupResource{Resource: "configmaps"}
	for name, test := range map[string]struct {
		refuses          error
		problem, unknown string
	}{
		"it passes":          {nil, "", ""},
		"by a policy":        {apierrors.NewForbidden(configMaps, "", errors.New(`ValidatingAdmissionPolicy "strict" denied request`)), `in namespace team-a, team-b, the API server refuses a dry run of what operators make: configmaps is forbidden: ValidatingAdmissionPolicy "strict"`, ""},
		"by a webhook":       {apierrors.NewInternalError(errors.New(`failed calling webhook "judge.example.com": no endpoints`)), `in namespace team-a, team-b, the API server refuses a dry run of what operators make: Internal error occurred: failed calling webhook "judge`, ""},
		"for the caller":     {apierrors.NewForbidden(configMaps, "", errors.New(`User "x" cannot create resource "configmaps" in API group ""`)), "", `in namespace team-a, team-b, no dry run of what operators make could be made: configmaps is forbidden: User "x" cannot create`},
		"it does not answer": {&url.Error{Op: "Post", URL: "https://x", Err: errors.New("connection refused")}, "", `in namespace team-a, team-b, no dry run of what operators make could be made: Post "https://x": connection refused`},
		"it is busy":         {apierrors.NewTooManyRequestsError("slow down"), "", "in namespace team-a, team-b, no dry run of what operators make could be made: Too many requests: slow down"},
	} {
		api := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{Create: func(_ context.Context, _ client.WithWatch, obj client.Object, _ ...client.CreateOption) error {
			if _, is := obj.(*corev1.ConfigMap); is {
				return test.refuses
			}
			return nil
		}})
		there := welcome("b", func(obj *unstructured.Unstructured) { obj.SetNamespace("team-b") })
		_, found, err := admissionLets(t.Context(), &patient{cluster: &cluster{}, Client: api, customResources: []unstructured.Unstructured{welcome("a", nil), there}})
		if (len(found) > 0) != (test.problem != "") || (err != nil) != (test.unknown != "") {
			t.Errorf("%s: %v, %v", name, found, err)
			continue
		}
		if test.problem != "" && (len(found) != 1 || !strings.HasPrefix(found[0].problem, test.problem)) {
			t.Errorf("%s: %v", name, found)
		}
		if test.unknown != "" && !strings.Contains(err.Error(), test.unknown) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Policies ask for probes, limits, tags of images and the like: they judge the sample as what the chart makes.
func TestSampleIsLikeTheCharts(t *testing.T) {
	welcome, err := loader.LoadDir("../../helm-charts/welcome")
	if err != nil {
		t.Fatal(err)
	}
	values, err := chartutil.ToRenderValues(welcome, nil, chartutil.ReleaseOptions{Name: "hello", Namespace: "team-a"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	files, err := engine.Render(welcome, values)
	if err != nil {
		t.Fatal(err)
	}
	made := &appsv1.Deployment{}
	if err := yaml.Unmarshal([]byte(files["welcome/templates/deployment.yaml"]), made); err != nil {
		t.Fatal(err)
	}
	var sample *appsv1.Deployment
	for _, object := range samples("team-a", "example.com/page:v1") {
		if object.GetLabels()["app.kubernetes.io/name"] == "" || object.GetLabels()["app.kubernetes.io/instance"] == "" {
			t.Errorf("%T has the labels %v", object, object.GetLabels())
		}
		if deployment, is := object.(*appsv1.Deployment); is {
			sample = deployment
		}
	}
	want, got := made.Spec.Template.Spec, sample.Spec.Template.Spec
	if image := got.Containers[0].Image; image != "example.com/page:v1" {
		t.Errorf("its image is %s", image)
	}
	// What is the page's own.
	want.TerminationGracePeriodSeconds = nil
	want.Containers[0].Env, want.Containers[0].Name, want.Containers[0].Image = nil, got.Containers[0].Name, got.Containers[0].Image
	want.TopologySpreadConstraints[0].LabelSelector = sample.Spec.Selector
	if difference := cmp.Diff(want, got); difference != "" {
		t.Errorf("the sample differs from the pods of the chart:\n%s", difference)
	}
}

// The image is one that operators deploy, for policies name the registries that images may come from.
func TestImageOfSamples(t *testing.T) {
	own := watching()
	own.Spec.Template.Spec.Containers[1].Image = "example.com/operator:v1"
	for want, operators := range map[string][]operator{
		"example.com/page:v1":     {watching(corev1.EnvVar{Name: "WATCH_NAMESPACE"}, corev1.EnvVar{Name: "RELATED_IMAGE_WELCOME", Value: "example.com/page:v1"})},
		"example.com/operator:v1": {own}, // one of make kind INTO= has its images in watches.yaml
		"welcome-doctor:v1":       nil,
	} {
		if got := (&patient{operators: operators}).image(); got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
}

// An operator that no custom resource names counts as long as some cannot be listed. Its rights are checked if it is
// not known which operator serves the kinds.
func TestMeant(t *testing.T) {
	deployment := func(namespace string) appsv1.Deployment {
		o := watching()
		o.Namespace = namespace
		return o.Deployment
	}
	served := welcome("served", func(obj *unstructured.Unstructured) {
		obj.Object["status"] = map[string]any{"operator": "named/" + boot.LeaderElectionID + "-b"}
	})
	rights, err := needs(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		listed   []unstructured.Unstructured
		unlisted error
		want     []string
		asked    string
	}{
		"all are listed": {[]unstructured.Unstructured{served}, nil, []string{"named/op"}, "named"},
		"some are not":   {[]unstructured.Unstructured{served}, errors.New("no"), []string{"named/op", "other/op"}, "named"},
		"none is":        {nil, errors.New("no"), []string{"other/op", "named/op"}, "other named"},
	} {
		var asking sync.Mutex
		var asked []string
		api := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{Create: func(_ context.Context, _ client.WithWatch, obj client.Object, _ ...client.CreateOption) error {
			review := obj.(*authorizationv1.SubjectAccessReview)
			review.Status.Allowed = true
			asking.Lock()
			defer asking.Unlock()
			asked = append(asked, strings.Split(review.Spec.User, ":")[2])
			return nil
		}})
		p := &patient{cluster: &cluster{}, Client: api, needs: rights, customResources: test.listed, unlisted: test.unlisted}
		p.operators = p.meant(context.Background(), []appsv1.Deployment{deployment("other"), deployment("named")})
		var got []string
		for _, o := range p.operators {
			got = append(got, o.String())
		}
		if _, found, err := rightsSuffice(context.Background(), p); len(found) > 0 || err != nil {
			t.Errorf("%s: %v, %v", name, found, err)
		}
		if asked = slices.Compact(asked); !slices.Equal(got, test.want) || strings.Join(asked, " ") != test.asked {
			t.Errorf("%s: %q are meant, and %q asked about", name, got, asked)
		}
	}
}

func TestNewOperator(t *testing.T) {
	for name, test := range map[string]struct {
		env  []corev1.EnvVar
		want []string
	}{
		"all":     {[]corev1.EnvVar{{Name: "WATCH_NAMESPACE"}}, nil},
		"some":    {[]corev1.EnvVar{{Name: "WATCH_NAMESPACE", Value: "a, b"}}, []string{"a", "b"}},
		"by OLM":  {[]corev1.EnvVar{{Name: "WATCH_NAMESPACE", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['olm.targetNamespaces']"}}}}, []string{"team-a", "team-b"}},
		"its own": {[]corev1.EnvVar{{Name: "WATCH_NAMESPACE", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.namespace"}}}}, []string{"operators"}},
	} {
		o := watching(test.env...)
		if got := o.options.WatchNamespaces; o.refused != nil || !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, %v", name, got, o.refused)
		}
		if o := o.options; !o.LeaderElect || o.LeaderElectionID != boot.LeaderElectionID+"-b" {
			t.Errorf("%s: %v, %s", name, o.LeaderElect, o.LeaderElectionID)
		}
	}
	settings := corev1.LocalObjectReference{Name: "settings"}
	for name, o := range map[string]operator{
		"one key":  watching(corev1.EnvVar{Name: "WATCH_NAMESPACE", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: settings, Key: "NAMESPACE"}}}),
		"all keys": configured([]corev1.EnvFromSource{{Prefix: "WATCH_", ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: settings}}}),
	} {
		if got := o.options.WatchNamespaces; !slices.Equal(got, []string{"team-c"}) {
			t.Errorf("%s of a ConfigMap: %q", name, got)
		}
	}
	if o := watching(corev1.EnvVar{Name: "WATCH_NAMESPACE", Value: "A/b"}); o.refused == nil || !strings.Contains(o.refused.Error(), "WATCH_NAMESPACE") {
		t.Errorf("no namespace: %v", o.refused)
	}
}

func TestDiffering(t *testing.T) {
	schema := func(properties map[string]apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
		return &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": {Properties: properties}}}
	}
	a := schema(map[string]apiextensionsv1.JSONSchemaProps{"same": {Type: "string"}, "other": {Type: "string"}, "old": {}})
	b := schema(map[string]apiextensionsv1.JSONSchemaProps{"same": {Type: "string"}, "other": {Type: "integer"}, "new": {}})
	if got := differing("", a, b); !slices.Equal(got, []string{"spec.new", "spec.old", "spec.other"}) {
		t.Error(got)
	}
}

func TestQuestions(t *testing.T) {
	o := watching(corev1.EnvVar{Name: "WATCH_NAMESPACE", Value: "a,b"})
	objects, err := needs(nil)
	if err != nil {
		t.Fatal(err)
	}
	in, named := map[string]int{}, map[string]bool{}
	for _, need := range objects {
		for _, review := range questions(need, objects, o) {
			in[review.Spec.ResourceAttributes.Namespace]++
			named[review.Spec.ResourceAttributes.Resource+"/"+review.Spec.ResourceAttributes.Name] = true
			if review.Spec.User != "system:serviceaccount:operators:account" {
				t.Fatal(review.Spec.User)
			}
			if review.Spec.ResourceAttributes.Resource == "welcomes" && review.Spec.ResourceAttributes.Verb == "deletecollection" {
				t.Error("the roles for people are not the operator's")
			}
		}
	}
	if in["a"] < 20 || in["a"] != in["b"] || in["operators"] == 0 || in[""] != 0 {
		t.Errorf("questions by namespace: %v", in)
	}
	if !named["configmaps/"+boot.LeaderElectionID+"-b"] || named["configmaps/"+boot.LeaderElectionID] {
		t.Errorf("a shard publishes under a name of its own: %v", named)
	}
}

// A directory is advised only if kustomize can build it.
func TestDeploys(t *testing.T) {
	dir := t.TempDir()
	file, other := filepath.Join(dir, "operator.yaml"), filepath.Join(t.TempDir(), "crd.yaml")
	for want, p := range map[string]*patient{
		"kubectl apply --server-side --force-conflicts -f " + file + " -f " + other: {files: []string{file, other}},
		"make deploy (with IMG and OPERAND_IMG as before)":                          {},
	} {
		if got := p.deploys(operator{}); got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, want := (&patient{files: []string{file}}).deploys(operator{}), "kubectl apply --server-side --force-conflicts --kustomize "+dir; got != want {
		t.Errorf("%s, not %s", got, want)
	}
}

// A right on several objects by name is checked for each name, and the missing one is named.
func TestRightsOnNames(t *testing.T) {
	objects, err := object.Documents(strings.NewReader(`
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: publish}
rules: [{apiGroups: [""], resources: [configmaps], resourceNames: [first, second], verbs: [create, patch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: publish}
roleRef: {kind: Role, name: publish}
`))
	if err != nil {
		t.Fatal(err)
	}
	api := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{Create: func(_ context.Context, _ client.WithWatch, obj client.Object, _ ...client.CreateOption) error {
		review := obj.(*authorizationv1.SubjectAccessReview)
		review.Status.Allowed = review.Spec.ResourceAttributes.Name == "first"
		return nil
	}})
	_, found, err := rightsSuffice(context.Background(), &patient{cluster: &cluster{}, Client: api, needs: objects, operators: []operator{watching()}})
	if err != nil || len(found) != 1 || found[0].problem != `system:serviceaccount:operators:account may not create, patch configmaps second in namespace operators` {
		t.Errorf("%v, %v", found, err)
	}
	if !strings.HasPrefix(found[0].remedy, "make deploy BASE=config/shards (with IMG and OPERAND_IMG as before)") {
		t.Errorf("of a shard: %s", found[0].remedy)
	}
}

// Each watched namespace is asked about, and one right that is missing in many is one problem.
func TestRightsInManyNamespaces(t *testing.T) {
	objects, err := object.Documents(strings.NewReader(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: manager}
rules: [{apiGroups: ["", apps], resources: [services, deployments], verbs: [list, create]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: manager}
roleRef: {kind: ClusterRole, name: manager}
`))
	if err != nil {
		t.Fatal(err)
	}
	var watched []string
	for i := range 30 {
		watched = append(watched, fmt.Sprint("team-", i))
	}
	for name, test := range map[string]struct {
		lacks func(*authorizationv1.ResourceAttributes) bool
		want  string
	}{
		"the last": {func(right *authorizationv1.ResourceAttributes) bool {
			return right.Namespace == "team-29" && right.Resource == "services" && right.Group == ""
		}, "account may not list, create services in namespace team-29"},
		"all": {func(right *authorizationv1.ResourceAttributes) bool {
			return right.Verb == "list" && right.Group == "apps" && right.Resource == "deployments"
		}, "account may not list deployments.apps in namespace team-0, team-1, team-10, team-11, team-12, 25 more"},
	} {
		api := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{Create: func(_ context.Context, _ client.WithWatch, obj client.Object, _ ...client.CreateOption) error {
			review := obj.(*authorizationv1.SubjectAccessReview)
			review.Status.Allowed = !test.lacks(review.Spec.ResourceAttributes)
			return nil
		}})
		o := watching(corev1.EnvVar{Name: "WATCH_NAMESPACE", Value: strings.Join(watched, ",")})
		_, found, err := rightsSuffice(t.Context(), &patient{cluster: &cluster{}, Client: api, needs: objects, operators: []operator{o}})
		if err != nil || len(found) != 1 || !strings.HasSuffix(found[0].problem, test.want) {
			t.Errorf("%s: %v, %v", name, found, err)
		}
	}
}

// Where the operators serve other kinds than Welcome, nothing about Welcome's CRD and rights is wrong.
func TestOperatorsOfOtherKinds(t *testing.T) {
	rights, err := needs(nil)
	if err != nil {
		t.Fatal(err)
	}
	other := operator{serves: sets.New(schema.GroupKind{Group: "apps.example.com", Kind: "MyApp"})}
	for _, look := range []func(context.Context, *patient) (string, []finding, error){crdsFit, rightsSuffice} {
		if _, found, err := look(t.Context(), &patient{cluster: &cluster{}, needs: rights, operators: []operator{other}}); len(found) > 0 || err == nil || !strings.Contains(err.Error(), "--files ../myapp-operator/operator.yaml") {
			t.Errorf("%v, %v", found, err)
		}
	}
}

// Where no operator is deployed, its rights and its lease are not fine, but unknown.
func TestWithoutAnOperator(t *testing.T) {
	rights, err := needs(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, look := range []func(context.Context, *patient) (string, []finding, error){rightsSuffice, leasesAreHeld} {
		if looked, found, err := look(context.Background(), &patient{cluster: &cluster{}, needs: rights}); !errors.Is(err, errNoOperator) {
			t.Errorf("%q, %v, %v", looked, found, err)
		}
	}
}
