package main

import (
	"path/filepath"
	"strings"

	"demo.welcome.domain/welcome-operator/tests/controlplane"
	"demo.welcome.domain/welcome-operator/tests/kit"
)

const image = "demo.welcome.domain/welcome:bench"

// contender is an operator that is measured.
type contender struct {
	name string // in the table
	user string // as which it logs in, and its namespace
	// namespaces is over how many its Welcomes are spread, 0 for the one that is called as its user.
	namespaces int
	// welcomes is how many it gets, and more how many on top of that before it is restarted.
	welcomes, more int
	// pokes is how many of them are touched to see what a reconcile costs that has nothing to do.
	pokes int
	// scaffolded is whether it needs the CRD that operator-sdk scaffolds, which keeps unknown fields.
	scaffolded bool
	// program is relative to the root of the repository; a directory is built first. Without one, the bench makes
	// the objects itself.
	program string
	args    []string
	// env is on top of what each gets.
	env []string
	// ours serves its metrics over TLS, to whom the API server authorizes, and gets the environment of its Deployment.
	ours bool
}

func contenders(o options) []contender {
	// Stock operators reconcile every minute by default, needed or not. Here nobody does.
	stock := []string{"run", "--max-concurrent-reconciles=4", "--reconcile-period=10h"}
	return []contender{
		{name: "raw creation of the same objects", user: "floor", welcomes: o.count},
		{
			name: "hand-written, server-side apply", user: "handwritten", welcomes: o.count, pokes: o.count,
			program: "tests/bench/handwritten",
		},
		{
			name: "helm-operator-plugins v0.9.1 `run`", user: "helm-operator-plugins", welcomes: o.peers, pokes: min(o.peers, 100),
			scaffolded: true, program: "bin/helm-operator-plugins", args: append(stock, "--watches-file="+invertedWatches),
		},
		{
			name: "operator-sdk v1.42.3 helm-operator", user: "helm-operator", welcomes: o.peers, pokes: min(o.peers, 100),
			scaffolded: true, program: "bin/helm-operator", args: stock,
		},
		{
			name: "**welcome-operator**", user: "welcome-operator", welcomes: o.count, more: max(0, o.many-o.count), pokes: o.count,
			program: ".", ours: true,
		},
	}
}

// invertedWatches is watches.yaml for helm-operator-plugins, which watches children, and so sees a drift, only where the
// file says that it should not.
const invertedWatches = "${DIR}/watches.yaml"

// operator is a running contender.
type operator struct {
	contender
	*controlplane.Operator
}

// start runs a contender in its namespace.
func (b *bench) start(c contender) (*operator, error) {
	var args []string
	for _, arg := range c.args {
		args = append(args, strings.ReplaceAll(arg, "${DIR}", b.Dir))
	}
	env := []string{"KUBECONFIG=" + b.kubeconfigs[c.user], "RELATED_IMAGE_WELCOME=" + image}
	if c.ours {
		env = append(b.deployedEnv, env...)
	}
	process, err := b.RunOperator(c.user+".log", append(env, c.env...), b.programs[c.user], args...)
	return &operator{c, process}, err
}

// build compiles what is given as a directory.
func (b *bench) build(c contender) error {
	b.programs[c.user] = kit.File(c.program)
	if strings.HasPrefix(c.program, "bin/") {
		return nil
	}
	b.programs[c.user] = filepath.Join(b.Dir, c.user)
	return kit.Build(b.programs[c.user], c.program)
}
