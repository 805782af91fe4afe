package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// Whoever waits for Ready right after an edit is not told of the state before: neither kubectl wait, nor anybody who
// watches and compares generations.
func TestReadyIsNeverEarly(t *testing.T) {
	const edits = 100
	s := newScene(t)
	s.operator()
	s.create("hello", kit.Greet("edit 0"))
	s.bringUp("hello")
	claims := s.watchReady("hello")
	for i := 1; i <= edits; i++ {
		greeting := fmt.Sprintf("edit %d", i)
		s.edit("hello", kit.Greet(greeting))
		generation := s.welcome("hello").GetGeneration()
		waited, wait := make(chan error, 1), s.kubectlCommand("", "wait", "welcome/hello", "--for=condition=Ready", "--timeout=60s")
		go func() {
			_, err := kit.Output(wait)
			waited <- err
		}()
		s.awaitGreeting("hello", greeting)
		select {
		case err := <-waited:
			t.Fatalf("edit %d: kubectl wait returned (error: %v) before a pod was ready", i, err)
		default:
		}
		claims.allow(generation)
		s.runsAll("hello")
		if err := <-waited; err != nil {
			t.Fatalf("edit %d: %v\n%s", i, err, s.dump())
		}
	}
	if early := claims.stop(); len(early) > 0 {
		t.Errorf("Ready was True for generations %v before their pods were ready", early)
	}
	t.Logf("%d edits: Ready was never True before the pods were ready", edits)
}

// readyClaims are the generations for which a Welcome has said that it is Ready.
type readyClaims struct {
	mu      sync.Mutex
	allowed int64 // the newest generation that has ready pods
	early   []int64
	cancel  func()
	ended   chan struct{}
}

func (s *scene) watchReady(name string) *readyClaims {
	s.Helper()
	watchCtx, cancel := context.WithCancel(ctx)
	s.Cleanup(cancel)
	changes, err := env.Client.Watch(watchCtx, kit.Welcomes(), client.InNamespace(s.namespace))
	s.must(err)
	claims := &readyClaims{allowed: s.welcome(name).GetGeneration(), cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(claims.ended)
		for change := range changes.ResultChan() {
			if object, ok := change.Object.(*unstructured.Unstructured); ok {
				claims.see(object)
			}
		}
	}()
	return claims
}

func (c *readyClaims) see(object *unstructured.Unstructured) {
	if kit.Ready(object) != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if object.GetGeneration() > c.allowed {
		c.early = append(c.early, object.GetGeneration())
	}
}

func (c *readyClaims) allow(generation int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.allowed = generation
}

func (c *readyClaims) stop() (early []int64) {
	c.cancel()
	<-c.ended
	return c.early
}

// Welcomes to which nothing happens cause no write, healthy or not.
func TestIdleWelcomesWriteNothing(t *testing.T) {
	const count, idle = 100, 2 * time.Minute
	t.Parallel()
	s := newScene(t)
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}})
	name := func(i int) string { return fmt.Sprintf("hello-%d", i) }
	for i := range count {
		s.create(name(i))
	}
	for i := range count {
		if i%2 == 0 {
			s.bringUp(name(i))
		} else { // its pods never come
			s.awaitCondition(name(i), "Ready", "False", "Deployment")
		}
	}
	s.settled(operator)
	before := s.record()
	time.Sleep(idle / 4) // that nothing happens is what is tested
	told := s.told()     // all that tells of what was before
	time.Sleep(3 * idle / 4)
	requests := before.of(operator)
	t.Logf("%d Welcomes idle for %s cost %s", count, idle, requests)
	for _, request := range requests {
		if request.Writes() {
			t.Errorf("nothing happened, and the operator writes: %s", request)
		}
	}
	if now := s.told(); now != told {
		t.Errorf("nothing happened, and %d events tell of it", now-told)
	}
}

