package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/controlplane"
	"demo.welcome.domain/welcome-operator/tests/kit"
	"demo.welcome.domain/welcome-operator/tests/waiting"
)

// Somebody restores etcd from a backup while an operator and its standby run. What they hold in their caches has never
// happened, and their watches tell nothing until the cluster has come as far as before: so do those of other
// controllers, which people have to restart.
func TestEtcdIsRestored(t *testing.T) {
	w := newWorld(t)
	standby := &keeper{plane: w.operator.plane, binary: w.operator.binary, kubeconfig: w.operator.kubeconfig, log: "standby", logf: t.Logf}
	w.must(w.operator.leads(t.Context()))
	w.must(standby.start())
	t.Cleanup(standby.stop)
	const edited, deleted, later = "edited", "deleted", "later"
	greet := func(greeting string, names ...string) {
		t.Helper()
		for _, name := range names {
			w.must(w.patch(name, greeting))
		}
		w.awaitOrder()
	}
	for _, name := range []string{edited, deleted} {
		w.must(w.Client.Create(t.Context(), kit.Welcome(namespace, name)))
	}
	greet("before", edited, deleted)
	w.must(waiting.For(t.Context(), t.Logf, "the standby's caches are filled", time.Minute, pause, standby.running().Ready))
	backup, err := w.BackUpEtcd()
	w.must(err)
	since, err := w.Mark(t.Context())
	w.must(err)
	for i := range 20 { // so far, the cluster has to come again
		w.must(w.patch(edited, fmt.Sprint("after ", i)))
	}
	w.must(w.Client.Create(t.Context(), kit.Welcome(namespace, later)))
	w.must(w.Client.Delete(t.Context(), kit.Welcome(namespace, deleted)))
	w.awaitOrder()
	// By the lease, it knows later that the cluster has been further than the backup. Of two that it reads after a renewal,
	// the first may have been answered before.
	w.must(waiting.For(t.Context(), t.Logf, "the standby has read a later lease", time.Minute, pause, func(ctx context.Context) error {
		leases, err := w.Requests(ctx, since, func(r controlplane.Request) bool {
			return r.User.Username == operatorUser && r.ObjectRef.Resource == "leases"
		})
		renewed := slices.IndexFunc(leases, controlplane.Request.Writes)
		if err == nil && (renewed < 0 || len(slices.DeleteFunc(leases[renewed:], controlplane.Request.Writes)) < 2) {
			err = errors.New("it has not been read twice since it was renewed")
		}
		return err
	}))

	before := standby.running()
	w.must(w.RestoreEtcd(backup))
	select {
	case <-before.Ended:
	case <-time.After(time.Minute):
		t.Fatalf("the standby goes on:\n%s", before.Text())
	}
	if log := before.Text(); !strings.Contains(log, "etcd was restored from a backup") {
		t.Errorf("the standby has ended for another reason:\n%s", log)
	}
	w.must(controlplane.RunDeployments(t.Context(), w.Admin)) // instead of the one that hears nothing any more
	w.must(w.operator.leads(t.Context()))
	greet("again", edited, deleted)
	w.must(w.Client.Create(t.Context(), kit.Welcome(namespace, later)))
	w.must(w.Client.DeleteAllOf(t.Context(), &corev1.Service{}, client.InNamespace(namespace)))
	w.awaitOrder()
	w.must(w.Client.Delete(t.Context(), kit.Welcome(namespace, deleted)))
	w.awaitOrder()
	w.awaitSilence()
}

// patch changes the greeting of a Welcome.
func (w *world) patch(name, greeting string) error {
	return waiting.For(w.Context(), w.Logf, "Welcome "+name+" is edited", time.Minute, pause, func(ctx context.Context) error {
		text := fmt.Sprintf(`{"spec": {"name": %q}}`, greeting)
		return w.Client.Patch(ctx, kit.Welcome(namespace, name), client.RawPatch(types.MergePatchType, []byte(text)))
	})
}
