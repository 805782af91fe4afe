package record

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// RemoveLeft deletes the records of the release's name that nobody owns: restored from a backup, or orphaned.
// If there are any, mayInherit is called first, and fails if the owner may not delete them.
func (r *Store) RemoveLeft(ctx context.Context, mayInherit func() error) error {
	named, err := r.recordsOf(ctx, labels.Everything())
	if err != nil {
		return err
	}
	if r.earlier != nil {
		if err := r.earlier.RemoveLeft(ctx, mayInherit); err != nil {
			return err
		}
	}
	left := slices.DeleteFunc(named, func(record corev1.ConfigMap) bool {
		_, isRecord := revisionOf(record.Name, r.release)
		return !isRecord || record.DeletionTimestamp != nil || metav1.IsControlledBy(&record, r.owner) || !object.Inheritable(&record, r.owner)
	})
	if len(left) == 0 {
		return nil
	}
	if err := mayInherit(); err != nil {
		return err
	}
	return r.remove(ctx, left)
}

// RemoveOwned deletes the owner's records, and nothing else of the release.
func (r *Store) RemoveOwned(ctx context.Context) error {
	owned, err := r.cached(ctx, labels.Everything())
	if err != nil {
		return err
	}
	return r.remove(ctx, owned)
}

// CheckGone fails if the record of a revision is there, which the cache does not show: it is behind.
func (r *Store) CheckGone(ctx context.Context, revision int) error {
	name := NameOf(r.release, revision)
	live, err := r.live(ctx, name)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("look for release record %s: %w", name, err)
	case r.isOwned(live) && live.DeletionTimestamp == nil && r.labelled().Matches(labels.Set(live.Labels)) && object.ManagedBy().Matches(labels.Set(live.Labels)):
		return fmt.Errorf("the cache is behind: it does not have release record %s yet", name)
	}
	return nil // somebody has made it another's, or taken off the labels by which it is found
}

func (r *Store) remove(ctx context.Context, records []corev1.ConfigMap) error {
	for _, record := range records {
		if err := r.Delete(ctx, record.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(record.UID))}); err != nil {
			return err
		}
	}
	return nil
}
