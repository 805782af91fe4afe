package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	helmrelease "helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/releaseutil"
	"helm.sh/helm/v3/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/yaml"

	"demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/internal/record"
	"demo.welcome.domain/welcome-operator/internal/status"
)

// releasedFrom is the label of a record of Helm's, with the UID of the custom resource that it was, until all is done. Helm keeps such labels beside a release.
const releasedFrom = "webapp.demo.welcome.domain/released-from"

// NewCmdRelease makes a plain Helm release of a custom resource.
func NewCmdRelease(c *cluster) *cobra.Command {
	var yes bool
	w := waiting{wanted: true}
	cmd := &cobra.Command{
		Use:   "release NAME | KIND/NAME",
		Short: "Make a plain Helm release of a custom resource",
		Long: `Make a plain Helm release of a custom resource, with which helm upgrade goes on. Its objects stay as they are, and no pod starts anew; the custom
resource goes. Interrupted at any point, it can be run again.

The record of the release is a Secret, as Helm has it by default: it takes the right to create one, and to patch the objects.`,
		Example:           examples("kubectl welcome release hello\nhelm get values hello > values.yaml\nhelm upgrade hello helm-charts/welcome -f values.yaml"),
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: c.completeNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.release(cmd.Context(), w, args[0], yes)
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "Do not ask")
	cmd.Flags().DurationVar(&w.timeout, "timeout", 5*time.Minute, "How long to wait for the operator")
	return cmd
}

// confirm asks the caller.
func (c *cluster) confirm(question string) error {
	c.notef("%s [y/N] ", question)
	answer, _ := bufio.NewReader(c.In).ReadString('\n')
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return errors.New("nothing was done (--yes does not ask)")
	}
	return nil
}

// release goes on from wherever an earlier run has come: first there is Helm's record, then the custom resource goes and leaves its objects, then these lose the
// operator's marks, and at last the record that of this command.
func (c *cluster) release(ctx context.Context, w waiting, arg string, yes bool) error {
	namespace, err := c.namespace()
	if err != nil {
		return err
	}
	config, err := c.flags.ToRESTConfig()
	if err != nil {
		return err
	}
	core, err := corev1client.NewForConfig(config)
	if err != nil {
		return err
	}
	secrets := core.Secrets(namespace)
	_, name, hasKind := strings.Cut(arg, "/")
	if !hasKind {
		name = arg
	}
	obj, err := c.named(ctx, namespace, arg)
	switch {
	case apierrors.IsNotFound(err):
		if released, _ := c.handed(ctx, secrets, name, ""); released == nil {
			return err
		}
		c.notef("%s is gone already; going on\n", arg)
	case err != nil:
		return err
	default:
		if err := c.hand(ctx, w, secrets, obj, yes); err != nil {
			return err
		}
	}
	rel, secret, err := c.finish(ctx, secrets, name)
	if err != nil {
		return err
	}
	c.printf("%s in %s is revision %d of a plain Helm release now (%s)\n", name, namespace, rel.Version, secret)
	c.notef("Next: helm get values %[1]s -n %[2]s > values.yaml; helm upgrade %[1]s CHART -n %[2]s -f values.yaml\n", name, namespace)
	return nil
}

// handed is the record that an earlier run has made of a custom resource, or of any if uid is empty, nil if there is none, and the highest revision of that name.
func (c *cluster) handed(ctx context.Context, secrets corev1client.SecretInterface, name string, uid types.UID) (*corev1.Secret, int) {
	list, err := secrets.List(ctx, metav1.ListOptions{LabelSelector: "owner=helm,name=" + name})
	if err != nil {
		return nil, 0
	}
	var found *corev1.Secret
	highest := 0
	for i, secret := range list.Items {
		if from := secret.Labels[releasedFrom]; from != "" && (uid == "" || from == string(uid)) {
			found = &list.Items[i]
			continue
		}
		var revision int
		_, _ = fmt.Sscan(secret.Labels["version"], &revision) // 0, if it is none
		highest = max(highest, revision)
	}
	return found, highest
}