// Of who has written the fields of a condition, the API server keeps no list: that was a fifth of what it
// stored of a Welcome.
func TestConditionsAreOwnedWhole(t *testing.T) {
	s := newScene(t)
	s.operator()
	s.deploy("hello")
	for _, entry := range s.welcome("hello").GetManagedFields() {
		if entry.Subresource == "status" && strings.Contains(entry.FieldsV1.GetRawString(), "lastTransitionTime") {
			t.Errorf("the status is owned field by field: %s", entry.FieldsV1.GetRawString())
		}
	}
}

// Another writer of the status is corrected, one of the metadata loses nothing, and neither starts a fight.
func TestConflictingWriter(t *testing.T) {
	const intrusions, notes = 10, 50
	s := newScene(t)
	operator := s.operator()
	s.create("hello")
	s.bringUp("hello")
	s.settled(operator)

	url := func() string {
		url, _, _ := unstructured.NestedString(s.welcome("hello").Object, "status", "url")
		return url
	}
	right := url()
	if want := "http://hello." + s.namespace + ".svc:8080/hello/"; right != want {
		t.Errorf("the url is %q, not %q", right, want)
	}
	before := s.record()
	for range intrusions {
		_, err := s.kubectl("", "patch", "welcome/hello", "--subresource=status", "--type=merge", `--patch={"status":{"url":"http://wrong/","readyReplicas":7}}`)
		s.must(err)
		s.await("the status is right again", func() error {
			if got := url(); got != right {
				return fmt.Errorf("url is %q, not %q", got, right)
			}
			return nil
		})
	}
	s.settled(operator)
	corrections := before.of(operator)
	t.Logf("%d intrusions into the status cost %s", intrusions, corrections)
	if got := len(corrections.Statuses()); got > intrusions {
		t.Errorf("%d status writes", got)
	}

	s.edit("hello", kit.Greet("edited"))
	for i := range notes {
		s.edit("hello", kit.Annotate("example.com/note", fmt.Sprint(i)))
	}
	s.awaitGreeting("hello", "edited")
	s.bringUp("hello")
	if got := s.welcome("hello").GetAnnotations()["example.com/note"]; got != fmt.Sprint(notes-1) {
		t.Errorf("the note of the other writer is %q", got)
	}
	s.settled(operator)
	before = s.record()
	s.settled(operator)
	if writes := before.of(operator).Statuses(); len(writes) > 0 {
		t.Errorf("the operator goes on writing: %s", writes)
	}
}

// A rollout that changes the Deployment's status all the time costs a handful of writes.
func TestRollingUpdateWritesLittle(t *testing.T) {
	const replicas, bound = 20, 10
	s := newScene(t)
	operator := s.operator()
	s.create("hello", kit.Greet("before"), kit.Set("replicas", replicas))
	s.bringUp("hello")
	s.settled(operator)

	before := s.record()
	s.edit("hello", kit.Greet("after"))
	s.awaitGreeting("hello", "after")
	for ready := range int32(replicas) {
		reconciles := operator.reconciles(t)
		s.must(s.runs("hello", ready))
		s.await("the step is reconciled", func() error { return atLeast(operator.reconciles(t)-reconciles, 1) })
	}
	s.bringUp("hello")
	s.settled(operator)
	requests := before.of(operator)
	t.Logf("a rolling update of %d replicas cost %s", replicas, requests)
	if got := len(requests.Statuses()); got > bound {
		t.Errorf("%d status writes, more than %d", got, bound)
	}
}

