package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/internal/status"
	"demo.welcome.domain/welcome-operator/tests/controlplane"
	"demo.welcome.domain/welcome-operator/tests/kit"
)

// askedIn are the requests of an operator in a while.
func (s *scene) askedIn(while time.Duration, operator *process) controlplane.Requests {
	s.Helper()
	from := s.record()
	time.Sleep(while) // that no more happens is what is tested
	return from.of(operator)
}

// countOf is how many requests read like one.
func countOf(requests controlplane.Requests, one string) (count int) {
	for _, request := range requests {
		if request.String() == one {
			count++
		}
	}
	return count
}

// While a policy refuses the status, an event says so, at little cost. What is asked for is done all the same,
// and told once the policy is gone.
func TestStatusIsRefused(t *testing.T) {
	s := newScene(t)
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}})
	s.create("hello")
	s.bringUp("hello")
	going := s.deploy("going")
	lift := s.refuse(admissionregistrationv1.Update, kit.Group, "welcomes/status", "not today", func() error {
		return env.Client.Status().Update(ctx, s.welcome("hello"), client.DryRunAll)
	})
	s.edit("hello", kit.Greet("unseen"))
	s.must(env.Client.Delete(ctx, going))
	requests := s.askedIn(20*time.Second, operator)
	if tries, looks := len(requests.Statuses()), countOf(requests, "LIST pods"); tries > 20 || looks > 15 { // of two, the second of which goes
		t.Errorf("%d writes of the status, and %d looks at pods: %s", tries, looks, requests)
	}
	s.awaitGreeting("hello", "unseen")
	s.awaitGone(going, "going")
	s.awaitEvent("hello", "WriteRefused", "the status", "not today", "The spec is not the cause")
	lift()
	s.bringUp("hello")
	s.awaitDeployed("hello")
}

// A webhook that writes something else into the status each time is told of, and costs as little as one that refuses it.
func TestStatusIsAltered(t *testing.T) {
	s := newScene(t)
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}})
	s.deploy("hello")
	s.settled(operator)
	lift := s.mutate(`[JSONPatch{op: "replace", path: "/status/conditions/0/message", value: "seen at " + oldObject.metadata.resourceVersion}]`, "welcomes/status", func() error {
		welcome := s.welcome("hello")
		if err := env.Client.Status().Update(ctx, welcome, client.DryRunAll); err != nil {
			return err
		}
		if text := status.Of(welcome).Conditions[0].Message; !strings.HasPrefix(text, "seen at ") {
			return fmt.Errorf("it says %s", text)
		}
		return nil
	}, admissionregistrationv1.Update)
	s.edit("hello", kit.Greet("unseen"))
	s.awaitGreeting("hello", "unseen")
	s.bringUp("hello") // while it is not healthy, messages are written rarely anyway
	if tries := len(s.askedIn(20*time.Second, operator).Statuses()); tries > 30 {
		t.Errorf("%d writes of the status", tries)
	}
	s.awaitEvent("hello", "WriteRefused", "the status", "writes another message into condition", "The spec is not the cause")
	lift()
	s.bringUp("hello")
	s.awaitDeployed("hello")
}

// A policy that refuses another operator's writes is told of by what that one is to take over.
func TestTakeoverIsRefused(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	one, two := s.installation("one"), s.installation("two")
	first := s.ownOperator(one.settings)
	s.deploy("hello")
	first.Kill()
	lift := s.refuse(admissionregistrationv1.Update, kit.Group, "welcomes/status", "not today", func() error {
		return env.Client.Status().Update(ctx, s.welcome("hello"), client.DryRunAll)
	})
	s.ownOperator(two.settings)
	s.awaitEvent("hello", "WriteRefused", "the status", "not today", "The spec is not the cause")
	lift()
	s.edit("hello", kit.Greet("after"))
	s.afterTakeover("the second has taken over", func() error { return errors.Join(s.claimed(two, "hello"), s.greets("hello", "after")) })
}

