package release

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/release"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cli-runtime/pkg/resource"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

// rolloutPoll is how often a release that waits for its turn asks again, should the one that was to
// wake it not have done so. Often would cost a processor: thousands may wait.
const rolloutPoll = 2 * time.Minute

// Reconcile repairs what became of the objects of a release whose inputs have not changed.
// Whether there is anything to repair is decided against the cache.
func (a *actionClient) Reconcile(*release.Release) error {
	if a.held != nil {
		return a.held
	}
	if err := a.watch(a.ctx, a.owner, a.current.children); err != nil {
		return err
	}
	if a.drifted() {
		start := time.Now()
		if err := a.repairAll(); err != nil {
			a.acted(DriftCorrection, time.Since(start), err)
			a.failed(err)
			return err
		}
	} else if a.waitFor == "" {
		logf.FromContext(a.ctx).V(1).Info("Nothing to do: the record has the same inputs, and the objects are as they were applied",
			"record", a.current.name, "inputs", a.wanted, "objects", len(a.current.children))
	}
	if a.waitFor != "" {
		a.schedule.after(a.owner, wait.Jitter(rolloutPoll, jitter))
		a.clients.ledger.postpone(a.owner, a.current.children, a.waitFor)
		return nil
	}
	if a.rollout.follows(a.owner) {
		a.observed(a.health())
	}
	a.succeeded(a.appliedDigest())
	return nil
}

// observed tells the rollout how the release fares, and wakes those that it lets go on.
func (a *actionClient) observed(h health) { a.wake(a.rollout.observe(a.owner, h)) }

// health of the objects of the release, from the API server if nobody watches them.
func (a *actionClient) health() health {
	worst := healthy
	for _, child := range a.current.children {
		object, err := a.cachedChild(child)
		if uncached := (&cache.ErrResourceNotCached{}); errors.As(err, &uncached) {
			err = a.clients.mgr.GetAPIReader().Get(a.ctx, client.ObjectKey{Namespace: a.owner.GetNamespace(), Name: child.Name}, object)
		}
		if err != nil {
			return progressing
		}
		result, err := status.Compute(object)
		switch {
		case err != nil || result.Status == status.FailedStatus:
			return broken
		case result.Status != status.CurrentStatus:
			worst = progressing
		}
	}
	return worst
}

func (a *actionClient) cachedChild(child Child) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(child.APIVersion)
	object.SetKind(child.Kind)
	err := a.clients.mgr.GetCache().Get(a.ctx, client.ObjectKey{Namespace: a.owner.GetNamespace(), Name: child.Name}, object, client.UnsafeDisableDeepCopy)
	return object, err
}

// drifted is whether an object differs from how it was right after it was applied, or cannot
// be seen in the cache.
func (a *actionClient) drifted() bool {
	return a.current.children == nil || slices.ContainsFunc(a.current.children, func(child Child) bool {
		object, err := a.cachedChild(child)
		return err != nil || !metav1.IsControlledBy(object, a.owner) || object.GetAnnotations()[fingerprintAnnotation] != child.Fingerprint
	})
}

func (a *actionClient) repairAll() error {
	_, end, err := a.begin()
	if err != nil {
		return err
	}
	defer end()
	manifest, err := a.applied()
	if err != nil || manifest == "" {
		return err
	}
	guard, err := a.guard()
	if err != nil {
		return err
	}
	resources, err := guard.Build(bytes.NewBufferString(manifest), false)
	if err != nil {
		return fmt.Errorf("parse what the chart renders: %w", err)
	}
	var errs []error
	for _, info := range resources {
		errs = append(errs, a.repair(guard, info))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	children, err := a.children()
	if err != nil {
		return err
	}
	recorded := a.current.children
	a.current.children = children
	if slices.EqualFunc(children, recorded, sameContent) {
		return nil
	}
	return a.records.recordChildren(a.ctx, a.current.name, children)
}

// applied is the manifest whose objects should exist: what the chart renders now, but while a new
// chart waits for its turn, what the record has of the old one. It is empty if that cannot be trusted.
func (a *actionClient) applied() (manifest string, err error) {
	if a.waitFor == "" {
		rendered, err := a.render()
		if err != nil {
			return "", err
		}
		return rendered.Manifest, nil
	}
	helm, err := a.library()
	if err != nil {
		return "", err
	}
	recorded, err := helm.Config().Releases.Get(a.owner.GetName(), a.current.revision)
	if err != nil {
		return "", fmt.Errorf("read release record %s: %w", a.current.name, err)
	}
	if shortDigest([]byte(recorded.Manifest)) != a.appliedDigest() {
		logf.FromContext(a.ctx).Info("Not repairing the drift before the upgrade: the record is not what was applied", "record", a.current.name)
		return "", nil
	}
	return recorded.Manifest, nil
}

func (a *actionClient) repair(guard *guard, info *resource.Info) error {
	if err := guard.checkNamespace(info); err != nil {
		return err
	}
	start := time.Now()
	live, err := guard.live(info)
	if apierrors.IsNotFound(err) {
		if _, err := guard.Create(kube.ResourceList{info}); err != nil {
			return err
		}
		a.tell(DriftCorrected, "%s was deleted: created again", describe(info))
		a.acted(DriftCorrection, time.Since(start), nil)
		return nil
	}
	if err != nil {
		return err
	}
	if !metav1.IsControlledBy(live, a.owner) {
		return inTheWay(info)
	}
	// The manifest lacks the label by which the cache finds the object.
	if err := guard.adopt(info); err != nil {
		return err
	}
	desired, err := canonical(info)
	if err != nil {
		return err
	}
	restored, err := guard.restore(info, live, desired)
	if err != nil {
		return fmt.Errorf("repair drift: %w", err)
	}
	if fingerprint(restored) != fingerprint(live) {
		a.tell(DriftCorrected, "%s: put back %s", describe(info), strings.Join(changes(live.Object, restored.Object), ", "))
		a.acted(DriftCorrection, time.Since(start), nil)
	}
	info.Object = restored
	guard.note(kube.ResourceList{info})
	return nil
}

// stamp annotates the record of the revision that an action creates. Its objects are known
// once it is deployed.
func (a *actionClient) stamp(status release.Status) (map[string]string, error) {
	annotations := map[string]string{inputsAnnotation: a.wanted}
	if status != release.StatusDeployed {
		return annotations, nil
	}
	children, err := a.children()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(children)
	if err != nil {
		return nil, fmt.Errorf("encode the children of a release record: %w", err)
	}
	annotations[childrenAnnotation] = string(text)
	return annotations, nil
}

// children lists what the guard saw applied, in a fixed order.
func (a *actionClient) children() ([]Child, error) {
	guard, err := a.guard()
	if err != nil {
		return nil, err
	}
	children := []Child{}
	for key, object := range guard.applied {
		children = append(children, Child{APIVersion: key.apiVersion, Kind: key.kind, Name: key.name, Fingerprint: fingerprint(object), ResourceVersion: object.GetResourceVersion()})
	}
	slices.SortFunc(children, func(a, b Child) int {
		return strings.Compare(a.APIVersion+"/"+a.Kind+"/"+a.Name, b.APIVersion+"/"+b.Kind+"/"+b.Name)
	})
	return children, nil
}
