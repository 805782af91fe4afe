package release

import (
	"context"
	"slices"

	"helm.sh/helm/v3/pkg/release"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// What the children, which are the objects of the release, are like now.

// health of the objects of the release, read from the API server where their kind is not watched.
func (a *actionClient) health() health {
	worst := healthy
	if a.proven && a.current.Children == nil {
		worst = progressing // there are more than the status lists, and nobody has looked at them since the operator started
	}
	for _, child := range a.current.Children {
		if child.Expired && child.Failed {
			return broken
		}
		if child.Expired {
			continue
		}
		live, err := a.cachedChild(child)
		if object.IsUncached(err) {
			live, err = a.liveChild(child)
		}
		if err != nil || !child.ShownBy(live) {
			return progressing
		}
		result, err := object.Health(object.Unpack(live))
		switch {
		case err != nil || result.Status == status.FailedStatus:
			return broken
		case result.Status != status.CurrentStatus:
			worst = progressing
		}
	}
	return worst
}

// cachedChild reads an object from the cache, and liveChild from the API server.
func (a *actionClient) cachedChild(child object.Child) (*unstructured.Unstructured, error) {
	return a.readChild(a.ctx, a.clients.cached, child, client.UnsafeDisableDeepCopy)
}

func (a *actionClient) liveChild(child object.Child) (*unstructured.Unstructured, error) {
	return a.readChild(object.Quietly(a.ctx), a.clients.live, child)
}

func (a *actionClient) readChild(ctx context.Context, from client.Reader, child object.Child, opts ...client.GetOption) (*unstructured.Unstructured, error) {
	read := child.Empty()
	return read, from.Get(ctx, client.ObjectKey{Namespace: a.owner.GetNamespace(), Name: child.Name}, read, opts...)
}

// isGone is whether an object does not exist. The cache alone cannot tell: it lacks objects without the
// operator's label.
func (a *actionClient) isGone(child object.Child) bool {
	_, err := a.cachedChild(child)
	if err != nil {
		_, err = a.liveChild(child)
	}
	return apierrors.IsNotFound(err)
}

// intact is whether the cache shows an object as it was right after it was applied.
func (a *actionClient) intact(child object.Child) bool {
	cached, err := a.cachedChild(child)
	return child.Expired || err == nil && child.Intact(cached, a.owner, a.key)
}

// expired are the objects that have gone by themselves, as their TTL says.
func (a *actionClient) expired() (gone []object.Child) {
	children := a.knownChildren()
	if children == nil {
		children = object.Children(a.inStatus("expiring"))
	}
	for _, child := range children {
		if child.Expires && !child.Expired {
			child.Expired = a.isGone(child)
		}
		if child.Expired && (!child.Failed || !a.forced()) {
			gone = append(gone, child)
		}
	}
	return gone
}

// expire marks the expired objects as such, so that they are not looked for again, and those that have failed
// before they expire.
func (a *actionClient) expire() {
	if !slices.ContainsFunc(a.provenChildren(), func(child object.Child) bool { return child.Expires && !child.Expired }) {
		return
	}
	gone, children := a.expired(), slices.Clone(a.current.Children) // others read them
	for i := range children {
		child := &children[i]
		child.Expired = child.Expired || slices.ContainsFunc(gone, child.Same)
		if !child.Expires || child.Expired {
			continue
		}
		if live, err := a.cachedChild(*child); err == nil {
			result, err := object.Health(object.Unpack(live))
			child.Failed = err == nil && result.Status == status.FailedStatus
		}
	}
	a.current.Children = children
}

// untouched are the objects that the cache still shows as this process has applied them. After a failed
// attempt, the cache may be behind, and a record could be forged.
func (a *actionClient) untouched() []object.Child {
	if a.current == nil || a.current.Status != release.StatusDeployed || a.forced() {
		return nil
	}
	applied := a.state().applied
	return slices.DeleteFunc(slices.Clone(applied), func(child object.Child) bool { return !a.intact(child) })
}

// describe names a child as the guard does.
func (a *actionClient) describe(child object.Child) string {
	namespace := a.owner.GetNamespace()
	if inNoNamespace(schema.FromAPIVersionAndKind(child.APIVersion, child.Kind), a.clients.mapper) {
		namespace = ""
	}
	return object.Describe(child.Kind, namespace, child.Name)
}
