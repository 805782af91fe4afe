package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"demo.welcome.domain/welcome-operator/internal/release"
)

// lackPeriod is how often the operator checks whether a missing CRD or right is there.
const lackPeriod = 10 * time.Second

// broken is an entry of the watches file that is not served, and why.
type broken struct {
	Entry
	err error
	// lacks is whether that is only because the cluster lacks something: the kind, or the operator's right to
	// it.
	lacks bool
}

// wrong is an error about an entry, with where that stands.
func (e Entry) wrong(err error) error {
	return fmt.Errorf("%s: entry %d (kind %q): %w", e.place.file, e.place.number, e.Kind, err)
}

// noneLeft fails if all entries are broken.
func noneLeft(entries []Entry, refused []broken) error {
	if len(entries) > 0 {
		return nil
	}
	var all []error
	for _, each := range refused {
		all = append(all, each.err)
	}
	return errors.Join(all...)
}

// setUpBroken reports the entries that are not served, in events on the lease: that is an object of the
// installation, and it may write events there anyway. Once what one lacked is there, it ends the process, and
// the next one serves the entry.
func setUpBroken(mgr ctrl.Manager, servable *servable, refused []broken, options Options) error {
	lease, err := options.lease()
	if err != nil || len(refused) == 0 {
		return err
	}
	if lease != nil {
		events := release.NewEvents(mgr)
		if err := mgr.Add(manager.RunnableFunc(func(context.Context) error { // once it leads
			for _, each := range refused {
				events.Event(lease, corev1.EventTypeWarning, "EntryBroken", each.err.Error())
			}
			return nil
		})); err != nil {
			return err
		}
	}
	late := slices.DeleteFunc(slices.Clone(refused), func(each broken) bool { return !each.lacks })
	if len(late) == 0 {
		return nil
	}
	return mgr.Add(awaitLacking{servable, late})
}

// awaitLacking ends the process once an entry can be served that lacked something.
type awaitLacking struct {
	*servable
	late []broken
}

// NeedLeaderElection has the standby start anew as well.
func (awaitLacking) NeedLeaderElection() bool { return false }

// Start looks until ctx ends.
func (a awaitLacking) Start(ctx context.Context) error {
	err := wait.PollUntilContextCancel(ctx, lackPeriod, false, func(ctx context.Context) (bool, error) {
		for _, each := range a.late {
			if lack, err := a.lack(ctx, each.Entry, true); lack == nil && err == nil {
				return false, each.wrong(errors.New("what it lacked is there now: start again, and it is served"))
			}
		}
		return false, nil
	})
	if wait.Interrupted(err) {
		return nil
	}
	return err
}
