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
	// keyOfDigests has, in the data of a record that is a Secret, the key of its digests. It is no annotation: those are shown to people who may not see values.
	keyOfDigests = "key"
	// SecretType is Helm's.
	SecretType = "helm.sh/release.v1"
)

// SlimSecret is Slim for Secrets. What is no record is for others to slim: it returns nil.
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

// inSecrets has records be Secrets, as Helm's own driver for those makes them, for who knows them as ConfigMaps: Helm's driver for these, which does the
// same otherwise.
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

// asSecret is the metadata of a record for the cache, and ofSecret is it again, with the key.
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

// Move has the records that the owner has in ConfigMaps be Secrets: its kind has Secrets since a short while ago. They are copied before the first
// of them is deleted, so that this goes on where it was interrupted. moved is whether the custom resource's status knows of a record in a Secret: what is
// in ConfigMaps then is old, or somebody's who cannot write Secrets.
func (r *Store) Move(ctx context.Context, moved bool, key object.Key) error {
	records, err := r.earlier.cached(ctx, labels.Everything())
	if err != nil || len(records) == 0 {
		return err
	}
	slices.Reverse(records) // the newest one is the last: it decides what is done about the release
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
	// Nothing else: who can write ConfigMaps would have a Secret with labels that somebody else obeys.
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
	if err != nil {
		return err
	}
	return r.awaitCached(ctx, written)
}
