package record

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage"
	"helm.sh/helm/v3/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// Driver returns Helm's driver over the store.
func (r *Store) Driver() driver.Driver {
	return slimDriver{Driver: driver.NewConfigMaps(r), store: r, name: r.owner.GetName(), recorded: r.release}
}

// Releases returns Helm's storage over the store.
func (r *Store) Releases() *storage.Storage { return storage.Init(r.Driver()) }

// slimDriver stores a release without the files of its chart. Nothing reads them back, they are most of a
// record, and to compress them takes a third of the time of an install.
//
// It packs records itself, since Helm's driver allocates a new compressor for each: more than a quarter of all
// memory that an install takes, and leaves to the garbage collector.
//
// Helm knows the release by the name of its custom resource (.Release.Name in charts); it is recorded by a name
// that no other release has. Helm's actions do not use the driver's List.
type slimDriver struct {
	driver.Driver
	store          *Store
	name, recorded string
}

// Create stores a new revision.
func (d slimDriver) Create(key string, rel *release.Release) error {
	record, err := d.pack(key, rel, "createdAt")
	if err != nil {
		return err
	}
	if _, err = d.store.Create(context.Background(), record, metav1.CreateOptions{}); apierrors.IsAlreadyExists(err) {
		return driver.ErrReleaseExists
	}
	return err
}

// Update stores what became of a revision.
func (d slimDriver) Update(key string, rel *release.Release) error {
	record, err := d.pack(key, rel, "modifiedAt")
	if err != nil {
		return err
	}
	_, err = d.store.Update(context.Background(), record, metav1.UpdateOptions{})
	return err
}

// pack makes the record of a release, as newConfigMapsObject in pkg/storage/driver of Helm 3 does.
func (d slimDriver) pack(key string, rel *release.Release, written string) (*corev1.ConfigMap, error) {
	raw, err := json.Marshal(renamed(d.recorded, withoutFiles(rel)))
	if err != nil {
		return nil, fmt.Errorf("encode release record %s: %w", d.key(key), err)
	}
	if err := CheckSize(len(raw)); err != nil { // it could not be read back
		return nil, err
	}
	var packed bytes.Buffer
	compressor := compressors.Get().(*gzip.Writer)
	compressor.Reset(&packed)
	defer func() {
		compressor.Reset(io.Discard) // or it would keep the record
		compressors.Put(compressor)
	}()
	if _, err = compressor.Write(raw); err == nil {
		err = compressor.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("compress release record %s: %w", d.key(key), err)
	}
	if size := base64.StdEncoding.EncodedLen(packed.Len()) + object.KeyLength; size > corev1.MaxSecretSize {
		return nil, fmt.Errorf("the release record would be of %d KiB, and Kubernetes takes none of more than %d KiB, which is what the chart makes of this spec, packed: %s", size>>10, corev1.MaxSecretSize>>10, makeLess)
	}
	record := &corev1.ConfigMap{Data: map[string]string{"release": base64.StdEncoding.EncodeToString(packed.Bytes())}}
	record.Name, record.Labels = d.key(key), map[string]string{}
	maps.Copy(record.Labels, rel.Labels)
	maps.Copy(record.Labels, map[string]string{
		"name": d.recorded, "owner": "helm", "status": rel.Info.Status.String(), "version": strconv.Itoa(rel.Version), written: strconv.FormatInt(time.Now().Unix(), 10),
	})
	return record, nil
}

var compressors = sync.Pool{New: func() any {
	compressor, _ := gzip.NewWriterLevel(io.Discard, gzip.BestCompression) // which is a level that there is
	return compressor
}}

// Get reads a revision.
func (d slimDriver) Get(key string) (*release.Release, error) {
	rel, err := d.Driver.Get(d.key(key))
	return renamed(d.name, rel), err
}

// Query reads the revisions that have the labels.
func (d slimDriver) Query(labels map[string]string) ([]*release.Release, error) {
	labels = maps.Clone(labels)
	labels["name"] = d.recorded
	found, err := d.Driver.Query(labels)
	for i, rel := range found {
		found[i] = renamed(d.name, rel)
	}
	return found, err
}

// Delete deletes a revision. Helm's driver would first read it, perhaps a megabyte, for a return value that
// nobody uses.
func (d slimDriver) Delete(key string) (*release.Release, error) {
	return nil, d.store.Delete(context.Background(), d.key(key), metav1.DeleteOptions{})
}

// key is the name of the record for a key of Helm's. Both end with the revision.
func (d slimDriver) key(key string) string {
	return namePrefix + d.recorded + strings.TrimPrefix(key, namePrefix+d.name)
}

func renamed(name string, rel *release.Release) *release.Release {
	if rel == nil {
		return nil
	}
	named := *rel
	named.Name = name
	return &named
}

func withoutFiles(rel *release.Release) *release.Release {
	slim := *rel
	if rel.Chart != nil {
		slim.Chart = &chart.Chart{Metadata: rel.Chart.Metadata, Values: rel.Chart.Values}
	}
	return &slim
}
