package record

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// Uncached stands in for the cache of records where there is none: it asks live for their metadata, and for the
// same only once. Secrets are read whole, since the key of the digests is in their data.
func Uncached(live client.Reader) client.Reader {
	return &uncached{Reader: live, asked: map[string]*answer{}}
}

type uncached struct {
	client.Reader
	mu    sync.Mutex
	asked map[string]*answer
}

type answer struct {
	once       sync.Once
	configMaps []*corev1.ConfigMap
	secrets    []unstructured.Unstructured
	err        error
}

// List lists the records of a release, by the index of the cache.
func (u *uncached) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	o := client.ListOptions{}
	o.ApplyOptions(opts)
	release, _ := o.FieldSelector.RequiresExactMatch(releaseIndex)
	o.FieldSelector, o.UnsafeDisableDeepCopy = nil, nil
	secrets, isSecrets := list.(*unstructured.UnstructuredList)
	a := u.answer(o.Namespace + "/" + release + "/" + o.LabelSelector.String() + map[bool]string{true: " Secrets"}[isSecrets])
	a.once.Do(func() {
		if isSecrets {
			a.secrets, a.err = u.secrets(ctx, release, o)
		} else {
			a.configMaps, a.err = u.configMaps(ctx, release, o)
		}
	})
	if isSecrets {
		secrets.Items = append(secrets.Items, a.secrets...)
		return a.err
	}
	configMaps := list.(*corev1.ConfigMapList) // a store asks for nothing else
	for _, item := range a.configMaps {
		configMaps.Items = append(configMaps.Items, *item.DeepCopy())
	}
	return a.err
}

func (u *uncached) answer(to string) *answer {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.asked[to] == nil {
		u.asked[to] = &answer{}
	}
	return u.asked[to]
}

func (u *uncached) configMaps(ctx context.Context, release string, o client.ListOptions) (found []*corev1.ConfigMap, err error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	if err := u.Reader.List(ctx, list, &o); err != nil {
		return nil, err
	}
	for i := range list.Items {
		if item := &list.Items[i]; releaseOf(item.Name) == release {
			found = append(found, slim(item))
		}
	}
	return found, nil
}

func (u *uncached) secrets(ctx context.Context, release string, o client.ListOptions) (found []unstructured.Unstructured, err error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(object.Secret.GroupVersion().WithKind("SecretList"))
	o.FieldSelector = fields.OneTermEqualSelector("type", SecretType)
	if err := u.Reader.List(object.Quietly(ctx), list, &o); err != nil {
		return nil, err
	}
	for i := range list.Items {
		if releaseOf(list.Items[i].GetName()) == release {
			record, err := SlimSecret(&list.Items[i])
			if err != nil {
				return nil, err
			}
			found = append(found, *record)
		}
	}
	return found, nil
}
