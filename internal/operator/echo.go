package operator

import (
	"context"

	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// withoutEchoes is the manager as the library's controller gets it, which watches custom resources without a predicate of ours: it is not told of the statuses
// of which Reporter.IsEcho says that they are its own. Each would cause a reconcile that finds nothing to do, which is a tenth of what an installation costs.
type withoutEchoes struct {
	ctrl.Manager
	isEcho func(before, after any) bool
}

// GetCache returns that of the manager, without echoes.
func (m withoutEchoes) GetCache() cache.Cache { return quietCache{m.Manager.GetCache(), m.isEcho} }

type quietCache struct {
	cache.Cache
	isEcho func(before, after any) bool
}

// GetInformer returns that of the cache, without echoes.
func (c quietCache) GetInformer(ctx context.Context, kind client.Object, opts ...cache.InformerGetOption) (cache.Informer, error) {
	informer, err := c.Cache.GetInformer(ctx, kind, opts...)
	return quietInformer{informer, c.isEcho}, err
}

type quietInformer struct {
	cache.Informer
	isEcho func(before, after any) bool
}

// AddEventHandlerWithOptions is what controller-runtime's source.Kind calls.
func (i quietInformer) AddEventHandlerWithOptions(handler toolscache.ResourceEventHandler, options toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.Informer.AddEventHandlerWithOptions(quietHandler{handler, i.isEcho}, options)
}

type quietHandler struct {
	toolscache.ResourceEventHandler
	isEcho func(before, after any) bool
}

// OnUpdate passes on what is no echo.
func (h quietHandler) OnUpdate(before, after any) {
	if !h.isEcho(before, after) {
		h.ResourceEventHandler.OnUpdate(before, after)
	}
}
