package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"demo.welcome.domain/welcome-operator/tests/controlplane"
	"demo.welcome.domain/welcome-operator/tests/kit"
	"demo.welcome.domain/welcome-operator/tests/waiting"
)

// takeover is how long it may take until another operator takes over from one that is gone.
const takeover = time.Minute

// Of two installations that watch the same namespace one works, and the other one stands back and says so.
// When the first freezes, or dies, the second does within a minute what was asked for; and the first, back
// from that, does nothing any more.
func TestTwoOperators(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	one, two := s.installation("one"), s.installation("two")
	first := s.ownOperator(one.settings)
	s.deploy("idle")
	second := s.ownOperator(two.settings)
	s.await("the second stands back", func() error { return second.leavesToOthers(t, 1) })
	s.awaitEvent("idle", "StandsBack", one.name, two.name)
	if err := says(second.Text(), []string{"Standing back", one.name, two.name}); err != nil {
		t.Errorf("the log of the second: %v", err)
	}

	welcomes := []string{"idle", "edited", "drifting", "deleted"}
	for _, name := range welcomes[1:] {
		s.create(name, kit.Greet("before"))
	}
	for _, name := range welcomes {
		s.awaitDeployed(name)
	}
	s.await("the second leaves all to the first", func() error { return second.leavesToOthers(t, len(welcomes)) })
	s.must(s.claimed(one, welcomes...))
	quiet := s.record()
	s.afterTakeover("the first was asked twice", func() error { return atLeast(len(quiet.of(second).Statuses()), 2) })
	s.await("it has answered", func() error {
		for _, name := range welcomes {
			if challenger, asked, _ := unstructured.NestedString(s.welcome(name).Object, "status", "challenger"); asked {
				return fmt.Errorf("%s waits for an answer to %s", name, challenger)
			}
		}
		return nil
	})
	for _, operator := range []*process{first, second} {
		requests := quiet.of(operator)
		t.Logf("two operators side by side: %s", requests)
		writes := slices.DeleteFunc(slices.Clone(requests), func(r controlplane.Request) bool { return !r.Writes() })
		if len(writes) != len(requests.Statuses()) || len(writes) > 4 {
			t.Errorf("more than questions and answers: %s", requests)
		}
	}
	for _, name := range welcomes {
		deployment := &appsv1.Deployment{}
		s.get(deployment, name)
		if err := s.hasRecords(name, 1); err != nil || deployment.Generation != 1 {
			t.Errorf("%s: the Deployment has generation %d, and %v", name, deployment.Generation, err)
		}
	}

	s.must(first.Freeze())
	s.edit("edited", kit.Greet("after"))
	s.deleteService("drifting")
	s.must(env.Client.Delete(ctx, s.welcome("deleted")))
	took := s.afterTakeover("the second has done what the frozen one has not", func() error {
		return errors.Join(s.claimed(two, "idle", "edited", "drifting"), s.greets("edited", "after"), s.find(&corev1.Service{}, "drifting"),
			s.isGone(kit.Welcome(s.namespace, "deleted"), "deleted"), s.isGone(&appsv1.Deployment{}, "deleted"), s.hasRecords("deleted", 0))
	})
	t.Logf("the second had done the work of the frozen one after %s", took)
	s.wakesUpTooLate(first)
	s.must(s.claimed(two, "idle", "edited", "drifting"))

	first = s.ownOperator(one.settings)
	s.await("the first stands back", func() error { return first.leavesToOthers(t, 3) })
	second.Kill()
	s.edit("edited", kit.Greet("at last"))
	took = s.afterTakeover("the first has taken over", func() error {
		return errors.Join(s.claimed(one, "idle", "edited", "drifting"), s.greets("edited", "at last"))
	})
	t.Logf("the first had taken over from the dead one after %s", took)
}

// Two that start at the same time share what nobody has claimed yet, and neither undoes anything of the other.
func TestTwoOperatorsStartAtOnce(t *testing.T) {
	const count = 20
	s := newScene(t)
	stopShared()
	var welcomes []string
	for i := range count {
		welcomes = append(welcomes, fmt.Sprintf("hello-%d", i))
		s.create(welcomes[i])
	}
	installations := []installation{s.installation("one"), s.installation("two")}
	var operators []*process
	for _, each := range installations {
		operators = append(operators, s.launch(each.settings))
	}
	for _, operator := range operators {
		s.await("both are ready", operator.ready)
	}
	for _, name := range welcomes {
		s.awaitDeployed(name)
	}
	for _, operator := range operators {
		s.settled(operator)
	}
	for _, name := range welcomes {
		deployment := &appsv1.Deployment{}
		s.get(deployment, name)
		if err := s.hasRecords(name, 1); err != nil || deployment.Generation != 1 {
			t.Errorf("%s: the Deployment has generation %d, and %v", name, deployment.Generation, err)
		}
		if err := errors.Join(s.claimed(installations[0], name), s.claimed(installations[1], name)); err != nil && len(strings.Split(err.Error(), "\n")) > 1 {
			t.Error(err)
		}
	}
	t.Logf("the one left %v of %d to the other, and the other %v to the one", operators[0].leftToOthers(t), count, operators[1].leftToOthers(t))
}

