package record

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"demo.welcome.domain/welcome-operator/internal/object"
)

const (
	// keyOfDigests is where a record that is a Secret has the key of its digests: in its data, since
	// annotations are shown to people who may not see values.
	keyOfDigests = "key"
	// SecretType is Helm's.
	SecretType = "helm.sh/release.v1"
)

// SlimSecret is Slim for Secrets. It returns nil for a Secret that is no record, which others slim.
func SlimSecret(secret *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if releaseOf(secret.GetName()) == "" {
		return nil, nil
	}
	slim := asSecret(slim(secret))
	if key, _, _ := unstructured.NestedString(secret.Object, "data", keyOfDigests); key != "" && len(key) <= 2*object.KeyLength {
		slim.Object["data"] = map[string]any{keyOfDigests: key}
	}
	_, err := object.Share(slim)
	return slim, err
}

// inSecrets stores records in Secrets, as Helm's own Secret driver does, behind the interface of ConfigMaps, so
// that Helm's ConfigMap driver, which is otherwise the same, serves for both.
type inSecrets struct {
	corev1client.ConfigMapInterface // nobody calls what is not overridden
	secrets                         corev1client.SecretInterface
}

// Get reads a record.
func (s inSecrets) Get(ctx context.Context, name string, opts metav1.GetOptions) (*corev1.ConfigMap, error) {
	return asConfigMap(s.secrets.Get(object.Quietly(ctx), name, opts))
}

// Create makes a record.
func (s inSecrets) Create(ctx context.Context, record *corev1.ConfigMap, opts metav1.CreateOptions) (*corev1.ConfigMap, error) {
	return asConfigMap(s.secrets.Create(object.Quietly(ctx), typedSecret(record), opts))
}

// Update writes a record.
func (s inSecrets) Update(ctx context.Context, record *corev1.ConfigMap, opts metav1.UpdateOptions) (*corev1.ConfigMap, error) {
	return asConfigMap(s.secrets.Update(object.Quietly(ctx), typedSecret(record), opts))
}

// Patch changes a record.
func (s inSecrets) Patch(ctx context.Context, name string, patchType types.PatchType, patch []byte, opts metav1.PatchOptions, subresources ...string) (*corev1.ConfigMap, error) {
	return asConfigMap(s.secrets.Patch(object.Quietly(ctx), name, patchType, patch, opts, subresources...))
}

// Delete deletes a record.
func (s inSecrets) Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error {
	return object.Discreet(s.secrets.Delete(object.Quietly(ctx), name, opts))
}

func typedSecret(record *corev1.ConfigMap) *corev1.Secret {
	secret := &corev1.Secret{ObjectMeta: record.ObjectMeta, Type: SecretType, Data: map[string][]byte{}}
	for key, text := range record.Data {
		secret.Data[key] = []byte(text)
	}
	return secret
}

func asConfigMap(secret *corev1.Secret, err error) (*corev1.ConfigMap, error) {
	if err != nil {
		return nil, object.Discreet(err)
	}
	record := &corev1.ConfigMap{ObjectMeta: secret.ObjectMeta, Immutable: secret.Immutable, Data: map[string]string{}}
	for key, text := range secret.Data {
		record.Data[key] = string(text)
	}
	return record, nil
}

// asSecret converts the metadata of a record for the cache, and ofSecret converts it back, with the key.
func asSecret(record *corev1.ConfigMap) *unstructured.Unstructured {
	secret := object.Empty(object.Secret)
	metadata, _ := runtime.DefaultUnstructuredConverter.ToUnstructured(&record.ObjectMeta) // texts
	secret.Object["metadata"] = metadata
	return secret
}

func ofSecret(cached *unstructured.Unstructured) (*corev1.ConfigMap, error) {
	secret := &corev1.Secret{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(cached.Object, secret); err != nil {
		return nil, fmt.Errorf("read release record %s: %w", cached.GetName(), err)
	}
	return asConfigMap(secret, nil)
}

// Move moves the owner's records from ConfigMaps into Secrets, once its kind may have Secrets. All are copied
// before the first is deleted, so that an interrupted move can go on. moved is whether the status knows of a
// record in a Secret: records in ConfigMaps are then old, or of somebody who cannot write Secrets.
func (r *Store) Move(ctx context.Context, moved bool, key object.Key) error {
	records, err := r.earlier.cached(ctx, labels.Everything())
	if err != nil || len(records) == 0 {
		return err
	}
	slices.Reverse(records) // the newest one comes last: it decides what is done about the release
	for _, record := range records {
		if moved {
			break
		}
		if err := r.copyEarlier(ctx, record.Name, key); err != nil {
			return fmt.Errorf("move release record %s into a Secret: %w", record.Name, err)
		}
	}
	return r.earlier.RemoveOwned(ctx)
}

func (r *Store) copyEarlier(ctx context.Context, name string, key object.Key) error {
	if _, err := r.cachedRecord(ctx, name); !apierrors.IsNotFound(err) {
		return err
	}
	whole, err := r.earlier.ConfigMapInterface.Get(object.Quietly(ctx), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && !r.isOwned(whole) {
		return nil // the cache is behind
	}
	if err != nil {
		return err
	}
	// Nothing else is copied: whoever can write ConfigMaps could have a Secret made with labels that some
	// controller obeys.
	known := slim(whole)
	for _, label := range []string{"version", "createdAt", "modifiedAt"} {
		known.Labels[label] = whole.Labels[label]
	}
	copied := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: known.Labels, Annotations: known.Annotations},
		Data:       map[string]string{"release": whole.Data["release"], keyOfDigests: string(key)},
	}
	r.adopt(copied)
	written, err := r.ConfigMapInterface.Create(ctx, copied, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return r.inTheWay(ctx, name)
	}
	good := r.checkOwned
	if r.labelled().Matches(labels.Set(known.Labels)) { // somebody may have taken them off the one before
		good = r.checkFound
	}
	if err == nil {
		err = r.removeUnless(ctx, good, written)
	}
	if err != nil {
		return err
	}
	return r.awaitCached(ctx, written)
}
