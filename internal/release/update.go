package release

import (
	"fmt"

	"helm.sh/helm/v3/pkg/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/cli-runtime/pkg/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Update brings the objects of target to what they say, and deletes those of original that
// target no longer has. It fails before the first change where target names an object that
// exists and is not the owner's.
func (g *guard) Update(original, target kube.ResourceList, force bool) (*kube.Result, error) {
	for _, info := range g.leftovers {
		if original.Get(info) == nil {
			original.Append(info)
		}
	}
	original, err := g.owned(original)
	if err != nil {
		return &kube.Result{}, err
	}
	wanted := map[*resource.Info]*unstructured.Unstructured{}
	for _, info := range target {
		if err := g.checkNamespace(info); err != nil {
			return &kube.Result{}, err
		}
		exists, owned, err := g.lookUp(info)
		if err != nil {
			return &kube.Result{}, err
		}
		if exists && !owned {
			return &kube.Result{}, inTheWay(info)
		}
		// What the owner has and the record does not know, a killed operator left behind:
		// Helm refuses to update it unless it is among the originals.
		if exists && original.Get(info) == nil {
			original.Append(info)
		}
		if err := g.adopt(info); err != nil {
			return &kube.Result{}, err
		}
		if exists && g.restores {
			if wanted[info], err = canonical(info); err != nil {
				return &kube.Result{}, err
			}
		}
	}
	if g.rehearses {
		if err := g.rehearse(target, original.Difference(target)); err != nil {
			return &kube.Result{}, err
		}
	}
	g.changed = true
	result, err := g.Client.Update(original, target, force)
	if err != nil {
		return result, err
	}
	if err := g.deleteRest(original.Difference(target), result.Deleted); err != nil {
		return result, err
	}
	// Helm's merge only takes out what the last good release had.
	for info, desired := range wanted {
		live, err := toUnstructured(info.Object)
		if err != nil {
			return result, err
		}
		restored, err := g.restore(info, live, desired)
		if err != nil {
			return result, err
		}
		if err := info.Refresh(restored, true); err != nil {
			return result, err
		}
	}
	g.note(target)
	return result, nil
}

// restores bounds how often a restoration starts again because somebody else was at the object.
const restores = 5

// restore takes out of an object what the chart does not want in it, and puts back what it wants: again
// until nothing changes, for what somebody did between the look and the patch would pass for restored.
func (g *guard) restore(info *resource.Info, live, desired *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	helper := resource.NewHelper(info.Client, info.Mapping)
	for range restores {
		answer, err := g.patch(helper, info, live, desired)
		if err != nil {
			return nil, err
		}
		seen := live
		if live, err = toUnstructured(answer); err != nil {
			return nil, err
		}
		if fingerprint(live) == fingerprint(seen) {
			break
		}
	}
	return live, nil
}

// patch, and not an update, which would fail whenever the object's controller writes its status meanwhile.
func (g *guard) patch(helper *resource.Helper, info *resource.Info, live, desired *unstructured.Unstructured) (runtime.Object, error) {
	patch, err := client.MergeFrom(live).Data(restore(live, desired))
	if err != nil {
		return nil, fmt.Errorf("compare %s: %w", describe(info), err)
	}
	answer, err := helper.Patch(info.Namespace, info.Name, types.MergePatchType, patch, nil)
	if err != nil {
		return nil, fmt.Errorf("patch %s: %w", describe(info), err)
	}
	return answer, nil
}

// rehearse has the API server say whether it would take and delete objects. Upgrades that failed are
// rehearsed before they are tried again: each attempt would change what comes before the object that is
// refused, and be rolled back, and roll the pods twice.
func (g *guard) rehearse(taken, deleted kube.ResourceList) error {
	for _, info := range taken {
		helper := resource.NewHelper(info.Client, info.Mapping).DryRun(true)
		live, err := g.live(info)
		if apierrors.IsNotFound(err) {
			if _, err := helper.Create(info.Namespace, false, info.Object); err != nil {
				return fmt.Errorf("create %s: %w", describe(info), err)
			}
			continue
		}
		if err != nil {
			return err
		}
		desired, err := canonical(info)
		if err != nil {
			return err
		}
		if _, err := g.patch(helper, info, live, desired); err != nil {
			return err
		}
	}
	for _, info := range deleted {
		_, err := resource.NewHelper(info.Client, info.Mapping).DryRun(true).DeleteWithOptions(info.Namespace, info.Name, &metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete %s: %w", describe(info), err)
		}
	}
	return nil
}

// deleteRest deletes those of resources that Helm was to delete, could not, and has only logged: no
// later release would know of them.
func (g *guard) deleteRest(resources, deleted kube.ResourceList) error {
	for _, info := range resources {
		accessor, err := meta.Accessor(info.Object)
		if err != nil {
			return fmt.Errorf("delete %s: %w", describe(info), err)
		}
		if deleted.Get(info) != nil || accessor.GetAnnotations()[kube.ResourcePolicyAnno] == kube.KeepPolicy {
			continue
		}
		if _, errs := g.Client.Delete(kube.ResourceList{info}); len(errs) > 0 {
			return fmt.Errorf("delete %s: %w", describe(info), utilerrors.NewAggregate(errs))
		}
	}
	return nil
}

// UpdateThreeWayMerge is Update: the guarded object is the same.
func (g *guard) UpdateThreeWayMerge(original, target kube.ResourceList, force bool) (*kube.Result, error) {
	return g.Update(original, target, force)
}
