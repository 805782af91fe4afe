package status

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/internal/object"
)

const (
	// readLimit is how long the objects of a release that nobody watches may take in all: each is read from the
	// API server.
	readLimit = 30 * time.Second
	// goneCheck is how often the API server is asked, while the cache does not show an object, whether somebody has
	// deleted it: to wait for it would hold up its repair. Objects that nobody watches are read as often.
	goneCheck = 200 * time.Millisecond
)

// observe gathers what next needs: what is known of the release, and its objects as they are now.
func (r *Reporter) observe(ctx context.Context, owner *unstructured.Unstructured, reported []metav1.Condition) observation {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	lag, endLag := context.WithTimeout(ctx, cacheLag)
	defer endLag()
	state := r.releases.State(owner)
	seen := observation{
		name:       owner.GetName(),
		namespace:  owner.GetNamespace(),
		kind:       owner.GetKind(),
		operator:   r.claims.self,
		generation: owner.GetGeneration(),
		deleting:   owner.GetDeletionTimestamp() != nil,
		reported:   reported,
		state:      state,
		now:        metav1.Now(),
	}
	if last := r.refused.get(owner, itsFinalizers); seen.deleting && last.count > atOnce { // a pause later, too: a webhook may be away for a moment
		seen.stuck = last.err
	}
	called := seen.called()
	_, failed := failure(reported)
	for _, child := range state.Children {
		if child.Expired && !child.Failed {
			continue
		}
		o := childState{Child: child, called: called, left: state.LeavesDrift}
		if child.Expired {
			o.gone = true
		} else if failed {
			o.live, o.gone = r.find(ctx, owner, child) // half an upgrade may have been applied since
		} else {
			if o.live, o.gone, o.unlabelled = r.await(ctx, lag, owner, child); o.gone {
				endLag() // the next reconcile, which its deletion brings, waits for the others
			}
		}
		if o.live != nil {
			o.live = object.Unpack(o.live)
		}
		seen.objects = append(seen.objects, o)
	}
	return seen
}

// await reads an object once the cache shows it as it was applied, or newer; nil if it does not before lag ends, or
// the object is gone. The cache never shows one that has lost the label by which it selects.
func (r *Reporter) await(ctx, lag context.Context, owner client.Object, child object.Child) (live *unstructured.Unstructured, gone, unlabelled bool) {
	asked, watched, within := time.Now(), true, lag
	err := object.AwaitCached(lag, func(context.Context) (bool, error) {
		var err error
		if watched {
			live, err = get(within, r.Client, owner, child, client.UnsafeDisableDeepCopy)
			if object.IsUncached(err) {
				watched, asked, within = false, time.Time{}, ctx
			} else if !apierrors.IsNotFound(err) {
				return err == nil && child.ShownBy(live), nil
			}
		}
		if time.Since(asked) <= goneCheck {
			return false, nil
		}
		asked = time.Now()
		live, err = get(within, r.live, owner, child)
		gone = apierrors.IsNotFound(err)
		if !watched {
			return gone || err == nil && child.ShownBy(live), nil
		}
		unlabelled = err == nil && !object.ManagedBy().Matches(labels.Set(live.GetLabels()))
		return gone || unlabelled, nil
	})
	if err != nil {
		return nil, false, false
	}
	return live, gone, unlabelled
}

// find reads an object that may not exist. It may be missing in the cache only because it has lost the label by
// which that selects.
func (r *Reporter) find(ctx context.Context, owner client.Object, child object.Child) (live *unstructured.Unstructured, gone bool) {
	live, err := get(ctx, r.Client, owner, child, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) || object.IsUncached(err) {
		live, err = get(ctx, r.live, owner, child)
	}
	return live, apierrors.IsNotFound(err)
}

func get(ctx context.Context, from client.Reader, owner client.Object, child object.Child, opts ...client.GetOption) (*unstructured.Unstructured, error) {
	live := child.Empty()
	if object.IsSecret(live) {
		ctx = object.Quietly(ctx)
	}
	if err := from.Get(ctx, client.ObjectKey{Namespace: owner.GetNamespace(), Name: child.Name}, live, opts...); err != nil {
		return nil, err
	}
	return live, nil
}
