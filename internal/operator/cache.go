package operator

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/internal/record"
	"demo.welcome.domain/welcome-operator/internal/release"
)

// cacheOptions has the cache hold the custom resources and, of all other kinds, only what the operator made.
func cacheOptions(entries []Entry, namespaces []string) cache.Options {
	ignored := object.IgnoredByKind{}
	for _, entry := range entries {
		ignored[entry.GroupKind()] = entry.DriftDetection.ignored
	}
	options := cache.Options{
		DefaultLabelSelector: object.ManagedBy(),
		DefaultTransform:     ignored.Slim,
		ByObject: map[client.Object]cache.ByObject{&corev1.ConfigMap{}: {Transform: func(config any) (any, error) {
			if _, untyped := config.(*unstructured.Unstructured); untyped { // what a chart makes, and not a record
				return ignored.Slim(config)
			}
			return record.Slim(config)
		}}},
		// A read must not start a watch by itself: it could be of any kind that a forged release record names,
		// and would wait for ever where rights are missing.
		ReaderFailOnMissingInformer: true,
		NewInformer:                 newInformer,
		DefaultWatchErrorHandler:    watchFailed,
	}
	if haveSecrets(entries) {
		options.ByObject[&corev1.Secret{}] = cache.ByObject{Transform: func(secret any) (any, error) {
			if secret, untyped := secret.(*unstructured.Unstructured); untyped {
				if slim, err := record.SlimSecret(secret); slim != nil {
					return slim, err
				}
			}
			return ignored.Slim(secret)
		}}
	}
	for _, entry := range entries {
		options.ByObject[object.Empty(entry.GroupVersionKind)] = cache.ByObject{
			Label:     labels.Everything(),
			Transform: func(owner any) (any, error) { return slimOwner(owner, ignored) },
		}
	}
	if len(namespaces) > 0 {
		options.DefaultNamespaces = map[string]cache.Config{}
		for _, namespace := range namespaces {
			options.DefaultNamespaces[namespace] = cache.Config{}
		}
	}
	return options
}

// promptCache answers at once for a kind whose objects are still being read, as if it was not watched: to read
// many takes minutes, and never ends if the API server stops in between.
type promptCache struct {
	cache.Cache
	base []client.Object
}

// base has an object of each kind without which nothing can be done.
func base(entries []Entry) []client.Object {
	kinds := []client.Object{&corev1.ConfigMap{}}
	if haveSecrets(entries) {
		kinds = append(kinds, object.Empty(object.Secret))
	}
	for _, entry := range entries {
		kinds = append(kinds, object.Empty(entry.GroupVersionKind))
	}
	return kinds
}

// WaitForCacheSync waits only for the kinds of base. Controllers call this before they start, and
// controller-runtime's waits for every kind that anybody has begun to read.
func (c promptCache) WaitForCacheSync(ctx context.Context) bool {
	informers := make([]cache.Informer, len(c.base)) // asked for once: of several namespaces, each takes a goroutine until it has synced
	return wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		for i, kind := range c.base {
			if informers[i] == nil {
				informers[i], _ = c.GetInformer(ctx, kind, cache.BlockUntilSynced(false)) // an error if the API server is away for a moment
			}
			if informers[i] == nil || !informers[i].HasSynced() {
				return false, nil
			}
		}
		return true, nil
	}) == nil
}

// cachePatience bounds a read of the cache, which answers at once unless it is still being filled.
const cachePatience = 100 * time.Millisecond

// Get fails as for an uncached kind while that is still being read. The object is a whole copy.
func (c promptCache) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	patient, cancel := context.WithTimeout(ctx, cachePatience)
	defer cancel()
	err := c.Cache.Get(patient, key, obj, opts...)
	if apierrors.IsTimeout(err) && ctx.Err() == nil {
		return &cache.ErrResourceNotCached{GVK: obj.GetObjectKind().GroupVersionKind()}
	}
	options := client.GetOptions{}
	options.ApplyOptions(opts)
	if copied, untyped := obj.(*unstructured.Unstructured); untyped && err == nil && !ptr.Deref(options.UnsafeDisableDeepCopy, false) {
		*copied = *object.Unpack(copied)
	}
	return err
}

// slimOwner keeps a custom resource, packed, without its managed fields and the annotations that nobody reads.
// It may be another one's child, too, and is marked as such.
func slimOwner(whole any, ignored object.IgnoredByKind) (any, error) {
	owner, ok := whole.(*unstructured.Unstructured)
	if !ok || object.IsPacked(owner) {
		return whole, nil
	}
	annotations := ignored.Marks(owner) // mostly nil: an empty map would be kept, too, by each custom resource
	for _, read := range []string{release.RunTests, release.AskReconcile} {
		if asked := owner.GetAnnotations()[read]; asked != "" {
			annotations = labels.Merge(annotations, map[string]string{read: object.Cut(asked, release.MaxRequest)})
		}
	}
	for _, option := range slices.Concat(release.StockAnnotations, []string{release.Pause, release.WithoutHooks}) {
		if value, set := owner.GetAnnotations()[option]; set {
			annotations = labels.Merge(annotations, map[string]string{option: object.Cut(value, release.MaxStockAnnotation)})
		}
	}
	owner.SetAnnotations(annotations)
	return object.Pack(owner)
}

// newInformer gives the library the watch on Secrets that it insists on, without a Secret:
// release records are ConfigMaps, and the operator has no right on any Secret. Where an entry
// may have Secrets, they are watched as all that charts make, untyped, and this watch would be a second one.
func newInformer(source toolscache.ListerWatcher, object runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	if _, ok := object.(*corev1.Secret); ok {
		source = noSecrets{}
	}
	return toolscache.NewSharedIndexInformer(source, object, resync, indexers)
}

// watchFailed counts the errors of watches. Once a cache is filled, nothing else shows these: it goes on
// answering with what it had.
func watchFailed(ctx context.Context, r *toolscache.Reflector, err error) {
	if failsWatch(err) {
		watchErrors.WithLabelValues(watchedKind(r.TypeDescription())).Inc()
	}
	toolscache.DefaultWatchErrorHandler(ctx, r, err)
}

// failsWatch is whether an error is a failure of a watch, and not the usual end of one.
func failsWatch(err error) bool {
	return !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err)
}

// watchedKind is the kind in the type description of a reflector: "apps/v1, Kind=Deployment", or
// "*v1.ConfigMap".
func watchedKind(description string) string {
	return description[strings.LastIndexAny(description, "=.")+1:]
}

type noSecrets struct{}

func (noSecrets) List(metav1.ListOptions) (runtime.Object, error) { return &corev1.SecretList{}, nil }

func (noSecrets) Watch(metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil }

// IsWatchListSemanticsUnSupported keeps client-go from waiting for a streamed list, which
// would hold back every worker.
func (noSecrets) IsWatchListSemanticsUnSupported() bool { return true }
