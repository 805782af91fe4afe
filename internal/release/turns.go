package release

import (
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"demo.welcome.domain/welcome-operator/internal/pace"
)

const (
	// turnsPerSecond of a namespace go before what waits in the queue, and turnsAtOnce after a pause.
	turnsPerSecond, turnsAtOnce = 5, 10
	// first is the priority of these: all else that happens has 0.
	first = 1
)

// turns let the few custom resources of a namespace to which something happens go before the many of another one: who makes thousands at once would
// else be served before all that others ask for meanwhile.
type turns struct{ namespaces *pace.Limiters }

func newTurns() turns { return turns{pace.New(turnsPerSecond, turnsAtOnce)} }

// add has a custom resource reconciled, first if its namespace has had few turns of late.
func (t turns) add(q queue, request reconcile.Request) {
	prior, ok := q.(priorityqueue.PriorityQueue[reconcile.Request])
	if !ok || !t.namespaces.Allow(request.Namespace) {
		q.Add(request)
		return
	}
	prior.AddWithOpts(priorityqueue.AddOpts{Priority: new(first)}, request)
}