// A failure has its own reason, names the object, and is over by itself when its cause is gone.
func TestFailureReasons(t *testing.T) {
	for name, c := range map[string]struct {
		spec   []kit.Edit
		cause  func(s *scene) (remove func())
		reason string
		parts  []string
	}{
		"object in the way": {
			cause: func(s *scene) func() {
				foreign := s.foreignService(s.namespace, "hello")
				return func() { s.must(env.Client.Delete(ctx, foreign)) }
			},
			reason: "ObjectInTheWay", parts: []string{`Service "hello"`, "delete or rename"},
		},
		"quota": {
			cause:  (*scene).noServices,
			reason: "QuotaExceeded", parts: []string{`"hello"`, "exceeded quota", "Raise the quota"},
		},
		"no right": {
			spec:   []kit.Edit{kit.Set("networkPolicy.enabled", true)},
			cause:  (*scene).noRightOnNetworkPolicies,
			reason: "Forbidden", parts: []string{`NetworkPolicy "hello"`, `"networkpolicies"`, "make manifests"},
		},
		"admission policy": {
			cause:  (*scene).noDeployments,
			reason: "Rejected", parts: []string{`"hello"`, "no Deployments today"},
		},
		"mutating policy that fails": {
			cause: func(s *scene) func() {
				return s.mutate(`[JSONPatch{op: "remove", path: "/spec/nothing"}]`, "deployments", func() error {
					if env.Client.Create(ctx, probeDeployment(s.namespace), client.DryRunAll) == nil {
						return errors.New("a Deployment would go through")
					}
					return nil
				}, admissionregistrationv1.Create)
			},
			reason: "Rejected", parts: []string{`"hello"`, "denied request", "the policy that refuses the object"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.operator()
			remove := c.cause(s)
			s.create("hello", c.spec...)
			s.awaitReason("hello", c.reason, c.parts...)
			s.awaitCondition("hello", "Stalled", "True", c.parts...)
			s.awaitEvent("hello", c.reason, c.parts...)
			remove()
			s.bringUp("hello")
			s.awaitCondition("hello", "Stalled", "False")
		})
	}
}

// Who reads the log finds a failure for each time that it was tried, and for the look at what stands right
// after that, and for each change of an object meanwhile, of which there are two. The controller's own
// retries would add eight in the first second.
func TestFailureIsNotLoggedAllTheTime(t *testing.T) {
	for action, cause := range map[string]func(s *scene){
		"install": func(s *scene) {
			s.noServices()
			s.create("hello")
		},
		"upgrade": func(s *scene) {
			s.deploy("hello")
			service := &corev1.Service{}
			s.get(service, "hello")
			s.refuse(admissionregistrationv1.Update, "", "services", "not today", func() error { return env.Client.Update(ctx, service, client.DryRunAll) })
			s.edit("hello", kit.Set("service.type", "ClusterIP"))
		},
		"drift-correction": func(s *scene) {
			s.deploy("hello")
			s.noServices()
			s.deleteService("hello")
		},
		"uninstall": func(s *scene) {
			cr := s.deploy("hello")
			service := &corev1.Service{ObjectMeta: objectMeta(s.namespace, "hello")}
			s.refuse(admissionregistrationv1.Delete, "", "services", "not today", func() error { return env.Client.Delete(ctx, service, client.DryRunAll) })
			s.must(env.Client.Delete(ctx, cr))
		},
	} {
		t.Run(action, func(t *testing.T) {
			s := newScene(t)
			operator := s.ownOperator(settings{namespaces: []string{s.namespace}})
			cause(s)
			failed := func() int {
				return int(operator.metric(t, "welcome_operator_release_actions_total", `result="failure"`))
			}
			s.await("it has failed three times", func() error { return atLeast(failed(), 3) })
			log, err := os.ReadFile(operator.Log)
			s.must(err)
			if lines, tried := strings.Count(string(log), `"level":"error"`), failed(); lines < 2 || lines > 2*tried+2 {
				t.Errorf("of %d failures, the log has %d errors:\n%s", tried, lines, log)
			}
		})
	}
}

// A Deployment that is gone and cannot be made again has no pods, whatever was counted before.
func TestDeploymentCannotBeMadeAgain(t *testing.T) {
	s := newScene(t)
	s.operator()
	s.create("hello", kit.Set("replicas", 2))
	s.bringUp("hello")
	counts := func(want int64) error {
		for _, field := range []string{"replicas", "readyReplicas"} {
			if got, _, _ := unstructured.NestedInt64(s.welcome("hello").Object, "status", field); got != want {
				return fmt.Errorf("%s is %d, not %d", field, got, want)
			}
		}
		return nil
	}
	s.must(counts(2))

	remove := s.noDeployments()
	s.must(env.Client.Delete(ctx, &appsv1.Deployment{ObjectMeta: objectMeta(s.namespace, "hello")}))
	s.awaitReason("hello", "Rejected", "no Deployments today")
	s.await("no pods are counted", func() error { return counts(0) })
	remove()
	s.bringUp("hello")
	s.must(counts(2))
}

