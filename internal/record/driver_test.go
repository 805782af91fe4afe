package record

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"maps"
	"reflect"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// noted notes what is written to it.
type noted struct {
	corev1client.ConfigMapInterface
	written *corev1.ConfigMap
}

func (n *noted) Create(_ context.Context, record *corev1.ConfigMap, _ metav1.CreateOptions) (*corev1.ConfigMap, error) {
	n.written = record.DeepCopy()
	n.written.ResourceVersion = "1"
	return n.written, nil
}

func (n *noted) Update(ctx context.Context, record *corev1.ConfigMap, _ metav1.UpdateOptions) (*corev1.ConfigMap, error) {
	return n.Create(ctx, record, metav1.CreateOptions{})
}

func (n *noted) Get(context.Context, string, metav1.GetOptions) (*corev1.ConfigMap, error) {
	return n.written, nil
}

// Whatever Helm's driver puts into a record, ours does, but for the files of the chart.
func TestRecordsAreAsHelmWritesThem(t *testing.T) {
	rel := &release.Release{
		Name: "hello", Namespace: "test", Version: 3, Manifest: "kind: ConfigMap", Config: map[string]any{"greet": "you"}, Labels: map[string]string{"team": "a"},
		Info: &release.Info{Status: release.StatusDeployed, Notes: "Open it."},
		Chart: &chart.Chart{Metadata: &chart.Metadata{Name: "welcome", Version: "1.0.0"}, Values: map[string]any{"greet": "all"},
			Templates: []*chart.File{{Name: "a", Data: []byte("b")}}},
	}
	const key = "sh.helm.release.v1.hello.v3"
	helms, ours := &noted{}, &noted{}
	slim := *rel
	slim.Chart = &chart.Chart{Metadata: rel.Chart.Metadata, Values: rel.Chart.Values}
	there := recordOf(t, nil)
	there.ResourceVersion = "1"
	store := NewStore(context.Background(), everywhere{configMaps: ours}, cached{record: there}, nil, owner(), Options{Names: NamesPlain})
	for name, write := range map[string]func(d driver.Driver, rel *release.Release) error{
		"create": func(d driver.Driver, rel *release.Release) error { return d.Create(key, rel) },
		"update": func(d driver.Driver, rel *release.Release) error { return d.Update(key, rel) },
	} {
		if err := write(driver.NewConfigMaps(helms), &slim); err != nil {
			t.Fatal(err)
		}
		if err := write(slimDriver{Driver: driver.NewConfigMaps(ours), store: store, name: "hello", recorded: "hello"}, rel); err != nil {
			t.Fatal(err)
		}
		decoded, err := driver.NewConfigMaps(ours).Get(key)
		if err != nil {
			t.Fatal(err)
		}
		maps.DeleteFunc(decoded.Labels, func(label, _ string) bool { return object.ManagedByLabels().Has(label) })
		if wanted, err := driver.NewConfigMaps(helms).Get(key); err != nil || !reflect.DeepEqual(decoded, wanted) {
			t.Errorf("%s: Helm reads %v, not %v: %v", name, decoded, wanted, err)
		}
		for label, value := range helms.written.Labels {
			if got, found := ours.written.Labels[label]; !found || got != value && label != "createdAt" && label != "modifiedAt" {
				t.Errorf("%s: label %s is %q, not %q", name, label, got, value)
			}
		}
		if len(ours.written.Labels) != len(helms.written.Labels)+len(object.ManagedByLabels()) {
			t.Errorf("%s: it has the labels %v, and Helm's %v", name, ours.written.Labels, helms.written.Labels)
		}
	}
}

// What could not be read back is not written, nor what Kubernetes would not take.
func TestRecordThatIsTooLarge(t *testing.T) {
	written := &noted{}
	store := NewStore(context.Background(), everywhere{configMaps: written}, cached{}, nil, owner(), Options{Names: NamesPlain})
	bulk := make([]byte, 900_000)
	_, _ = rand.Read(bulk) // which never fails
	for manifest, says := range map[string]string{strings.Repeat("a", MaxRecord): "more than its record can hold", base64.StdEncoding.EncodeToString(bulk): "Kubernetes takes none of more than 1024 KiB"} {
		rel := &release.Release{Name: "hello", Version: 1, Info: &release.Info{}, Hooks: []*release.Hook{{Manifest: manifest}}}
		if err := store.Driver().Create("sh.helm.release.v1.hello.v1", rel); err == nil || !strings.Contains(err.Error(), says) || written.written != nil {
			t.Errorf("it was written, or not as it should be: %v", err)
		}
	}
}
