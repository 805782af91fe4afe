package main

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// cluster is what the commands share: the flags that say which cluster it is and who asks, and where to print.
type cluster struct {
	genericiooptions.IOStreams
	flags *genericclioptions.ConfigFlags
	// client has the rights of the caller, and reads without a cache.
	client func() (client.Client, error)
	// anew has what kubectl keeps on disk of the cluster's kinds, for hours, read again.
	anew sync.Once
}

func newCluster(streams genericiooptions.IOStreams) *cluster {
	c := &cluster{IOStreams: streams, flags: genericclioptions.NewConfigFlags(true).WithDeprecatedPasswordFlag().WithDiscoveryBurst(300).WithDiscoveryQPS(50)}
	c.flags.WrapConfigFn = func(config *rest.Config) *rest.Config {
		config.QPS = -1 // the API server shares out what it can do, and says so; commands bound how much they ask at once
		return config
	}
	c.client = sync.OnceValues(func() (client.Client, error) {
		config, err := c.flags.ToRESTConfig()
		if err != nil {
			return nil, err
		}
		mapper, err := c.flags.ToRESTMapper()
		if err != nil {
			return nil, err
		}
		return client.New(config, client.Options{Mapper: mapper})
	})
	return c
}

// namespace is that of --namespace or of the context.
func (c *cluster) namespace() (string, error) {
	namespace, _, err := c.flags.ToRawKubeConfigLoader().Namespace()
	return namespace, err
}

// printf prints to the caller. That a pipe is closed is nothing to tell.
func (c *cluster) printf(format string, args ...any) { _, _ = fmt.Fprintf(c.Out, format, args...) }

// notef is printf for what is not the result: progress, and what to type next.
func (c *cluster) notef(format string, args ...any) { _, _ = fmt.Fprintf(c.ErrOut, format, args...) }

// atOnce is how many requests a command has under way.
const atOnce = 10

// each does something n times, some of them at once, and ends with the first failure.
func each(ctx context.Context, n int, do func(context.Context, int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i := range n {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}
