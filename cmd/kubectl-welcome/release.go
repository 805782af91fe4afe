package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	helmrelease "helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	helmtime "helm.sh/helm/v3/pkg/time"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/internal/record"
	"demo.welcome.domain/welcome-operator/internal/status"
)

// releasedFrom is the label of a Helm record with the UID of the custom resource that it was made from. It is
// removed when all is done. Helm keeps such labels when it reads the record.
const releasedFrom = "webapp.demo.welcome.domain/released-from"

// core is the client that Helm's storage driver takes.
func (c *cluster) core() (*corev1client.CoreV1Client, error) {
	config, err := c.flags.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	return corev1client.NewForConfig(config)
}

// releaseOptions are the flags of release.
type releaseOptions struct {
	wait  waiting
	yes   bool
	chart string
}

// NewCmdRelease turns a custom resource into a plain Helm release.
func NewCmdRelease(c *cluster) *cobra.Command {
	var o releaseOptions
	cmd := &cobra.Command{
		Use:   "release NAME | KIND/NAME",
		Short: "Turn a custom resource into a plain Helm release",
		Long: `Turn a custom resource into a plain Helm release, with which helm upgrade goes on. Its objects stay as they are, and no pod restarts; the custom
resource is deleted. Interrupted at any point, it can be run again.

The record of the release is a Secret, as Helm has it by default: you need the right to create one, and to patch the objects. It has the operator's chart and
the values of the custom resource, rendered as by kubectl welcome diff, if the status proves that this is what was applied.`,
		Example:           examples("kubectl welcome release hello\nhelm get values hello -o yaml > values.yaml\nhelm upgrade hello helm-charts/welcome -f values.yaml"),
		Args:              oneName,
		ValidArgsFunction: c.completeNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.release(cmd.Context(), o, args[0])
		},
	}
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "Do not ask")
	cmd.Flags().StringVar(&o.chart, "chart", "", "Where the operator's chart is, a directory or a package, if that is too large for the operator to publish it")
	cmd.Flags().DurationVar(&o.wait.timeout, "timeout", 5*time.Minute, "How long to wait for the operator")
	return cmd
}

// release continues from wherever an earlier run has stopped. First, Helm's record is written. Then the
// custom resource is deleted, and its objects stay. Then the operator's marks are removed from these, and
// last the label of this command from the record.
func (c *cluster) release(ctx context.Context, o releaseOptions, arg string) error {
	namespace, err := c.namespace()
	if err != nil {
		return err
	}
	core, err := c.core()
	if err != nil {
		return err
	}
	secrets := core.Secrets(namespace)
	obj, err := c.named(ctx, namespace, arg)
	switch {
	case apierrors.IsNotFound(err) && obj != nil:
		_, name := cutName(arg)
		obj.SetNamespace(namespace)
		obj.SetName(name)
		released, _, listErr := c.handedOver(ctx, secrets, obj)
		if listErr != nil {
			return listErr
		}
		if released == nil {
			return err
		}
		c.notef("%s is gone already; going on\n", arg)
	case err != nil:
		return err
	default:
		if err := c.handOver(ctx, o, secrets, obj); err != nil {
			return err
		}
	}
	rel, secret, err := c.finish(ctx, secrets, obj)
	if err != nil {
		return err
	}
	name := obj.GetName()
	c.printf("%s in %s is revision %d of a plain Helm release now (%s)\n", name, namespace, rel.Version, secret)
	c.notef("Next: helm get values %[1]s -n %[2]s -o yaml > values.yaml; helm upgrade %[1]s CHART -n %[2]s -f values.yaml\n", name, namespace)
	return nil
}

// handedOver is the record that an earlier run has made of a custom resource, nil if there is none, and the
// highest revision of the other records of that name. If the custom resource is gone, its UID is not known,
// and there may be only one such record.
func (c *cluster) handedOver(ctx context.Context, secrets corev1client.SecretInterface, obj *unstructured.Unstructured) (*corev1.Secret, int, error) {
	list, err := secrets.List(ctx, metav1.ListOptions{LabelSelector: "owner=helm,name=" + obj.GetName()})
	if err != nil {
		return nil, 0, fmt.Errorf("look for Helm releases of that name: %w", err)
	}
	var found *corev1.Secret
	highest := 0
	for i, secret := range list.Items {
		if from := secret.Labels[releasedFrom]; from != "" && (obj.GetUID() == "" || from == string(obj.GetUID())) {
			if found != nil {
				return nil, 0, fmt.Errorf("both of Secrets %s and %s say that they are the record of the release: delete the wrong one", found.Name, secret.Name)
			}
			found = &list.Items[i]
			continue
		}
		highest = max(highest, revisionOf(&secret))
	}
	return found, highest, nil
}

