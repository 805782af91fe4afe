package integration

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/controlplane"
	"demo.welcome.domain/welcome-operator/tests/kit"
)

// Of two replicas one works. When it is told to stop, it gives the lease away and the other goes on, long before the lease
// would have expired.
func TestLeaderElection(t *testing.T) {
	s := newScene(t)
	elect := settings{namespaces: []string{s.namespace}, args: []string{"--leader-elect", "--leader-election-namespace=" + operatorNamespace, patientLease}}
	first := s.ownOperator(elect)
	s.await("the first holds the lease", func() error { _, err := s.leaseHolder(); return err })
	holder, err := s.leaseHolder()
	s.must(err)
	s.deploy("hello")
	since := s.record()
	second := s.ownOperator(elect)
	for _, resource := range []string{"welcomes", "configmaps", "deployments", "services"} {
		if !slices.ContainsFunc(since.of(second), func(r controlplane.Request) bool { return r.Verb == "watch" && r.ObjectRef.Resource == resource }) {
			t.Errorf("the standby is ready, and has not read the %s", resource)
		}
	}
	if strings.Contains(second.Text(), "Starting workers") {
		t.Errorf("the standby works, too\n%s", s.dump())
	}

	start := time.Now()
	first.Stop()
	if first.Err != nil {
		t.Errorf("the first ended with %v\n%s", first.Err, s.dump())
	}
	s.await("the second holds the lease", func() error {
		if now, err := s.leaseHolder(); err != nil || now == holder {
			return errors.Join(fmt.Errorf("%q holds it", now), err)
		}
		return nil
	})
	takeover := time.Since(start)
	s.edit("hello", kit.Greet("the second"))
	s.awaitGreeting("hello", "the second")
	t.Logf("the second held the lease %s after the first was told to stop", takeover.Round(time.Millisecond))
	if takeover > 10*time.Second {
		t.Errorf("the lease was not given away: the second had to wait %s", takeover)
	}
}

// The holder of a lease that somebody deletes creates it anew, and works on.
func TestLeaseIsDeleted(t *testing.T) {
	s := newScene(t)
	elect := s.installation("deleted")
	operator := s.ownOperator(elect.settings)
	s.deploy("hello", kit.Greet("before"))
	namespace, name, _ := strings.Cut(elect.name, "/")
	lease := &coordinationv1.Lease{ObjectMeta: objectMeta(namespace, name)}
	s.must(env.Client.Delete(ctx, lease))
	s.await("the lease is there", func() error {
		if operator.HasEnded() {
			s.Fatalf("the operator has ended\n%s", s.dump())
		}
		return env.Client.Get(ctx, client.ObjectKeyFromObject(lease), lease)
	})
	s.edit("hello", kit.Greet("after"))
	s.awaitGreeting("hello", "after")
	s.awaitDeployed("hello")
}

// leaseHolder is the holder of the operator's lease.
func (s *scene) leaseHolder() (string, error) {
	lease := &coordinationv1.Lease{}
	if err := env.Client.Get(ctx, client.ObjectKey{Namespace: operatorNamespace, Name: kit.Lease}, lease); err != nil {
		return "", err
	}
	holder := ptr.Deref(lease.Spec.HolderIdentity, "")
	if holder == "" {
		return "", errors.New("nobody holds it")
	}
	return holder, nil
}
