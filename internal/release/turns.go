package release

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// turnsPerSecond of a namespace go before what waits in the queue, and turnsAtOnce after a pause.
	turnsPerSecond, turnsAtOnce = 5, 10
	// maxTurns is how many namespaces are remembered, each until nothing has happened in it for turnsPause.
	maxTurns, turnsPause = 1024, time.Minute
	// first is the priority of these: all else that happens has 0.
	first = 1
)

// turns let the few custom resources of a namespace to which something happens go before the many of another one: who makes thousands at once would
// else be served before all that others ask for meanwhile.
type turns struct {
	mu       sync.Mutex
	limiters *cache.LRUExpireCache // *rate.Limiter, by namespace
}

func newTurns() *turns { return &turns{limiters: cache.NewLRUExpireCache(maxTurns)} }

// add has a custom resource reconciled, first if its namespace has had few turns of late.
func (t *turns) add(q queue, request reconcile.Request) {
	prior, ok := q.(priorityqueue.PriorityQueue[reconcile.Request])
	if !ok || !t.limiter(request.Namespace).Allow() {
		q.Add(request)
		return
	}
	prior.AddWithOpts(priorityqueue.AddOpts{Priority: ptr.To(first)}, request)
}

// lose takes the turns of a namespace in which something has failed: what fails keeps its priority in the queue until it succeeds.
func (t *turns) lose(namespace string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	spent := rate.NewLimiter(turnsPerSecond, turnsAtOnce)
	spent.AllowN(time.Now(), turnsAtOnce)
	t.limiters.Add(namespace, spent, turnsPause)
}

func (t *turns) limiter(namespace string) *rate.Limiter {
	t.mu.Lock()
	defer t.mu.Unlock()
	limiter := rate.NewLimiter(turnsPerSecond, turnsAtOnce)
	if known, ok := t.limiters.Get(namespace); ok {
		limiter = known.(*rate.Limiter)
	}
	t.limiters.Add(namespace, limiter, turnsPause)
	return limiter
}
