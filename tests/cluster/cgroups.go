//go:build linux

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/moby/sys/mountinfo"
)

// cgroupMounts lists where the host's cgroup hierarchies are mounted: one per
// controller with version 1, one for all with version 2.
func cgroupMounts() ([]*mountinfo.Info, error) {
	mounts, err := mountinfo.GetMounts(mountinfo.FSTypeFilter("cgroup", "cgroup2"))
	if err != nil {
		return nil, fmt.Errorf("list cgroup mounts: %w", err)
	}
	if len(mounts) == 0 {
		return nil, errors.New("no cgroups are mounted below /sys/fs/cgroup, and kubelet needs them")
	}
	return mounts, nil
}

// makeCgroups makes the group below which kubelet puts its pods: kubelet doesn't
// make the root that it is given.
func (c *cluster) makeCgroups() error {
	mounts, err := cgroupMounts()
	if err != nil {
		return err
	}
	for _, m := range mounts {
		if m.FSType == "cgroup2" {
			if err := delegateControllers(m.Mountpoint); err != nil {
				return err
			}
		}
		if err := os.MkdirAll(filepath.Join(m.Mountpoint, c.Name), 0o755); err != nil {
			return fmt.Errorf("make cgroup %s: %w", c.Name, err)
		}
	}
	return nil
}

// delegateControllers lets the groups right below a version 2 root use all controllers
// of that root.
func delegateControllers(root string) error {
	available, err := os.ReadFile(filepath.Join(root, "cgroup.controllers"))
	if err != nil {
		return err
	}
	file := filepath.Join(root, "cgroup.subtree_control")
	delegated, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for controller := range strings.FieldsSeq(string(available)) {
		if slices.Contains(strings.Fields(string(delegated)), controller) {
			continue
		}
		if err := os.WriteFile(file, []byte("+"+controller), 0o644); err != nil {
			return fmt.Errorf("delegate cgroup controller %s: %w", controller, err)
		}
	}
	return nil
}

// removeCgroups removes what makeCgroups and kubelet made. The kernel frees a group
// a moment after its last process has ended.
func (c *cluster) removeCgroups() error {
	mounts, err := cgroupMounts()
	if err != nil {
		return err
	}
	for _, m := range mounts {
		group := filepath.Join(m.Mountpoint, c.Name)
		for attempt := 0; ; attempt++ {
			err := removeGroup(group)
			if err == nil {
				break
			}
			if attempt == 50 {
				return fmt.Errorf("remove cgroup: %w", err)
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	return nil
}

// removeGroup removes a group and those below it; its files go with it.
func removeGroup(group string) error {
	entries, err := os.ReadDir(group)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeGroup(filepath.Join(group, e.Name())); err != nil {
				return err
			}
		}
	}
	return os.Remove(group)
}
