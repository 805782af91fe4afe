package operator

import (
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// tally keeps, from the events of the cache, what the metrics need of each object of a kind. To go through the
// objects themselves at each scrape would take seconds with 100,000 of them: they lie all over the memory.
type tally[T any] struct {
	// of extracts what is kept of an object.
	of func(*unstructured.Unstructured) T
	// read is whether the events of all existing objects have come.
	read toolscache.ResourceEventHandlerRegistration

	mu sync.Mutex
	// each holds pointers, since a map keeps its room, up to twice what it needs, even when objects have gone.
	each map[types.NamespacedName]*T
}

func newTally[T any](informer cache.Informer, of func(*unstructured.Unstructured) T) (t *tally[T], err error) {
	t = &tally[T]{of: of, each: map[types.NamespacedName]*T{}}
	t.read, err = informer.AddEventHandler(t)
	return t, err
}

// OnAdd implements toolscache.ResourceEventHandler.
func (t *tally[T]) OnAdd(told any, _ bool) { t.set(told) }

// OnUpdate implements toolscache.ResourceEventHandler.
func (t *tally[T]) OnUpdate(_, told any) { t.set(told) }

// OnDelete implements toolscache.ResourceEventHandler.
func (t *tally[T]) OnDelete(told any) {
	if last, missed := told.(toolscache.DeletedFinalStateUnknown); missed {
		told = last.Obj
	}
	if cached, ok := told.(*unstructured.Unstructured); ok {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.each, client.ObjectKeyFromObject(cached))
	}
}

func (t *tally[T]) set(told any) {
	if cached, ok := told.(*unstructured.Unstructured); ok {
		kept := t.of(object.Unpack(cached))
		t.mu.Lock()
		defer t.mu.Unlock()
		t.each[client.ObjectKeyFromObject(cached)] = &kept
	}
}

// forEach calls do for each object that there is. do must not take long: the cache's events wait.
func (t *tally[T]) forEach(do func(types.NamespacedName, T)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, kept := range t.each {
		do(name, *kept)
	}
}
