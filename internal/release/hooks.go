package release

import (
	"fmt"
	"time"

	"helm.sh/helm/v3/pkg/kube"
)

// WatchUntilReady waits for the end of a hook.
func (g *guard) WatchUntilReady(resources kube.ResourceList, timeout time.Duration) error {
	return g.await(func() error { return g.Client.WatchUntilReady(resources, timeout) })
}

// WaitForDelete waits until an old hook is gone, if it is the owner's: of another's, nothing was deleted.
func (g *guard) WaitForDelete(resources kube.ResourceList, timeout time.Duration) error {
	owned, err := g.owned(resources)
	if err != nil || len(owned) == 0 {
		return err
	}
	return g.await(func() error { return g.Client.WaitForDelete(owned, timeout) })
}

// await gives the slot to others while wait runs, and ends with the operator, of which Helm would not hear.
func (g *guard) await(wait func() error) error {
	g.slots.give()
	defer func() { g.slots <- struct{}{} }()
	ended := make(chan error, 1)
	go func() { ended <- wait() }()
	select {
	case err := <-ended:
		return err
	case <-g.ctx.Done():
		return fmt.Errorf("wait for a hook: %w", g.ctx.Err())
	}
}