// hand writes Helm's record, and lets the custom resource go.
func (c *cluster) hand(ctx context.Context, w waiting, secrets corev1client.SecretInterface, obj *unstructured.Unstructured, yes bool) error {
	orphaned := obj.GetDeletionTimestamp() != nil && controllerutil.ContainsFinalizer(obj, metav1.FinalizerOrphanDependents)
	existing, _ := c.handed(ctx, secrets, obj.GetName(), obj.GetUID())
	if obj.GetDeletionTimestamp() != nil && (!orphaned || existing == nil) {
		return fmt.Errorf("%s is being deleted: too late to keep what it has made", label(obj))
	}
	if !orphaned {
		if _, err := c.appliedRelease(ctx, obj); err != nil {
			return err
		}
		if !yes {
			if err := c.confirm(fmt.Sprintf("Make a plain Helm release of %s in %s? Its objects stay as they are, and the custom resource goes.", label(obj), obj.GetNamespace())); err != nil {
				return err
			}
		}
		// Nothing is to change any more: neither what is recorded, nor by a repair what is taken off the objects.
		if _, err := c.pause(ctx, obj, true); err != nil {
			return err
		}
		if err := c.awaitPaused(ctx, w, obj, true); err != nil {
			return fmt.Errorf("the operator does not say that it has paused %s; does it run? kubectl welcome doctor: %w", label(obj), err)
		}
		if err := c.recordFor(ctx, secrets, obj); err != nil {
			return err
		}
		api, err := c.client()
		if err != nil {
			return err
		}
		uid := obj.GetUID()
		err = api.Delete(ctx, obj, client.PropagationPolicy(metav1.DeletePropagationOrphan), client.Preconditions{UID: &uid})
		if client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	uid := obj.GetUID()
	return c.await(ctx, w, func(ctx context.Context) (string, bool, error) {
		err := c.again(ctx, obj)
		return label(obj) + " goes, and leaves its objects", apierrors.IsNotFound(err) || err == nil && obj.GetUID() != uid, client.IgnoreNotFound(err)
	})
}

// appliedRelease is the release as the operator has applied it last: only what the status proves is taken from a record.
func (c *cluster) appliedRelease(ctx context.Context, obj *unstructured.Unstructured) (*helmrelease.Release, error) {
	of := status.Of(obj).Release
	if of == nil {
		return nil, fmt.Errorf("%s has no release yet: kubectl welcome status %s", label(obj), typed(obj))
	}
	kind := recordKind(of)
	stored := &unstructured.Unstructured{}
	stored.SetGroupVersionKind(kind)
	api, err := c.client()
	if err != nil {
		return nil, err
	}
	key := client.ObjectKey{Namespace: obj.GetNamespace(), Name: fmt.Sprintf("sh.helm.release.v1.%s.v%d", of.Name, of.Revision)}
	if err := api.Get(ctx, key, stored); err != nil {
		return nil, fmt.Errorf("read the release record: %w", err)
	}
	data, _, _ := unstructured.NestedString(stored.Object, "data", "release")
	proof := object.Plain
	if kind == object.Secret {
		text, err := base64.StdEncoding.DecodeString(data)
		if err != nil {
			return nil, fmt.Errorf("read %s %s: %w", kind.Kind, key.Name, err)
		}
		data = string(text)
		sealed, _, _ := unstructured.NestedString(stored.Object, "data", "key")
		text, _ = base64.StdEncoding.DecodeString(sealed)
		proof = object.Key(text)
	}
	rel, err := record.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("read %s %s: %w", kind.Kind, key.Name, err)
	}
	if !metav1.IsControlledBy(stored, obj) || !proof.Proves(of.Digest, rel.Manifest) {
		return nil, fmt.Errorf("%s %s is not what the operator has applied: kubectl welcome reconcile %s --force", kind.Kind, key.Name, typed(obj))
	}
	if rel.Info == nil || rel.Chart == nil {
		return nil, fmt.Errorf("%s %s is not whole: kubectl welcome reconcile %s --force", kind.Kind, key.Name, typed(obj))
	}
	rel.Name, rel.Namespace = obj.GetName(), obj.GetNamespace()
	return rel, nil
}