// handOver writes Helm's record, and deletes the custom resource without its objects.
func (c *cluster) handOver(ctx context.Context, o releaseOptions, secrets corev1client.SecretInterface, obj *unstructured.Unstructured) error {
	orphaned := obj.GetDeletionTimestamp() != nil && controllerutil.ContainsFinalizer(obj, metav1.FinalizerOrphanDependents)
	existing, _, err := c.handedOver(ctx, secrets, obj)
	if err != nil {
		return err
	}
	if obj.GetDeletionTimestamp() != nil {
		kept := orphaned
		if existing != nil && !kept { // an earlier run may have orphaned the objects already
			if kept, err = c.areKept(ctx, existing, obj); err != nil {
				return err
			}
		}
		switch {
		case !kept:
			return fmt.Errorf("%s is being deleted: too late to keep what it has made", label(obj))
		case existing == nil:
			return fmt.Errorf("somebody deletes %s, and leaves its objects: too late to make a release of them", label(obj))
		}
	} else {
		// Obstacles are found by dry runs, before anything is written.
		if err := c.recordFor(ctx, o, trialSecrets{secrets, map[string]bool{}}, obj); err != nil {
			return err
		}
		if err := c.orphan(ctx, obj, client.DryRunAll); err != nil {
			return err
		}
		if !o.yes {
			if err := c.confirm(fmt.Sprintf("Make a plain Helm release of %s in %s? Its objects stay as they are, and the custom resource goes.", label(obj), obj.GetNamespace())); err != nil {
				return err
			}
		}
		// Pause it, so that nothing changes any more: an upgrade would make the record wrong, and a repair
		// would put back the marks that are removed from the objects.
		if _, err := c.pause(ctx, obj, true); err != nil {
			return err
		}
		if err := c.handOverPaused(ctx, o, secrets, obj); err != nil {
			return fmt.Errorf("%w\n%s is paused. To go on, run it again. To go back: kubectl welcome resume %s", err, label(obj), typed(obj))
		}
	}
	return c.await(ctx, o.wait, func(ctx context.Context) (string, bool, error) {
		now := obj.DeepCopy()
		if err := c.reread(ctx, now); err != nil {
			return "", apierrors.IsNotFound(err), client.IgnoreNotFound(err)
		}
		if now.GetUID() != obj.GetUID() {
			return "", false, fmt.Errorf("somebody has made another %s, which takes over what this one leaves: see to it that nobody does (GitOps?); Helm's record goes by kubectl delete secret -n %s -l %s=%s",
				label(obj), obj.GetNamespace(), releasedFrom, obj.GetUID())
		}
		return fmt.Sprintf("Waiting %s at most (then run it again) for who takes the finalizers off %s: %s", o.wait.timeout, label(obj), strings.Join(whose(now.GetFinalizers()), ", ")), false, nil
	})
}

// whose are finalizers with who removes them.
func whose(finalizers []string) []string {
	known := map[string]string{status.Finalizer: " (the operator)", metav1.FinalizerOrphanDependents: " (Kubernetes' garbage collector, once the objects are nobody's)"}
	words := make([]string, len(finalizers))
	for i, finalizer := range finalizers {
		words[i] = finalizer + known[finalizer]
	}
	return words
}

// areKept is whether all objects of a record exist, and are no longer owned by owner. Objects that are
// deleted with it are either gone or still owned. Cluster-scoped ones never were owned by reference, so that
// they prove nothing.
func (c *cluster) areKept(ctx context.Context, secret *corev1.Secret, owner *unstructured.Unstructured) (bool, error) {
	_, objects, err := recorded(secret)
	if err != nil {
		return false, err
	}
	told := false
	for _, obj := range objects {
		live, err := c.liveOf(ctx, obj, owner.GetNamespace())
		if err != nil || live == nil || slices.ContainsFunc(live.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return ref.UID == owner.GetUID() }) {
			return false, err
		}
		told = told || live.GetNamespace() != ""
	}
	return told, nil
}

