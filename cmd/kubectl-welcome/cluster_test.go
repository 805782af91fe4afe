package main

import (
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// What people are told to type next is for the cluster that they have named, and not for the one that kubectl takes by itself.
func TestCommandsOfTheSameCluster(t *testing.T) {
	const told = `changed by "kubectl-edit". To go back: HELM_DRIVER=secret kubectl welcome adopt a -n b; kubectl delete welcome/a; helm get values a (kubectl -n b logs a)`
	for _, test := range []struct{ context, kubeconfig, want string }{
		{"", "", told},
		{"prod@eu", "", `changed by "kubectl-edit". To go back: HELM_DRIVER=secret kubectl welcome --context=prod@eu adopt a -n b; kubectl --context=prod@eu delete welcome/a; helm --kube-context=prod@eu get values a (kubectl --context=prod@eu -n b logs a)`},
		{"it's", "a b", `changed by "kubectl-edit". To go back: HELM_DRIVER=secret kubectl welcome --kubeconfig='a b' --context='it'\''s' adopt a -n b; kubectl --kubeconfig='a b' --context='it'\''s' delete welcome/a; helm --kubeconfig='a b' --kube-context='it'\''s' get values a (kubectl --kubeconfig='a b' --context='it'\''s' -n b logs a)`},
	} {
		c := newCluster(genericiooptions.NewTestIOStreamsDiscard())
		c.flags.Context, c.flags.KubeConfig = &test.context, &test.kubeconfig
		if got := c.here(told); got != test.want {
			t.Errorf("got\n%s, not\n%s", got, test.want)
		}
	}
}
