package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/kubectl/pkg/polymorphichelpers"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/internal/status"
)

// restartedAt is the annotation of a pod template by which kubectl rollout restart has the pods replaced.
const restartedAt = "kubectl.kubernetes.io/restartedAt"

// NewCmdRestart replaces the pods of a custom resource.
func NewCmdRestart(c *cluster) *cobra.Command {
	var w waiting
	cmd := &cobra.Command{
		Use:   "restart NAME | KIND/NAME",
		Short: "Restart the pods of a custom resource, without an outage",
		Long: `Restart the pods of a custom resource, as kubectl rollout restart does it for one workload: with your own rights on its Deployments,
StatefulSets and DaemonSets. New pods come before old ones go, as far as the workload says so. The operator does not undo it.`,
		Example:           examples("kubectl welcome restart hello --wait"),
		Args:              oneName,
		ValidArgsFunction: c.completeNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			obj, err := c.one(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			workloads, err := c.workloads(cmd.Context(), obj)
			if err != nil {
				return err
			}
			for i := range workloads {
				if err := c.restart(cmd.Context(), &workloads[i]); err != nil {
					return err
				}
			}
			ctx, cancel := w.bounded(cmd.Context())
			defer cancel()
			for i := range workloads {
				if !w.wanted {
					break
				}
				if err := c.awaitRollout(ctx, w, &workloads[i]); err != nil {
					return err
				}
			}
			c.notef("Next: kubectl welcome status %s\n", typed(obj))
			return nil
		},
	}
	w.addTo(cmd)
	return cmd
}

// workloads are the objects of a custom resource that can be restarted.
func (c *cluster) workloads(ctx context.Context, obj *unstructured.Unstructured) ([]unstructured.Unstructured, error) {
	api, err := c.client()
	if err != nil {
		return nil, err
	}
	if status.Of(obj).Release == nil {
		return nil, noRelease(obj)
	}
	l := &onlooker{cluster: c, api: api, obj: obj}
	children, err := l.children(ctx)
	if err != nil {
		return nil, err
	}
	var workloads []unstructured.Unstructured
	var lost []string
	for _, child := range children {
		if child.APIVersion != "apps/v1" || child.Kind != "Deployment" && child.Kind != "StatefulSet" && child.Kind != "DaemonSet" {
			continue
		}
		workload, err := l.live(ctx, child)
		if apierrors.IsNotFound(err) {
			lost = append(lost, strings.ToLower(child.Kind)+"/"+child.Name+" is gone") // or a forged record names it
			continue
		} else if err != nil {
			return nil, err
		}
		if !l.owns(workload) {
			lost = append(lost, label(workload)+" is not its own")
			continue
		}
		if paused, _, _ := unstructured.NestedBool(workload.Object, "spec", "paused"); paused {
			return nil, fmt.Errorf("somebody has paused the rollout of %s: kubectl rollout resume %s -n %s", label(workload), label(workload), obj.GetNamespace())
		}
		if strategy, _, _ := unstructured.NestedString(workload.Object, "spec", "updateStrategy", "type"); strategy == string(appsv1.OnDeleteStatefulSetStrategyType) { // as a DaemonSet calls it
			return nil, fmt.Errorf("%s replaces a pod only when somebody deletes that (updateStrategy: OnDelete): kubectl delete pod NAME -n %s, one after the other; which there are: kubectl welcome status %s -n %[2]s", label(workload), obj.GetNamespace(), typed(obj))
		}
		workloads = append(workloads, *workload)
	}
	switch {
	case len(workloads) > 0:
		return workloads, nil
	case len(lost) > 0:
		return nil, fmt.Errorf("nothing of %s can be restarted: %s. What is there: kubectl welcome status %s", label(obj), few(lost), typed(obj))
	default:
		return nil, fmt.Errorf("%s has no Deployment, StatefulSet or DaemonSet that you may read", label(obj))
	}
}

func (c *cluster) restart(ctx context.Context, workload *unstructured.Unstructured) error {
	api, err := c.client()
	if err != nil {
		return err
	}
	before := workload.DeepCopy()
	now := time.Now().Format(time.RFC3339Nano) // with nanoseconds, or a second restart within one second would do nothing
	if err := unstructured.SetNestedField(workload.Object, now, "spec", "template", "metadata", "annotations", restartedAt); err != nil {
		return err
	}
	if err := api.Patch(ctx, workload, client.MergeFrom(before), fieldOwner); err != nil {
		return err
	}
	c.printf("%s in %s restarted\n", label(workload), workload.GetNamespace())
	return nil
}

// awaitRollout waits until all pods of a workload are replaced, as kubectl rollout status does.
func (c *cluster) awaitRollout(ctx context.Context, w waiting, workload *unstructured.Unstructured) error {
	viewer, err := polymorphichelpers.StatusViewerFor(workload.GroupVersionKind().GroupKind())
	if err != nil {
		return err
	}
	return c.await(ctx, w, func(ctx context.Context) (string, bool, error) {
		if err := c.reread(ctx, workload); err != nil {
			return "", false, err
		}
		step, done, err := viewer.Status(workload, 0)
		return strings.TrimSpace(step), done, err
	})
}