// recorded is the release in a Helm record, and its objects.
func recorded(secret *corev1.Secret) (*helmrelease.Release, []*unstructured.Unstructured, error) {
	rel, err := record.Decode(string(secret.Data["release"]), maxHelmRecord)
	if err != nil {
		return nil, nil, fmt.Errorf("read Secret %s: %w", secret.Name, err)
	}
	objects, err := manifestObjects(rel.Manifest)
	return rel, objects, err
}

// handOverPaused does what comes between the pause and the deletion.
func (c *cluster) handOverPaused(ctx context.Context, o releaseOptions, secrets corev1client.SecretInterface, obj *unstructured.Unstructured) error {
	if err := c.awaitPaused(ctx, o.wait, true, obj); err != nil {
		return fmt.Errorf("the operator does not say that it has paused %s: %w", label(obj), err)
	}
	if obj.GetDeletionTimestamp() != nil { // for which a pause is not waited
		return fmt.Errorf("somebody deletes %s meanwhile: too late to keep what it has made", label(obj))
	}
	if err := c.recordFor(ctx, o, secrets, obj); err != nil {
		return err
	}
	if err := c.orphan(ctx, obj); err != nil {
		return fmt.Errorf("%w\nHelm has a record of it already. To go back, first: kubectl delete secret -n %s -l %s=%s", err, obj.GetNamespace(), releasedFrom, obj.GetUID())
	}
	return nil
}

// orphan deletes a custom resource, and leaves its objects.
func (c *cluster) orphan(ctx context.Context, obj *unstructured.Unstructured, options ...client.DeleteOption) error {
	api, err := c.client()
	if err != nil {
		return err
	}
	return client.IgnoreNotFound(api.Delete(ctx, obj, append(options, client.PropagationPolicy(metav1.DeletePropagationOrphan), client.Preconditions{UID: new(obj.GetUID())})...))
}

// trialSecrets turns writes into dry runs: the API server says whether they would succeed.
type trialSecrets struct {
	corev1client.SecretInterface
	deleted map[string]bool
}

// Create creates a Secret by a dry run. That a Secret of this name exists is no error if it would have been
// deleted before.
func (t trialSecrets) Create(ctx context.Context, secret *corev1.Secret, options metav1.CreateOptions) (*corev1.Secret, error) {
	options.DryRun = []string{metav1.DryRunAll}
	made, err := t.SecretInterface.Create(ctx, secret, options)
	if apierrors.IsAlreadyExists(err) && t.deleted[secret.Name] {
		return secret, nil
	}
	return made, err
}

// Delete deletes a Secret by a dry run.
func (t trialSecrets) Delete(ctx context.Context, name string, options metav1.DeleteOptions) error {
	t.deleted[name] = true
	options.DryRun = []string{metav1.DryRunAll}
	return t.SecretInterface.Delete(ctx, name, options)
}

// appliedRelease is the release as the operator has applied it last. It is not read from the operator's
// record, a ConfigMap: whoever may edit that would choose what an admin's helm then trusts, the hooks of helm
// uninstall, for example. It is rendered anew from what the operator has published and from the custom
// resource, whose status proves that this is what was applied.
func (c *cluster) appliedRelease(ctx context.Context, o releaseOptions, obj *unstructured.Unstructured) (*helmrelease.Release, error) {
	if status.Of(obj).Release == nil {
		return nil, noRelease(obj)
	}
	var of diffOptions
	if o.chart != "" {
		of.charts = []string{o.chart}
	}
	servers, err := c.newServers(of)
	if err != nil {
		return nil, err
	}
	one := ask{name: obj, obj: obj}
	kind, err := servers.kindOf(ctx, one, []ask{one})
	if err != nil {
		return nil, fmt.Errorf("find out what the operator has applied: %w", err)
	}
	rel, err := kind.Applied(ctx, obj, kind.unknown)
	switch {
	case isNoRight(err):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("nothing proves what the operator has applied: %w. Where it is paused, kubectl welcome resume %[2]s; or kubectl welcome reconcile %[2]s --force; then try again", err, typed(obj))
	}
	now := helmtime.Now()
	rel.Version, rel.Info = int(status.Of(obj).Release.Revision), &helmrelease.Info{FirstDeployed: now, LastDeployed: now, Notes: rel.Info.Notes}
	return rel, nil
}