// While a policy refuses the finalizers, nothing is begun, and what is deleted stays. An event says so, and the
// status of what stays, and neither costs much.
func TestFinalizersAreRefused(t *testing.T) {
	s := newScene(t)
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}})
	going := s.deploy("going")
	lift := s.refuse(admissionregistrationv1.Update, kit.Group, "welcomes", "not today", func() error {
		return env.Client.Update(ctx, s.welcome("going"), client.DryRunAll)
	})
	s.create("new")
	s.must(env.Client.Delete(ctx, going))
	requests := s.askedIn(20*time.Second, operator)
	if tries, told := countOf(requests, "PATCH welcomes → 422"), len(requests.Statuses()); tries > 20 || told > 5 {
		t.Errorf("%d writes of finalizers, and %d of the status: %s", tries, told, requests)
	}
	s.awaitEvent("new", "WriteRefused", "the finalizers", "not today")
	s.awaitReason("going", "WriteRefused", "the finalizers", "not today", "The spec is not the cause")
	s.awaitCondition("going", "Stalled", "True")
	lift()
	s.awaitGone(going, "going")
	s.awaitDeployed("new")
}

// A policy on release records holds up the release, and who reads of it is not sent to the spec.
func TestRecordsAreRefused(t *testing.T) {
	s := newScene(t)
	s.operator()
	welcome := s.deploy("hello")
	lift := s.refuse(admissionregistrationv1.Delete, "", "configmaps", "not today", func() error {
		return env.Client.Delete(ctx, &s.records("hello")[0], client.DryRunAll)
	})
	s.must(env.Client.Delete(ctx, welcome))
	s.awaitReason("hello", "Rejected", "delete release record", "not today", "The spec is not the cause")
	lift()
	s.awaitGone(welcome, "hello")
}

// An object that may not be deleted is told once, however many revisions of the release have it.
func TestDeletionIsRefused(t *testing.T) {
	s := newScene(t)
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}})
	s.deploy("hello", kit.Set("networkPolicy.enabled", true))
	policy := &networkingv1.NetworkPolicy{}
	s.get(policy, "hello")
	lift := s.refuse(admissionregistrationv1.Delete, "networking.k8s.io", "networkpolicies", "not today", func() error {
		return env.Client.Delete(ctx, policy, client.DryRunAll)
	})
	s.edit("hello", kit.Set("networkPolicy.enabled", false))
	s.await("it has failed three times", func() error {
		return atLeast(int(operator.metric(t, "welcome_operator_release_actions_total", `result="failure"`)), 3)
	})
	s.awaitReason("hello", "Rejected", `delete NetworkPolicy "hello"`, "not today. Correct the spec")
	if ready, err := s.condition("hello", "Ready"); err != nil || says(ready.Message, []string{"not today\n"}) == nil {
		t.Errorf("it is told twice: %s", ready.Message)
	}
	lift()
	s.awaitDeployed("hello")
	s.awaitGone(policy, "hello")
}

// An object whose creation conflicts with that of others in the same quota, as the API server then says, is made
// all the same: an upgrade that failed for that would replace the pods twice.
func TestQuotaInWhichOthersCount(t *testing.T) {
	s := newScene(t)
	var conflicts atomic.Int32
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}, through: func(login *rest.Config) {
		s.through(login, func(forward *httputil.ReverseProxy) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/horizontalpodautoscalers") || conflicts.Add(1) > 2 {
					forward.ServeHTTP(w, r)
					return
				}
				said := apierrors.NewConflict(schema.GroupResource{Resource: "resourcequotas"}, "small", errors.New("the object has been modified"))
				said.ErrStatus.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusConflict)
				_ = json.NewEncoder(w).Encode(said.ErrStatus) // the operator has gone if this fails
			})
		})
	}})
	s.deploy("hello", kit.Greet("before"))
	s.edit("hello", kit.Greet("after"), kit.Set("autoscaling.enabled", true))
	s.awaitGreeting("hello", "after")
	s.awaitDeployed("hello")
	s.settled(operator)
	deployment := &appsv1.Deployment{}
	s.get(deployment, "hello")
	if count := conflicts.Load(); count < 3 || deployment.Generation != 2 {
		t.Errorf("after %d creations, the Deployment has generation %d", count, deployment.Generation)
	}
}