// Of two replicas the leader freezes in the middle of an upgrade, and goes on when another one has long been
// at work. It brings back nothing older, and writes nothing at all.
func TestFrozenLeader(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	elect := s.installation("frozen").settings
	first := s.ownOperator(elect)
	s.deploy("hello", kit.Greet("before"))
	s.settled(first)
	second := s.ownOperator(elect)
	asked, letGo := s.holdDeployments()
	s.pause()
	s.must(env.Client.Delete(ctx, &appsv1.Deployment{ObjectMeta: objectMeta(s.namespace, "hello")}))
	s.edit("hello", kit.Pause(false), kit.Greet("while it froze"))
	asked() // Helm makes the Deployment again
	s.must(first.Freeze())
	letGo()
	s.edit("hello", kit.Greet("after"))
	s.afterTakeover("the second does what was asked for", func() error { return s.greets("hello", "after") })
	s.awaitDeployed("hello")
	s.settled(second)
	deployment := &appsv1.Deployment{}
	s.get(deployment, "hello")
	records := names(s.records("hello"))

	s.wakesUpTooLate(first)
	s.unharmed(deployment)
	if after := names(s.records("hello")); !slices.Equal(after, records) {
		t.Errorf("the records were %v, and are %v", records, after)
	}
}

// wakesUpTooLate thaws a frozen operator, which must end without having changed anything.
func (s *scene) wakesUpTooLate(operator *process) {
	s.Helper()
	since := s.record()
	s.must(operator.Thaw())
	s.await("it ends", func() error {
		if !operator.HasEnded() {
			return errors.New("it goes on")
		}
		return nil
	})
	written := slices.DeleteFunc(since.of(operator), func(r controlplane.Request) bool { return !r.Writes() })
	if len(written) > 0 {
		s.Errorf("it wrote: %s\n%s", written, s.dump())
	}
}

// afterTakeover waits until check returns nil, for as long as a takeover may take, and returns how long that
// was.
func (s *scene) afterTakeover(what string, check func() error) time.Duration {
	s.Helper()
	start := time.Now()
	err := waiting.For(ctx, s.Logf, what, takeover, 50*time.Millisecond, func(context.Context) error { return check() })
	if err != nil {
		s.Fatalf("%v\n%s", err, s.dump())
	}
	return time.Since(start).Round(100 * time.Millisecond)
}

func (s *scene) greets(name, greeting string) error {
	deployment := &appsv1.Deployment{}
	if err := s.find(deployment, name); err != nil {
		return err
	}
	return greets(greeting)(deployment)
}

// claimed is nil if an installation has claimed all of these Welcomes.
func (s *scene) claimed(by installation, welcomes ...string) error {
	s.Helper()
	for _, name := range welcomes {
		if operator, _, _ := unstructured.NestedString(s.welcome(name).Object, "status", "operator"); operator != by.name {
			return fmt.Errorf("%s is claimed by %q, not %q", name, operator, by.name)
		}
	}
	return nil
}

func (p *process) leftToOthers(t *testing.T) float64 {
	t.Helper()
	return p.metric(t, "welcome_operator_left_to_others", "")
}

func (p *process) leavesToOthers(t *testing.T, count int) error {
	t.Helper()
	if left := p.leftToOthers(t); left != float64(count) {
		return fmt.Errorf("%v are left to others, not %d", left, count)
	}
	return nil
}

// installation is an operator with a lease of its own, and the name by which it claims custom resources.
type installation struct {
	settings
	name string
}

func (s *scene) installation(name string) installation {
	s.Helper()
	namespace := s.newNamespace(name + "-")
	s.must(env.Client.Create(ctx, &rbacv1.Role{
		ObjectMeta: objectMeta(namespace, "leader-election-role"),
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get", "create", "update"}},
			{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
		},
	}))
	s.must(env.Client.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: objectMeta(namespace, "leader-election-role"),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "leader-election-role"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: operatorNamespace, Name: operatorAccount}},
	}))
	return installation{
		settings{namespaces: []string{s.namespace}, args: []string{"--leader-elect", "--leader-election-namespace=" + namespace, patientLease}},
		namespace + "/" + kit.Lease,
	}
}
