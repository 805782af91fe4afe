// Package pace bounds how often something happens because of one among many, and how much at once.
package pace

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/cache"
)

// most bounds how many names are remembered, and kept for how long after their last turn. By then, all of
// their turns are back.
const most, kept = 1024, time.Minute

// Limiters hold a rate limiter for each name. They are safe for concurrent use.
type Limiters struct {
	perSecond rate.Limit
	atOnce    int

	mu    sync.Mutex
	known *cache.LRUExpireCache // *rate.Limiter
}

// New returns limiters that let each name act perSecond times a second, and atOnce times at once after a
// pause. A full burst must come back within a minute.
func New(perSecond rate.Limit, atOnce int) *Limiters {
	return &Limiters{perSecond: perSecond, atOnce: atOnce, known: cache.NewLRUExpireCache(most)}
}

// Allow is whether name may act now, and uses up that turn.
func (l *Limiters) Allow(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	limiter := rate.NewLimiter(l.perSecond, l.atOnce)
	if known, ok := l.known.Get(name); ok {
		limiter = known.(*rate.Limiter)
	}
	l.known.Add(name, limiter, kept)
	return limiter.Allow()
}
