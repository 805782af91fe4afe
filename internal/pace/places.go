package pace

import "sync"

// Places bound how much runs at once: for each namespace, and in total.
type Places struct {
	each, all int

	mu    sync.Mutex
	taken map[string]int // by namespace
	sum   int
}

// NewPlaces returns each places for a namespace, and all in total.
func NewPlaces(each, all int) *Places { return &Places{each: each, all: all, taken: map[string]int{}} }

// Take takes a place for a namespace, if there is one.
func (p *Places) Take(namespace string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken[namespace] >= p.each || p.sum >= p.all {
		return false
	}
	p.taken[namespace]++
	p.sum++
	return true
}

// Give gives back a place that Take took.
func (p *Places) Give(namespace string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken[namespace]--; p.taken[namespace] == 0 {
		delete(p.taken, namespace)
	}
	p.sum--
}
