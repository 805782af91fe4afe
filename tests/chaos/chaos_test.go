// Package chaos tests failures together that other tests test one by one: the operator is killed at random moments
// while people create, edit and delete Welcomes, others change their objects, and the API server, etcd, connections
// and the lease fail.
package chaos

import (
	"context"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"demo.welcome.domain/welcome-operator/tests/controlplane"
	"demo.welcome.domain/welcome-operator/tests/kit"
)

var (
	kills = flag.Int("kills", 10, "how often the operator is killed; every tenth time, everything else fails once, too")
	seed  = flag.Uint64("seed", 0, "of the choices that are made at random, to make the same ones again; 0 for another one each time")
)

const (
	namespace = "chaos"
	welcomes  = 50
	// recovery is how long the operator may take to repair everything after the last failure. It waits up to a minute
	// before it retries what has failed often.
	recovery = 2 * time.Minute
	// pause is the pause between two attempts while something is awaited.
	pause = 100 * time.Millisecond
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard()) // connections break all the time
	os.Exit(m.Run())
}

func TestChaos(t *testing.T) {
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	t.Logf("to make the same choices again: go test ./tests/chaos -v -kills=%d -seed=%d", *kills, *seed)
	w := newWorld(t)
	storm, calm := context.WithCancel(t.Context())
	defer calm()
	people := w.startPeople(storm)
	meddlers := w.startMeddlers(storm)
	w.watchDeployments(storm)

	start := time.Now()
	counts := w.disasters(storm)
	t.Logf("%s: %s", time.Since(start).Round(time.Second), counts)
	calm()
	t.Logf("the operator was started %d times; meanwhile, people %s", w.operator.starts.Load(), people.counts())
	t.Logf("and others %s", meddlers.counts())

	start = time.Now()
	w.awaitOrder()
	took := time.Since(start).Round(100 * time.Millisecond)
	w.awaitSilence()
	// If one of these did not happen, the state at the end proves little.
	happened := map[string]int{
		"Welcomes are left": w.left, "Welcomes were created": int(people.created.Load()), "Welcomes were edited": int(people.edited.Load()), "Welcomes were deleted": int(people.deleted.Load()),
		"Deployments were changed": int(meddlers.drifted.Load()), "Services were removed": int(meddlers.removed.Load()),
	}
	if *kills >= 100 { // in a short run, no kill may hit an action
		happened["releases were caught in the middle of an action"] = w.interrupted
	}
	for what, count := range happened {
		if count == 0 {
			t.Errorf("no %s", what)
		}
	}
	// The last line is for people and for tests/rung.
	t.Logf("proved: %s; %d releases were caught in the middle of an action; all %d Welcomes that are left were in order %s after the last of it",
		counts, w.interrupted, w.left, took)
}

// world is a control plane, the operator behind a proxy, and what was observed of them.
type world struct {
	*testing.T
	*controlplane.ControlPlane
	proxy    *proxy
	operator *keeper
	seen     *sightings
	// interrupted counts the releases that a kill has interrupted in an action.
	interrupted int
	// left is the number of Welcomes at the end.
	left int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	plane, err := controlplane.Start()
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	w := &world{T: t, ControlPlane: plane, seen: &sightings{}}
	w.must(err)
	w.must(controlplane.RunDeployments(t.Context(), plane.Admin))
	w.must(plane.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	w.proxy, err = newProxy(strings.TrimSuffix(strings.TrimPrefix(plane.Admin.Host, "https://"), "/"))
	w.must(err)
	t.Cleanup(w.proxy.close)
	login, err := plane.AddUser(operatorUser)
	w.must(err)
	login.Host = "https://" + w.proxy.address()
	kubeconfig, err := plane.Kubeconfig(operatorUser, login)
	w.must(err)
	binary := filepath.Join(plane.Dir, "welcome-operator")
	w.must(kit.Build(binary, "."))
	w.operator = &keeper{plane: plane, binary: binary, kubeconfig: kubeconfig, log: "operator", logf: t.Logf}
	w.must(w.operator.start())
	t.Cleanup(w.operator.stop)
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// source is a source of random numbers for one of several goroutines. If they shared one, their choices would depend
// on their timing.
func source(who uint64) *rand.Rand { return rand.New(rand.NewPCG(*seed, who)) }
