package chaos

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/controlplane"
	"demo.welcome.domain/welcome-operator/tests/kit"
	"demo.welcome.domain/welcome-operator/tests/waiting"
)

const (
	operatorUser   = "welcome-operator"
	leaseNamespace = "default"
)

// keeper keeps the operator running, as a Deployment does.
type keeper struct {
	plane              *controlplane.ControlPlane
	binary, kubeconfig string
	log                string // the prefix of its logs
	logf               waiting.Logf
	starts             atomic.Int32

	mu      sync.Mutex
	process *controlplane.Operator
	stopped bool
}

func (k *keeper) start() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stopped {
		return nil
	}
	k.starts.Add(1)
	var err error
	k.process, err = k.plane.RunOperator(fmt.Sprintf("%s-%d.log", k.log, k.starts.Load()),
		[]string{"KUBECONFIG=" + k.kubeconfig, "WATCH_NAMESPACE=" + namespace, "RELATED_IMAGE_WELCOME=demo.welcome.domain/welcome:chaos"},
		k.binary, "--leader-elect", "--leader-election-namespace="+leaseNamespace, "--metrics-bind-address=0")
	if err != nil {
		return err
	}
	go func(process *controlplane.Operator) {
		<-process.Ended
		time.Sleep(100 * time.Millisecond) // it may end at once as long as the API server is away
		if k.running() == process {        // otherwise it was replaced while it was frozen
			_ = k.start() // it has started before, so that this is no reason to fail
		}
	}(k.process)
	return nil
}

func (k *keeper) running() *controlplane.Operator {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.process
}

func (k *keeper) stop() {
	k.mu.Lock()
	k.stopped = true
	process := k.process
	k.mu.Unlock()
	process.Stop()
}

// kill ends the operator at once, and takes its name out of the lease, so that the next one need not wait
// until that expires.
func (k *keeper) kill(ctx context.Context) error {
	k.running().Kill()
	return k.changeLease(ctx, "")
}

// steal writes another holder into the lease, who never renews it.
func (k *keeper) steal(ctx context.Context) error { return k.changeLease(ctx, "thief") }

// freeze stops the operator for longer than its lease lasts, like a node that hangs. Another one takes its place, and
// it must end when it goes on. What it would have changed back shows at the end. That it sends no more requests is
// tested by TestFrozenLeader of tests/integration: the log cannot prove it, because it also has the requests that
// were answered before.
func (k *keeper) freeze(ctx context.Context) error {
	var frozen *controlplane.Operator
	// The lease may still be held by one that ended while the API server was away.
	if err := waiting.For(ctx, k.logf, "the operator works", time.Minute, pause, func(context.Context) error {
		if frozen = k.running(); frozen.HasEnded() || !strings.Contains(frozen.Text(), "Starting workers") {
			return errors.New("it does not hold the lease")
		}
		return nil
	}); err != nil {
		return err
	}
	defer frozen.Kill() // if it has not ended by itself
	holder, err := k.holder(ctx)
	if err := errors.Join(err, frozen.Freeze(), k.start()); err != nil {
		return err
	}
	err = waiting.For(ctx, k.logf, "another operator holds the lease", time.Minute, pause, func(ctx context.Context) error {
		if now, err := k.holder(ctx); err != nil || now == "" || now == holder {
			return errors.Join(fmt.Errorf("%q holds the lease", now), err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	time.Sleep(3 * time.Second) // meanwhile the other one works
	if err := frozen.Thaw(); err != nil {
		return err
	}
	select {
	case <-frozen.Ended:
	case <-time.After(time.Minute):
		return errors.New("it did not end")
	}
	return nil
}

func (k *keeper) changeLease(ctx context.Context, holder string) error {
	return waiting.For(ctx, k.logf, "the lease is changed", time.Minute, pause, func(ctx context.Context) error {
		lease := &coordinationv1.Lease{}
		if err := k.plane.Client.Get(ctx, client.ObjectKey{Namespace: leaseNamespace, Name: kit.Lease}, lease); err != nil {
			return client.IgnoreNotFound(err)
		}
		lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = &holder, new(int32(1))
		return k.plane.Client.Update(ctx, lease)
	})
}

// leads waits until an operator holds the lease.
func (k *keeper) leads(ctx context.Context) error {
	return waiting.For(ctx, k.logf, "an operator holds the lease", time.Minute, pause, func(ctx context.Context) error {
		holder, err := k.holder(ctx)
		if err == nil && (holder == "" || holder == "thief") {
			return errors.New("no operator holds the lease")
		}
		return err
	})
}

// holder is who holds the lease.
func (k *keeper) holder(ctx context.Context) (string, error) {
	lease := &coordinationv1.Lease{}
	err := k.plane.Client.Get(ctx, client.ObjectKey{Namespace: leaseNamespace, Name: kit.Lease}, lease)
	return ptr.Deref(lease.Spec.HolderIdentity, ""), err
}
