// Package pace bounds how often something happens because of one among many, and how much at once.
package pace

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/cache"
)

// How many are remembered, and for how long since something happened because of them: they have all of their turns again by then.
const most, kept = 1024, time.Minute

// Limiters have one limiter for each of many, by a name. They can be used by several goroutines.
type Limiters struct {
	perSecond rate.Limit
	atOnce    int

	mu    sync.Mutex
	known *cache.LRUExpireCache // *rate.Limiter
}

// New returns limiters that let each do something so many times a second, and so many times at once after a pause, which must not take longer than a minute to come back.
func New(perSecond rate.Limit, atOnce int) *Limiters {
	return &Limiters{perSecond: perSecond, atOnce: atOnce, known: cache.NewLRUExpireCache(most)}
}

// Allow is whether it is name's turn, and takes that.
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