// recordFor writes a Helm record of what is applied, as a revision after all existing ones. It deletes the
// records that a stock operator has left, which Helm would take for older revisions of this release.
func (c *cluster) recordFor(ctx context.Context, o releaseOptions, secrets corev1client.SecretInterface, obj *unstructured.Unstructured) error {
	rel, err := c.appliedRelease(ctx, o, obj)
	if err != nil {
		return err
	}
	list, err := secrets.List(ctx, metav1.ListOptions{LabelSelector: "owner=helm,name=" + rel.Name})
	if err != nil {
		return fmt.Errorf("look for Helm releases of that name: %w", err)
	}
	for _, secret := range list.Items {
		if !metav1.IsControlledBy(&secret, obj) && secret.Labels[releasedFrom] != string(obj.GetUID()) {
			err := fmt.Errorf("there is a Helm release %s already (Secret %s), which is not of %s", rel.Name, secret.Name, label(obj))
			if from := secret.Labels[releasedFrom]; from != "" {
				err = fmt.Errorf("%w, but of one with the UID %s, whose kubectl welcome release has not come to its end. If that is gone: kubectl delete secret -n %s %s", err, from, obj.GetNamespace(), secret.Name)
			}
			return err
		}
	}
	existing, highest, err := c.handedOver(ctx, secrets, obj)
	if err != nil {
		return err
	}
	rel.Version, rel.Labels = max(highest, rel.Version)+1, map[string]string{releasedFrom: string(obj.GetUID())}
	rel.SetStatus(helmrelease.StatusDeployed, "Released by kubectl welcome")
	storage := driver.NewSecrets(secrets)
	if existing != nil { // by an earlier run; what is applied may have changed since
		err = secrets.Delete(ctx, existing.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(existing.UID))})
	}
	if client.IgnoreNotFound(err) == nil {
		err = storage.Create(record.NameOf(rel.Name, rel.Version), rel)
	}
	if err != nil {
		return fmt.Errorf("write the record of the Helm release: %w", err)
	}
	for _, secret := range list.Items {
		if object.ManagedBy().Matches(labels.Set(secret.Labels)) || secret.Labels[releasedFrom] != "" {
			continue // the operator's own records are deleted with the custom resource
		}
		if err := secrets.Delete(ctx, secret.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(secret.UID))}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete what a stock operator has left: %w", err)
		}
	}
	return nil
}

// finish removes the operator's marks from the objects of a release, and the label of this command from its
// record. The record may be forged.
func (c *cluster) finish(ctx context.Context, secrets corev1client.SecretInterface, owner *unstructured.Unstructured) (*helmrelease.Release, string, error) {
	secret, _, err := c.handedOver(ctx, secrets, owner)
	if err != nil {
		return nil, "", err
	}
	if secret == nil {
		return nil, "", fmt.Errorf("the record of the Helm release %s is gone: somebody has deleted it", owner.GetName())
	}
	rel, objects, err := recorded(secret)
	if err != nil {
		return nil, "", err
	}
	for _, obj := range objects {
		if err := c.unmark(ctx, obj, owner); err != nil {
			return nil, "", fmt.Errorf("take the operator's marks off %s %q (run it again): %w", obj.GetKind(), obj.GetName(), err)
		}
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": secret.UID, "labels": map[string]any{releasedFrom: nil}}})
	if err != nil {
		return nil, "", err
	}
	_, err = secrets.Patch(ctx, secret.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: string(fieldOwner)})
	return rel, "Secret " + secret.Name, err
}

// unmark removes the operator's marks from an object of owner's that nobody owns any more. Helm's marks stay.
func (c *cluster) unmark(ctx context.Context, obj, owner *unstructured.Unstructured) error {
	api, err := c.client()
	if err != nil {
		return err
	}
	live, err := c.liveOf(ctx, obj, owner.GetNamespace())
	if err != nil || live == nil {
		return err
	}
	if metav1.GetControllerOf(live) != nil || !object.ManagedBy().Matches(labels.Set(live.GetLabels())) || !object.SaysReleasedFrom(live, owner) {
		return nil // it is somebody else's, or unmarked already
	}
	before := live.DeepCopy()
	object.Disown(live)
	return client.IgnoreNotFound(api.Patch(ctx, live, client.MergeFrom(before), fieldOwner))
}
