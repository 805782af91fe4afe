package release

import (
	"context"
	"sync/atomic"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// jitter spreads the periodic reconciles: after a start all custom resources are reconciled
// at once, and would be again and again.
const jitter = 0.2

// schedule brings custom resources back to their controller at a time of our choice. The
// controller's own retries back off for up to 17 minutes, long after a cause is gone.
type schedule struct{ queue atomic.Pointer[queue] }

// queue is a controller's.
type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// source is started by the controller with its queue.
func (s *schedule) source() source.Source {
	return source.Func(func(_ context.Context, q queue) error {
		s.queue.Store(&q)
		return nil
	})
}

// after has owner reconciled when delay is over, or earlier if something happens to it.
func (s *schedule) after(owner client.Object, delay time.Duration) {
	s.add(client.ObjectKeyFromObject(owner), delay)
}

func (s *schedule) add(key client.ObjectKey, delay time.Duration) {
	if queue := s.queue.Load(); queue != nil {
		(*queue).AddAfter(reconcile.Request{NamespacedName: key}, delay)
	}
}
