package release

import (
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"demo.welcome.domain/welcome-operator/internal/pace"
)

const (
	// turnsPerSecond is how many events of a namespace go before what waits in the queue, and turnsAtOnce how
	// many after a pause.
	turnsPerSecond, turnsAtOnce = 5, 10
	// first is the priority of these turns. Whatever else happens has 0.
	first = 1
)

// turns put custom resources to which something happens ahead in the queue, a few of each namespace: otherwise,
// those of a namespace that makes thousands at once would be served before all that others ask for meanwhile.
type turns struct{ namespaces *pace.Limiters }

func newTurns() turns { return turns{pace.New(turnsPerSecond, turnsAtOnce)} }

// add reconciles a custom resource, ahead of others if its namespace has had few turns lately.
func (t turns) add(q queue, request reconcile.Request) {
	prior, ok := q.(priorityqueue.PriorityQueue[reconcile.Request])
	if !ok || !t.namespaces.Allow(request.Namespace) {
		q.Add(request)
		return
	}
	prior.AddWithOpts(priorityqueue.AddOpts{Priority: new(first)}, request)
}