// recordFor writes Helm's record of what is applied, after all revisions that there are, and takes those away that a stock operator has left, or they would be older revisions of it.
func (c *cluster) recordFor(ctx context.Context, secrets corev1client.SecretInterface, obj *unstructured.Unstructured) error {
	rel, err := c.appliedRelease(ctx, obj)
	if err != nil {
		return err
	}
	list, err := secrets.List(ctx, metav1.ListOptions{LabelSelector: "owner=helm,name=" + rel.Name})
	if err != nil {
		return fmt.Errorf("look for Helm releases of that name: %w", err)
	}
	for _, secret := range list.Items {
		if !metav1.IsControlledBy(&secret, obj) && secret.Labels[releasedFrom] != string(obj.GetUID()) {
			return fmt.Errorf("there is a Helm release %s already (Secret %s), which is not of %s", rel.Name, secret.Name, label(obj))
		}
	}
	existing, highest := c.handed(ctx, secrets, rel.Name, obj.GetUID())
	rel.Version, rel.Labels = max(highest, rel.Version)+1, map[string]string{releasedFrom: string(obj.GetUID())}
	rel.SetStatus(helmrelease.StatusDeployed, "Released by kubectl welcome")
	storage := driver.NewSecrets(secrets)
	if existing != nil { // of an earlier run: what is applied may be something else by now
		err = secrets.Delete(ctx, existing.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(existing.UID))})
	}
	if client.IgnoreNotFound(err) == nil {
		err = storage.Create(fmt.Sprintf("sh.helm.release.v1.%s.v%d", rel.Name, rel.Version), rel)
	}
	if err != nil {
		return fmt.Errorf("write the record of the Helm release: %w", err)
	}
	for _, secret := range list.Items {
		if object.ManagedBy().Matches(labels.Set(secret.Labels)) || secret.Labels[releasedFrom] != "" {
			continue // the operator's own go with the custom resource
		}
		if err := secrets.Delete(ctx, secret.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(secret.UID))}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete what a stock operator has left: %w", err)
		}
	}
	return nil
}

// finish takes the operator's marks off the objects of a release, and that of this command off its record.
func (c *cluster) finish(ctx context.Context, secrets corev1client.SecretInterface, name string) (*helmrelease.Release, string, error) {
	secret, _ := c.handed(ctx, secrets, name, "")
	if secret == nil {
		return nil, "", fmt.Errorf("the record of the Helm release %s is gone: somebody has deleted it", name)
	}
	rel, err := record.Decode(string(secret.Data["release"]))
	if err != nil {
		return nil, "", fmt.Errorf("read Secret %s: %w", secret.Name, err)
	}
	manifests := releaseutil.SplitManifests(rel.Manifest)
	for _, key := range slices.Sorted(maps.Keys(manifests)) {
		obj := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(manifests[key]), &obj.Object); err != nil {
			return nil, "", fmt.Errorf("read the manifest: %w", err)
		}
		if len(obj.Object) == 0 {
			continue
		}
		if err := c.unmark(ctx, obj, rel.Namespace); err != nil {
			return nil, "", fmt.Errorf("take the operator's marks off %s %q (run it again): %w", obj.GetKind(), obj.GetName(), err)
		}
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": secret.UID, "labels": map[string]any{releasedFrom: nil}}})
	if err != nil {
		return nil, "", err
	}
	_, err = secrets.Patch(ctx, secret.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "kubectl-welcome"})
	return rel, "Secret " + secret.Name, err
}

// unmark takes the marks of the operator off an object that nobody owns any more. Those of Helm it has.
func (c *cluster) unmark(ctx context.Context, obj *unstructured.Unstructured, namespace string) error {
	mapper, err := c.flags.ToRESTMapper()
	if err != nil {
		return err
	}
	api, err := c.client()
	if err != nil {
		return err
	}
	kind, err := mapper.RESTMapping(obj.GroupVersionKind().GroupKind(), obj.GroupVersionKind().Version)
	if err != nil {
		return err
	}
	key := client.ObjectKey{Name: obj.GetName()}
	if kind.Scope.Name() == "namespace" {
		key.Namespace = cmp.Or(obj.GetNamespace(), namespace)
	}
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(obj.GroupVersionKind())
	if err := api.Get(ctx, key, live); err != nil {
		return client.IgnoreNotFound(err)
	}
	if metav1.GetControllerOf(live) != nil || !object.ManagedBy().Matches(labels.Set(live.GetLabels())) {
		return nil // somebody else's by now, or done
	}
	before := live.DeepCopy()
	object.Disown(live)
	return client.IgnoreNotFound(api.Patch(ctx, live, client.MergeFrom(before), client.FieldOwner("kubectl-welcome")))
}
