//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"time"
)

// down ends the cluster and removes everything of it, whatever state it is in.
func down(c *cluster) error {
	s := steps{time.Now()}
	if os.Geteuid() != 0 {
		return errors.New("only root can stop a cluster")
	}
	if err := c.lockCheckout(); err != nil {
		return err
	}
	pid, err := c.runningMachine()
	if err != nil {
		return err
	}
	if pid != 0 {
		if err := c.stopMachine(pid); err != nil {
			return err
		}
		s.done("%s stopped, with all that ran inside", c.Name)
	} else {
		s.done("%s doesn't run", c.Name)
	}
	if err := c.disconnect(); err != nil {
		return err
	}
	if err := c.removeCgroups(); err != nil {
		return err
	}
	if err := os.RemoveAll(c.Dir); err != nil {
		return fmt.Errorf("remove the state: %w", err)
	}
	s.done("removed .cluster and the cgroups")
	return nil
}

// status says whether the cluster runs, and how to use it.
func status(c *cluster) error {
	pid, err := c.runningMachine()
	if err != nil {
		return err
	}
	if pid == 0 {
		fmt.Printf("%s doesn't run: `make cluster` starts it\n", c.Name)
		return nil
	}
	if err := c.loadNetwork(); err != nil {
		return err
	}
	fmt.Printf(`%s runs (process %d)
  kubeconfig  %s
  API server  https://%s
  registry    https://%s (authority: %s)
  look inside nsenter --target %d --all
`, c.Name, pid, c.kubeconfig(), c.apiAddress(), c.registryAddress(), c.pki("ca.crt"), pid)
	return nil
}
