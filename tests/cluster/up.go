//go:build linux

package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// steps prints what has been reached, and when.
type steps struct{ start time.Time }

func (s steps) done(format string, args ...any) {
	fmt.Printf("%6.1fs  %s\n", time.Since(s.start).Seconds(), fmt.Sprintf(format, args...))
}

// lockCheckout waits until no other up or down works on this checkout, and keeps
// others waiting until this process ends. The lock is on the directory itself, for
// down deletes all files that could carry it.
func (c *cluster) lockCheckout() error {
	dir, err := unix.Open(c.Checkout, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return unix.Flock(dir, unix.LOCK_EX)
}

// up starts the cluster, unless it runs, and waits until it is ready. After a crash
// or a reboot it starts again on what is left in .cluster.
func up(ctx context.Context, c *cluster) error {
	s := steps{time.Now()}
	if err := checkHost(); err != nil {
		return err
	}
	if err := c.checkTools(); err != nil {
		return err
	}
	if err := c.lockCheckout(); err != nil {
		return err
	}
	pid, err := c.runningMachine()
	if err != nil {
		return err
	}
	var started time.Time
	if pid != 0 {
		if err := c.loadNetwork(); err != nil {
			return err
		}
		if _, err := os.Stat(c.config("metrics-server.yaml")); err != nil {
			return fmt.Errorf("%s was started by an earlier version: `make cluster-down cluster` starts it afresh (%w)", c.Name, err)
		}
		s.done("%s already runs (process %d)", c.Name, pid)
	} else {
		started = time.Now()
		if err := c.prepare(); err != nil {
			return err
		}
		if err := c.startMachine(); err != nil {
			return err
		}
		s.done("%s starts, on %s; logs in .cluster/logs", c.Name, c.Network.Block)
	}

	// Where a proxy is set, it can't reach the cluster.
	if err := os.Setenv("NO_PROXY", os.Getenv("NO_PROXY")+","+clusterRange.String()); err != nil {
		return err
	}
	if err := c.await(ctx, "registry", c.registryAnswers); err != nil {
		return err
	}
	if err := c.pushOwnImages(ctx); err != nil {
		return err
	}
	s.done("registry ready at %s", c.registryAddress())
	api, err := c.client()
	if err != nil {
		return err
	}
	if err := c.await(ctx, "kube-apiserver", apiReady(api)); err != nil {
		return err
	}
	s.done("API server ready at https://%s", c.apiAddress())
	for _, manifest := range []string{"coredns.yaml", "metrics-server.yaml"} {
		if err := c.apply(ctx, manifest); err != nil {
			return err
		}
	}
	if err := c.await(ctx, "kubelet", nodeReady(api, c.Name, started)); err != nil {
		return err
	}
	s.done("node %s ready", c.Name)
	if err := c.await(ctx, "kubelet", c.dnsAnswers); err != nil {
		return err
	}
	s.done("DNS answers: pods run, and Services reach them")
	// An API that is announced and not served makes discovery fail, and with that helm and the deletion of namespaces.
	if err := c.await(ctx, "kube-apiserver", metricsServed(api)); err != nil {
		return err
	}
	s.done("the API of pods' metrics answers")
	fmt.Printf("\nThe cluster is up. Next:\n  export KUBECONFIG=%s\n  bin/kubectl get pods --all-namespaces\n  make cluster-down\n", c.kubeconfig())
	return nil
}

// prepare makes everything on disk that the machine needs.
func (c *cluster) prepare() error {
	for _, dir := range []string{"pki", "config", "logs", "registry"} {
		if err := os.MkdirAll(filepath.Join(c.Dir, dir), 0o755); err != nil {
			return err
		}
	}
	// etcd refuses a data directory that others can read.
	if err := os.MkdirAll(filepath.Join(c.Dir, "etcd"), 0o700); err != nil {
		return err
	}
	if err := c.chooseNetwork(); err != nil {
		return err
	}
	if err := c.writeConfigs(); err != nil {
		return err
	}
	if err := c.ensurePKI(); err != nil {
		return err
	}
	if err := c.writeEnv(); err != nil {
		return err
	}
	return c.makeCgroups()
}

// writeEnv writes what scripts and tests need to use the cluster, for a shell or make.
func (c *cluster) writeEnv() error {
	return os.WriteFile(filepath.Join(c.Dir, "env"), fmt.Appendf(nil,
		"CLUSTER_REGISTRY=%s\nCLUSTER_CA=%s\nCLUSTER_NODE_IP=%s\n",
		c.registryAddress(), c.pki("ca.crt"), c.Network.Node), 0o644)
}

func (c *cluster) apply(ctx context.Context, manifest string) error {
	cmd := exec.CommandContext(ctx, c.bin("kubectl"), "--kubeconfig", c.kubeconfig(),
		"apply", "--server-side", "--force-conflicts", "-f", c.config(manifest))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("apply %s: %w\n%s", manifest, err, out)
	}
	return nil
}

func (c *cluster) registryAnswers(ctx context.Context) error {
	transport, err := c.registryTransport()
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+c.registryAddress()+"/v2/", nil)
	if err != nil {
		return err
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}
