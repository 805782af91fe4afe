package record

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// shaky fails to update with each of errs, and then does.
type shaky struct {
	corev1client.ConfigMapInterface
	errs []error
}

func (s *shaky) Update(_ context.Context, record *corev1.ConfigMap, _ metav1.UpdateOptions) (*corev1.ConfigMap, error) {
	if len(s.errs) > 0 {
		err := s.errs[0]
		s.errs = s.errs[1:]
		return nil, err
	}
	return record, nil
}

// cached is a cache that has one record.
type cached struct {
	client.Reader
	record *corev1.ConfigMap
}

func (c cached) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	c.record.DeepCopyInto(into.(*corev1.ConfigMap))
	return nil
}

func TestUpdateOutlastsAnOutage(t *testing.T) {
	record := recordOf(t, nil)
	record.ResourceVersion = "1"
	for name, c := range map[string]struct {
		errs []error
		ok   bool
	}{
		"an error of the API server": {[]error{apierrors.NewInternalError(errors.New("etcd: leader changed"))}, true},
		"no connection, twice":       {[]error{errors.New("connection refused"), errors.New("connection refused")}, true},
		"somebody else's":            {[]error{apierrors.NewConflict(corev1.Resource("configmaps"), "hello", errors.New("changed"))}, false},
	} {
		t.Run(name, func(t *testing.T) {
			store := NewStore(context.Background(), everywhere{configMaps: &shaky{errs: c.errs}}, cached{record: record}, nil, owner(), Options{Names: NamesPlain})
			if _, err := store.Update(context.Background(), record.DeepCopy(), metav1.UpdateOptions{}); (err == nil) != c.ok {
				t.Errorf("it ends with %v", err)
			}
		})
	}
}

// everywhere has the same ConfigMaps in every namespace.
type everywhere struct {
	corev1client.SecretsGetter
	configMaps corev1client.ConfigMapInterface
}

func (e everywhere) ConfigMaps(string) corev1client.ConfigMapInterface { return e.configMaps }
