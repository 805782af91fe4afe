package operator

import (
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// tally keeps what the metrics tell of each object of a kind, by the events of the cache. To go through the objects themselves at each scrape would take seconds with
// 100,000 of them: they lie all over the memory.
type tally[T any] struct {
	// of is what is kept of an object.
	of func(*unstructured.Unstructured) T
	// read says whether all objects that there were have been told of.
	read toolscache.ResourceEventHandlerRegistration

	mu   sync.Mutex
	each map[types.NamespacedName]T
}

func newTally[T any](informer cache.Informer, of func(*unstructured.Unstructured) T) (t *tally[T], err error) {
	t = &tally[T]{of: of, each: map[types.NamespacedName]T{}}
	t.read, err = informer.AddEventHandler(t)
	return t, err
}

// OnAdd implements toolscache.ResourceEventHandler.
func (t *tally[T]) OnAdd(object any, _ bool) { t.set(object) }

// OnUpdate implements toolscache.ResourceEventHandler.
func (t *tally[T]) OnUpdate(_, object any) { t.set(object) }

// OnDelete implements toolscache.ResourceEventHandler.
func (t *tally[T]) OnDelete(object any) {
	if last, missed := object.(toolscache.DeletedFinalStateUnknown); missed {
		object = last.Obj
	}
	if object, ok := object.(*unstructured.Unstructured); ok {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.each, client.ObjectKeyFromObject(object))
	}
}

func (t *tally[T]) set(object any) {
	if object, ok := object.(*unstructured.Unstructured); ok {
		kept := t.of(object)
		t.mu.Lock()
		defer t.mu.Unlock()
		t.each[client.ObjectKeyFromObject(object)] = kept
	}
}

// forEach calls do for each object that there is. do must not take long: the cache's events wait.
func (t *tally[T]) forEach(do func(types.NamespacedName, T)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, kept := range t.each {
		do(name, kept)
	}
}
