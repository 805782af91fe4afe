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

// shaky fails to update with each of errs, and then does. Meanwhile, the record has become live.
type shaky struct {
	corev1client.ConfigMapInterface
	errs []error
	live *corev1.ConfigMap
}

func (s *shaky) Get(context.Context, string, metav1.GetOptions) (*corev1.ConfigMap, error) {
	return s.live, nil
}

func (s *shaky) Update(_ context.Context, record *corev1.ConfigMap, _ metav1.UpdateOptions) (*corev1.ConfigMap, error) {
	if len(s.errs) > 0 {
		err := s.errs[0]
		s.errs = s.errs[1:]
		return nil, err
	}
	if s.live != nil && record.ResourceVersion != s.live.ResourceVersion {
		return nil, apierrors.NewConflict(corev1.Resource("configmaps"), record.Name, errors.New("changed"))
	}
	written := record.DeepCopy()
	written.ResourceVersion = "1" // the cache shows it at once
	return written, nil
}

func (s *shaky) Create(_ context.Context, record *corev1.ConfigMap, _ metav1.CreateOptions) (*corev1.ConfigMap, error) {
	written := record.DeepCopy()
	written.ResourceVersion = "1"
	return written, nil
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

// A new record says from the beginning what it was made from, and by whom: an operator that is killed right
// after it leaves it to the next one.
func TestNewRecordIsStamped(t *testing.T) {
	record := recordOf(t, nil)
	record.Labels["name"], record.Labels["owner"] = "hello", "helm"
	there := record.DeepCopy()
	there.ResourceVersion = "1"
	store := NewStore(context.Background(), everywhere{configMaps: &shaky{}}, cached{record: there}, nil, owner(), Options{Names: NamesPlain}).
		Stamping(func() Record { return Record{Inputs: "digest", Operator: "mine"} })
	written, err := store.Create(context.Background(), record, metav1.CreateOptions{})
	if err != nil || written.Annotations[inputsAnnotation] != "digest" || written.Annotations[operatorAnnotation] != "mine" || !store.HasCreated() {
		t.Errorf("it has %v: %v", written.GetAnnotations(), err)
	}
}

func TestUpdateOutlastsAnOutage(t *testing.T) {
	record := recordOf(t, nil)
	record.ResourceVersion, record.Labels["status"] = "1", "pending-upgrade"
	since := func(status string) *corev1.ConfigMap {
		live := record.DeepCopy()
		live.ResourceVersion, live.Labels["status"] = "2", status
		return live
	}
	for name, c := range map[string]struct {
		errs []error
		live *corev1.ConfigMap
		ok   bool
	}{
		"an error of the API server":   {errs: []error{apierrors.NewInternalError(errors.New("etcd: leader changed"))}, ok: true},
		"no connection, twice":         {errs: []error{errors.New("connection refused"), errors.New("connection refused")}, ok: true},
		"somebody has annotated it":    {live: since("pending-upgrade"), ok: true},
		"it was written, unnoticed":    {errs: []error{errors.New("connection reset")}, live: since("deployed"), ok: true},
		"another operator has gone on": {live: since("superseded")},
	} {
		t.Run(name, func(t *testing.T) {
			store := NewStore(context.Background(), everywhere{configMaps: &shaky{errs: c.errs, live: c.live}}, cached{record: record}, nil, owner(), Options{Names: NamesPlain})
			written := record.DeepCopy()
			written.Labels["status"] = "deployed"
			if _, err := store.Update(context.Background(), written, metav1.UpdateOptions{}); (err == nil) != c.ok {
				t.Errorf("it ends with %v", err)
			}
		})
	}
}

// Helm goes on where the revision before could not be marked as superseded: the new one then stays pending,
// as if its action had been interrupted.
func TestNoSecondRevisionIsDeployed(t *testing.T) {
	before := recordOf(t, nil)
	before.ResourceVersion, before.Labels["status"] = "1", "superseded"
	outage := []error{errors.New("no"), errors.New("no"), errors.New("no"), errors.New("no")}
	store := NewStore(context.Background(), everywhere{configMaps: &shaky{errs: outage}}, cached{record: before}, nil, owner(), Options{Names: NamesPlain})
	store.created = "sh.helm.release.v1.hello.v4"
	if _, err := store.Update(context.Background(), before, metav1.UpdateOptions{}); err == nil {
		t.Fatal("the API server is there")
	}
	for status, ok := range map[string]bool{"deployed": false, "failed": true} {
		created := before.DeepCopy()
		created.Name, created.Labels["status"] = store.created, status
		if _, err := store.Update(context.Background(), created, metav1.UpdateOptions{}); (err == nil) != ok {
			t.Errorf("%s: %v", status, err)
		}
	}
}

// everywhere has the same ConfigMaps in every namespace.
type everywhere struct {
	corev1client.SecretsGetter
	configMaps corev1client.ConfigMapInterface
}

func (e everywhere) ConfigMaps(string) corev1client.ConfigMapInterface { return e.configMaps }
