package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

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