// A container that keeps ending is told within 15 seconds, on a busy machine 25, with the command that shows its log.
func TestCrashLoop(t *testing.T) {
	s := newScene(t)
	s.operator()
	s.create("hello")
	s.bringUp("hello")

	start := time.Now()
	s.crashingPod("hello-1")
	s.must(s.runs("hello", 0))
	s.awaitReason("hello", "CrashLooping", `Pod "hello-1"`, "exit code 3", "kubectl -n "+s.namespace+" logs hello-1")
	if took := time.Since(start); took > 25*time.Second {
		t.Errorf("it took %s", took)
	}
	s.bringUp("hello")
}

// What a pod needs and does not exist is told: as the kubelet says it of a container, and of a volume where to read it.
func TestPodsThatLackSomething(t *testing.T) {
	s := newScene(t)
	s.operator()
	deployment := &appsv1.Deployment{}
	s.deploy("container")
	s.get(deployment, "container")
	s.podOf(deployment.Spec.Template, "container-1", pending("welcome", "CreateContainerConfigError", `secret "password" not found`))
	s.deploy("volume")
	s.get(deployment, "volume")
	held := pending("welcome", "ContainerCreating", "")
	held.Conditions = []corev1.PodCondition{{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(time.Now().Add(-time.Hour))}}
	s.podOf(deployment.Spec.Template, "volume-1", held)
	for _, name := range []string{"container", "volume"} {
		s.must(s.runs(name, 0))
	}
	s.awaitReason("container", "ContainerFailed", `Container "welcome" of Pod "container-1" does not start: CreateContainerConfigError: secret "password" not found`)
	s.awaitReason("volume", "ContainerFailed", `Pod "volume-1" lacks a volume`, "a Secret or ConfigMap that does not exist", "kubectl -n "+s.namespace+" describe pod volume-1")
}

// A Job is healthy once a pod of it runs. One whose pods cannot pull their image says so, as a Deployment does.
func TestJobWithoutItsImage(t *testing.T) {
	s := newScene(t)
	s.grantJobs()
	s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, fmt.Sprintf(migrateJob, ""))})
	s.create("hello")
	s.runsAll("hello")
	job := &batchv1.Job{}
	s.awaitExists(job, "hello-migrate")
	job.Status = batchv1.JobStatus{StartTime: new(metav1.Now()), Ready: new(int32(0))} // a quota refuses its pods, say
	s.must(env.Client.Status().Update(ctx, job))
	s.awaitReason("hello", "JobHasNoPods", `Job "hello-migrate" has no pods`, "describe job/hello-migrate")
	s.podOf(job.Spec.Template, "hello-migrate-1", pending("migrate", "ErrImagePull", "not found"))
	job.Status.Active = 1
	s.must(env.Client.Status().Update(ctx, job))
	s.awaitReason("hello", "ImagePullFailed", `Pod "hello-migrate-1" cannot pull the image example.com/missing:v1: not found`)
	job.Status.Ready = new(int32(1))
	s.must(env.Client.Status().Update(ctx, job))
	s.awaitReady("hello")
}

// awaitReady waits until a Welcome is Ready with its current spec.
func (s *scene) awaitReady(name string) {
	s.Helper()
	s.await(name+" is ready", func() error { return kit.Ready(s.welcome(name)) })
}

// bringUp makes all pods of a Welcome run, and waits until it is Ready.
func (s *scene) bringUp(name string) {
	s.Helper()
	s.runsAll(name)
	s.awaitReady(name)
}

// awaitReason waits until Ready is False with a reason, and with all parts in its message.
func (s *scene) awaitReason(name, reason string, parts ...string) {
	s.Helper()
	s.await(fmt.Sprintf("%s is not ready: %s %q", name, reason, parts), func() error {
		ready, err := s.condition(name, "Ready")
		if err != nil {
			return err
		}
		if ready.Status != metav1.ConditionFalse || ready.Reason != reason {
			return fmt.Errorf("it is %+v", ready)
		}
		return says(ready.Message, parts)
	})
}

