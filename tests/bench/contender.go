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
	name string // as the table shows it
	user string // its user, and the name of its namespace
	// namespaces is the number of namespaces of its Welcomes. With 0, they are in the namespace of its user.
	namespaces int
	// welcomes is how many Welcomes are created, and more how many more before it is restarted.
	welcomes, more int
	// pokes is how many of them are annotated to measure a reconcile that has nothing to do.
	pokes int
	// scaffolded is whether it needs the CRD that operator-sdk scaffolds, which keeps unknown fields.
	scaffolded bool
	// program is relative to the root of the repository. A directory is built first. If it is empty, the bench
	// creates the objects itself.
	program string
	args    []string
	// env are environment variables beside those of all contenders.
	env []string
	// ours is whether it is this operator: it serves metrics over TLS to authorized users, and gets the environment
	// of its Deployment.
	ours bool
}

func contenders(o options) []contender {
	// Stock operators reconcile everything each minute by default. Here no contender does.
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

// invertedWatches is watches.yaml for helm-operator-plugins, in which watchDependentResources means the opposite:
// it watches children, and so sees drift, only with false.
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

// build compiles a program that is given as a directory.
func (b *bench) build(c contender) error {
	b.programs[c.user] = kit.File(c.program)
	if strings.HasPrefix(c.program, "bin/") {
		return nil
	}
	b.programs[c.user] = filepath.Join(b.Dir, c.user)
	return kit.Build(b.programs[c.user], c.program)
}
