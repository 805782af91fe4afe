package main

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// cluster is what the commands share: the flags that choose the cluster and the user, and the streams to
// print to.
type cluster struct {
	genericiooptions.IOStreams
	flags *genericclioptions.ConfigFlags
	// client uses the caller's rights, and reads without a cache.
	client func() (client.Client, error)
	// refreshed guards that kubectl's cache of the cluster's kinds, which lasts for hours on disk, is refreshed
	// once.
	refreshed sync.Once
}

func newCluster(streams genericiooptions.IOStreams) *cluster {
	c := &cluster{IOStreams: streams, flags: genericclioptions.NewConfigFlags(true).WithDeprecatedPasswordFlag().WithDiscoveryBurst(300).WithDiscoveryQPS(50)}
	c.flags.WrapConfigFn = func(config *rest.Config) *rest.Config {
		config.QPS = -1 // no client-side limit: the API server has its own (priority and fairness), and each bounds the requests at once
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

// namespace is the one of --namespace, or of the kubeconfig's context.
func (c *cluster) namespace() (string, error) {
	namespace, _, err := c.flags.ToRawKubeConfigLoader().Namespace()
	return namespace, err
}

// printf prints a result. An error is ignored: it means that the reader has closed the pipe.
func (c *cluster) printf(format string, args ...any) { _, _ = fmt.Fprintf(c.Out, format, args...) }

// notef is printf for what is not the result: progress, and what to type next.
func (c *cluster) notef(format string, args ...any) {
	_, _ = fmt.Fprint(c.ErrOut, c.here(fmt.Sprintf(format, args...)))
}

// typeable are commands in a text. kubectl takes the flags of a plugin behind its name.
var typeable = regexp.MustCompile(`\b(kubectl welcome|kubectl|helm) ([-a-z])`)

// here adds --context and --kubeconfig to the commands in a text: whoever types them may have a namesake of the custom
// resource in another cluster.
func (c *cluster) here(text string) string {
	return typeable.ReplaceAllStringFunc(text, func(command string) string {
		program, begins := command[:len(command)-2], command[len(command)-2:]
		contextFlag := "--context"
		if program == "helm" {
			contextFlag = "--kube-context"
		}
		for _, flag := range [][2]string{{"--kubeconfig", *c.flags.KubeConfig}, {contextFlag, *c.flags.Context}} {
			if flag[1] != "" {
				program += " " + flag[0] + "=" + quotedForShell(flag[1])
			}
		}
		return program + begins
	})
}

// plainWord is a word that a shell takes as it is.
var plainWord = regexp.MustCompile(`^[-\w@%+=:,./]+$`)

// quotedForShell is a word as people type it.
func quotedForShell(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// atOnce bounds the requests that a command sends at the same time.
const atOnce = 10

// each calls do for 0 to n-1, atOnce of them concurrently. The first failure cancels the rest.
func each(ctx context.Context, n int, do func(context.Context, int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i := range n {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}
