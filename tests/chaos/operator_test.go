package chaos

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/controlplane"
)

const (
	operatorUser   = "welcome-operator"
	leaseNamespace = "default"
	leaseName      = "welcome-operator.webapp.demo.welcome.domain"
)

// keeper keeps the operator running, as a Deployment does.
type keeper struct {
	plane              *controlplane.ControlPlane
	binary, kubeconfig string
	starts             atomic.Int32

	mu      sync.Mutex
	process *controlplane.Process
	stopped bool
}

func (k *keeper) start() error {
	probes, err := controlplane.FreeAddress()
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stopped {
		return nil
	}
	k.starts.Add(1)
	k.process, err = k.plane.Run("operator.log",
		[]string{"KUBECONFIG=" + k.kubeconfig, "WATCH_NAMESPACE=" + namespace, "RELATED_IMAGE_WELCOME=demo.welcome.domain/welcome:chaos"},
		k.binary, "--leader-elect", "--leader-election-namespace="+leaseNamespace, "--metrics-bind-address=0", "--health-probe-bind-address="+probes)
	if err != nil {
		return err
	}
	go func(process *controlplane.Process) {
		<-process.Ended
		time.Sleep(100 * time.Millisecond) // it may end at once as long as the API server is away
		_ = k.start()                      // it did start before
	}(k.process)
	return nil
}

func (k *keeper) running() *controlplane.Process {
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

// kill ends the operator at once. The next one need not wait until the lease expires: the dead hold nothing.
func (k *keeper) kill(ctx context.Context) error {
	k.running().Kill()
	return k.changeLease(ctx, "")
}

// steal gives the lease to somebody who has no business with it, and who goes away at once.
func (k *keeper) steal(ctx context.Context) error { return k.changeLease(ctx, "thief") }

func (k *keeper) changeLease(ctx context.Context, holder string) error {
	return await(ctx, time.Minute, func() error {
		lease := &coordinationv1.Lease{}
		if err := k.plane.Client.Get(ctx, client.ObjectKey{Namespace: leaseNamespace, Name: leaseName}, lease); err != nil {
			return client.IgnoreNotFound(err)
		}
		lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = &holder, ptr.To[int32](1)
		return k.plane.Client.Update(ctx, lease)
	})
}

// leads waits until an operator holds the lease.
func (k *keeper) leads(ctx context.Context) error {
	return await(ctx, time.Minute, func() error {
		lease := &coordinationv1.Lease{}
		err := k.plane.Client.Get(ctx, client.ObjectKey{Namespace: leaseNamespace, Name: leaseName}, lease)
		if holder := ptr.Deref(lease.Spec.HolderIdentity, ""); err == nil && (holder == "" || holder == "thief") {
			return errors.New("no operator holds the lease")
		}
		if apierrors.IsNotFound(err) {
			return errors.New("there is no lease")
		}
		return err
	})
}