// An object whose label a policy takes off is out of the operator's sight: its custom resource says so until
// that passes, and what is deleted meanwhile is made again.
func TestLabelsAreTakenOff(t *testing.T) {
	s := newScene(t)
	lift := s.mutate(`"`+kit.ManagedBy+`" in object.metadata.?labels.orValue({}) ? [JSONPatch{op: "remove", path: "/metadata/labels/" + jsonpatch.escapeKey("`+kit.ManagedBy+`")}] : []`, "services", func() error {
		probe := &corev1.Service{ObjectMeta: objectMeta(s.namespace, "probe"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
		probe.Labels = map[string]string{kit.ManagedBy: "welcome-operator"}
		if err := env.Client.Create(ctx, probe, client.DryRunAll); err != nil || len(probe.Labels) > 0 {
			return errors.Join(fmt.Errorf("it has the labels %v", probe.Labels), err)
		}
		return nil
	}, admissionregistrationv1.Create, admissionregistrationv1.Update)
	s.ownOperator(settings{namespaces: []string{s.namespace}})
	s.create("hello")
	s.runsAll("hello")
	s.awaitReason("hello", "LabelTakenOff", `Service "hello"`, kit.ManagedBy+"=welcome-operator", "webhook or policy")
	s.deleteService("hello")
	s.awaitExists(&corev1.Service{}, "hello")
	s.awaitReason("hello", "LabelTakenOff")
	lift()
	s.awaitReady("hello")
}

func (s *scene) noServices() (remove func()) {
	s.Helper()
	return s.none(corev1.ResourceServices, &corev1.Service{ObjectMeta: objectMeta(s.namespace, "probe"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}})
}

// none creates a quota that allows no object of the kind of probe. No controller counts for it here, so it
// comes with its status.
func (s *scene) none(kind corev1.ResourceName, probe client.Object) (remove func()) {
	s.Helper()
	none := corev1.ResourceList{kind: resource.MustParse("0")}
	quota := &corev1.ResourceQuota{ObjectMeta: objectMeta(s.namespace, "small"), Spec: corev1.ResourceQuotaSpec{Hard: none}}
	s.must(env.Client.Create(ctx, quota))
	quota.Status = corev1.ResourceQuotaStatus{Hard: none, Used: none}
	s.must(env.Client.Status().Update(ctx, quota))
	s.await("the quota is in force", func() error { return refused(probe) })
	return func() { s.must(env.Client.Delete(ctx, quota)) }
}

// noRightOnNetworkPolicies removes the operator's right on NetworkPolicies.
func (s *scene) noRightOnNetworkPolicies() (restore func()) {
	s.Helper()
	role := &rbacv1.ClusterRole{}
	s.must(env.Client.Get(ctx, client.ObjectKey{Name: "manager-role"}, role))
	whole := role.DeepCopy()
	for i := range role.Rules {
		var kept []string
		for _, name := range role.Rules[i].Resources {
			if name != "networkpolicies" {
				kept = append(kept, name)
			}
		}
		role.Rules[i].Resources = kept
	}
	s.must(env.Client.Update(ctx, role))
	restore = sync.OnceFunc(func() {
		whole.ResourceVersion = role.ResourceVersion
		s.must(env.Client.Update(ctx, whole))
	})
	s.Cleanup(restore) // the next test needs it, however this one ends
	s.awaitNoRight(operatorAccount, "networking.k8s.io", "networkpolicies")
	return restore
}

// awaitNoRight waits until an account of the operator's namespace may no longer read a resource.
func (s *scene) awaitNoRight(account, group, resource string) {
	s.Helper()
	s.awaitRight(false, operatorNamespace, account, authorizationv1.ResourceAttributes{Namespace: s.namespace, Verb: "get", Group: group, Resource: resource})
}

// awaitRight waits until the API server, which learns of a change of rights some time after it, lets an account do
// something or, with may false, no longer does.
func (s *scene) awaitRight(may bool, namespace, account string, what authorizationv1.ResourceAttributes) {
	s.Helper()
	s.await(fmt.Sprintf("whether %s may %s %s is %t", account, what.Verb, what.Resource, may), func() error {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "system:serviceaccount:" + namespace + ":" + account, ResourceAttributes: &what,
		}}
		if err := env.Client.Create(ctx, review); err != nil {
			return err
		}
		if review.Status.Allowed != may {
			return fmt.Errorf("it is %+v", review.Status)
		}
		return nil
	})
}

