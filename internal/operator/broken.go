package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// crdPeriod is how often the operator looks whether a CRD that was missing has been installed.
const crdPeriod = 10 * time.Second

// broken is an entry of the watches file that is not served, and why.
type broken struct {
	Entry
	err error
	// lacksCRD is whether that is only because the cluster does not know the kind.
	lacksCRD bool
}

func (e Entry) broken(err error) broken {
	return broken{Entry: e, err: fmt.Errorf("%s: entry %d (kind %q): %w", e.place.file, e.place.number, e.Kind, err)}
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

// newMapper knows the kinds of the cluster.
func newMapper(cluster *rest.Config) (meta.RESTMapper, error) {
	http, err := rest.HTTPClientFor(cluster)
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	mapper, err := apiutil.NewDynamicRESTMapper(cluster, http)
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	return mapper, nil
}

// withCRD parts the entries whose kind the cluster knows from the others. There is an error if none is left, or it cannot be asked.
func withCRD(mapper meta.RESTMapper, entries []Entry, refused []broken) ([]Entry, []broken, error) {
	var known []Entry
	for _, entry := range entries {
		_, err := mapper.RESTMapping(entry.GroupKind(), entry.Version)
		switch {
		case meta.IsNoMatchError(err):
			without := entry.broken(errors.New("the cluster does not know this kind: install its CRD (make install)"))
			without.lacksCRD = true
			refused = append(refused, without)
		case err != nil:
			return nil, nil, fmt.Errorf("connect to the cluster: %w", err)
		default:
			known = append(known, entry)
		}
	}
	return known, refused, noneLeft(known, refused)
}

// setUpBroken tells of the entries that are not served, in events on the lease: that is the installation's own object, and where it may write
// events anyway. It has the process end when the CRD of one was installed: the next one serves it.
func setUpBroken(mgr ctrl.Manager, refused []broken, options Options) error {
	lease, err := options.lease()
	if err != nil || len(refused) == 0 {
		return err
	}
	if lease != nil {
		events := mgr.GetEventRecorderFor("welcome-operator")
		if err := mgr.Add(manager.RunnableFunc(func(context.Context) error { // once it leads
			for _, each := range refused {
				events.Event(lease, corev1.EventTypeWarning, "EntryBroken", each.err.Error())
			}
			return nil
		})); err != nil {
			return err
		}
	}
	late := slices.DeleteFunc(slices.Clone(refused), func(each broken) bool { return !each.lacksCRD })
	if len(late) == 0 {
		return nil
	}
	return mgr.Add(awaitCRDs{mgr.GetRESTMapper(), late})
}

// awaitCRDs ends the process when an entry can be served whose CRD was missing.
type awaitCRDs struct {
	mapper meta.RESTMapper
	late   []broken
}

// NeedLeaderElection has the standby start anew as well.
func (awaitCRDs) NeedLeaderElection() bool { return false }

// Start looks until ctx ends.
func (a awaitCRDs) Start(ctx context.Context) error {
	ticks := time.NewTicker(crdPeriod)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
		}
		for _, each := range a.late {
			if _, err := a.mapper.RESTMapping(each.GroupKind(), each.Version); err == nil {
				return fmt.Errorf("%s: entry %d (kind %q): its CRD was installed meanwhile: start again, and it is served", each.place.file, each.place.number, each.Kind)
			}
		}
	}
}