// noDeployments creates a policy that refuses every Deployment in the namespace.
func (s *scene) noDeployments() (remove func()) {
	s.Helper()
	return s.refuse(admissionregistrationv1.Create, "apps", "deployments", "no Deployments today", func() error {
		return env.Client.Create(ctx, probeDeployment(s.namespace), client.DryRunAll)
	})
}

// noIngresses creates a policy that refuses every Ingress in the namespace.
func (s *scene) noIngresses() (lift func()) {
	s.Helper()
	return s.refuse(admissionregistrationv1.Create, "networking.k8s.io", "ingresses", "no ways in today", func() error {
		return env.Client.Create(ctx, &networkingv1.Ingress{ObjectMeta: objectMeta(s.namespace, "probe"), Spec: networkingv1.IngressSpec{
			DefaultBackend: &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "probe", Port: networkingv1.ServiceBackendPort{Number: 80}}},
		}}, client.DryRunAll)
	})
}

// refused is nil if the API server refuses to create object.
func refused(object client.Object) error {
	err := env.Client.Create(ctx, object, client.DryRunAll)
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
		return nil
	}
	return errors.Join(errors.New("it is not refused"), err)
}

// crashingPod creates a pod of the Welcome hello with the status that a kubelet writes when a container keeps
// crashing.
func (s *scene) crashingPod(name string) {
	s.Helper()
	deployment := &appsv1.Deployment{}
	s.get(deployment, "hello")
	s.podOf(deployment.Spec.Template, name, corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
		Name: "welcome", Image: image, RestartCount: 4, Started: new(false),
		State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 40s restarting failed container"}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 3}},
	}}})
}

// podOf creates a pod of a workload, with the status that a kubelet writes.
func (s *scene) podOf(template corev1.PodTemplateSpec, name string, status corev1.PodStatus) {
	s.Helper()
	pod := &corev1.Pod{ObjectMeta: objectMeta(s.namespace, name), Spec: *template.Spec.DeepCopy()}
	pod.Labels = template.Labels
	s.must(env.Client.Create(ctx, pod))
	pod.Status = status
	s.must(env.Client.Status().Update(ctx, pod))
}

// pending is the status of a pod whose only container waits.
func pending(container, reason, message string) corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
		Name: container, Image: "example.com/missing:v1", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
	}}}
}

// A Service that the chart calls otherwise cannot have the fixed port of the one before, which is deleted
// only when all else is made: with another port in between, it can.
func TestPortOfTheServiceBefore(t *testing.T) {
	s := newScene(t)
	s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, `
apiVersion: v1
kind: Service
metadata: {name: {{ .Values.name }}}
spec: {type: NodePort, selector: {a: b}, ports: [{port: 80, nodePort: {{ if .Values.networkPolicy.enabled }}31081{{ else }}31080{{ end }}}]}`)})
	s.deploy("hello", kit.Greet("one"))
	s.edit("hello", kit.Greet("two"))
	s.awaitReason("hello", "Rejected", `Service "two"`, "port is already allocated. Another Service has it", "with another edit")
	s.awaitCondition("hello", "Stalled", "True")
	s.edit("hello", kit.Set("networkPolicy.enabled", true))
	s.awaitDeployed("hello")
	s.edit("hello", kit.Set("networkPolicy.enabled", false))
	s.awaitDeployed("hello")
	service := &corev1.Service{}
	if s.get(service, "two"); service.Spec.Ports[0].NodePort != 31080 {
		t.Errorf("its ports are %v", service.Spec.Ports)
	}
	s.must(s.isGone(service, "one"))
}
