package release

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"

	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/releaseutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// maxRecord bounds an unpacked release record, in bytes. A ConfigMap of 1 MiB can unpack to a
// thousand times that, and would end the operator for everybody. The largest record that Helm
// can write, of a chart that does not compress at all, stays far below.
const maxRecord = 16 << 20

// sanitizer makes the release records of one custom resource safe to hand to Helm, which
// trusts them: a record that it cannot read, or that lists a kind that the cluster does not
// know, would stop every later upgrade and the deletion.
//
// What it leaves in a manifest is still for the guard to judge.
type sanitizer struct {
	mapper meta.RESTMapper
	owner  client.Object
	report func(message string) // of what was left out
}

// sanitize corrects a record in place. A record in which nothing is wrong keeps every byte.
func (s *sanitizer) sanitize(record *corev1.ConfigMap) error {
	rel, err := unpack(record.Data["release"])
	wrong := err != nil
	if wrong {
		s.report(fmt.Sprintf("release record %s cannot be read: %v", record.Name, err))
		rel = &release.Release{Manifest: bareManifest(parseRecord(record, 0).children)}
	}
	if rel.Info == nil {
		rel.Info = &release.Info{}
	}
	// What the record is of stands in its metadata, by which Helm found it.
	revision, _ := revisionOf(record.Name, s.owner)
	status := release.Status(record.Labels["status"])
	if rel.Name != s.owner.GetName() || rel.Namespace != s.owner.GetNamespace() || rel.Version != revision || rel.Info.Status != status {
		rel.Name, rel.Namespace, rel.Version, rel.Info.Status = s.owner.GetName(), s.owner.GetNamespace(), revision, status
		wrong = true
	}
	manifest, left, err := s.sanitizeManifest(rel.Manifest)
	if err != nil {
		return fmt.Errorf("check release record %s: %w", record.Name, err)
	}
	for _, reason := range left {
		s.report(fmt.Sprintf("release record %s: %s", record.Name, reason))
	}
	if !wrong && len(left) == 0 {
		return nil
	}
	rel.Manifest = manifest
	record.Data = map[string]string{}
	record.Data["release"], err = pack(rel)
	return err
}

// sanitizeManifest returns the manifest without the objects that no release of the owner can
// have, and why each was left out.
func (s *sanitizer) sanitizeManifest(manifest string) (kept string, left []string, err error) {
	var out strings.Builder
	documents := releaseutil.SplitManifests(manifest)
	keys := slices.Collect(maps.Keys(documents))
	sort.Sort(releaseutil.BySplitManifestsOrder(keys))
	for _, key := range keys {
		objects, err := objectsOf(documents[key])
		if err != nil {
			left = append(left, fmt.Sprintf("left out a document that is no object: %v", err))
			continue
		}
		for _, object := range objects {
			reason, err := s.refuse(object)
			if err != nil {
				return "", nil, err
			}
			if reason != "" {
				left = append(left, fmt.Sprintf("left out %s %q: %s", object.GetKind(), object.GetName(), reason))
				continue
			}
			text, err := yaml.Marshal(object.Object)
			if err != nil {
				return "", nil, err
			}
			out.WriteString("---\n" + string(text))
		}
	}
	if len(left) == 0 {
		return manifest, nil, nil
	}
	return out.String(), left, nil
}

// refuse says why the owner's release can not hold object, "" if it can. An error means that
// the cluster could not be asked: to leave the object out would orphan it.
func (s *sanitizer) refuse(object *unstructured.Unstructured) (reason string, err error) {
	gvk := object.GroupVersionKind()
	mapping, err := s.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	switch namespace := object.GetNamespace(); {
	case meta.IsNoMatchError(err):
		return fmt.Sprintf("the cluster knows no %s", gvk.GroupVersion().WithKind(gvk.Kind)), nil
	case err != nil:
		return "", err
	case mapping.Scope.Name() != meta.RESTScopeNameNamespace:
		return "it is cluster-scoped", nil
	case namespace != "" && namespace != s.owner.GetNamespace():
		return fmt.Sprintf("it is in namespace %q", namespace), nil
	}
	return "", nil
}

// bareManifest names children, and no more: enough to delete them or to go on from them.
func bareManifest(children []Child) string {
	var manifest strings.Builder
	for _, child := range children {
		fmt.Fprintf(&manifest, "---\napiVersion: %q\nkind: %q\nmetadata: {name: %q}\n", child.APIVersion, child.Kind, child.Name)
	}
	return manifest.String()
}

// objectsOf parses a document. A list becomes its items, as it does in Helm.
func objectsOf(document string) ([]*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
		return nil, err
	}
	if len(object.Object) == 0 {
		return nil, nil // only comments
	}
	if !object.IsList() {
		return []*unstructured.Unstructured{object}, checkObject(object)
	}
	var objects []*unstructured.Unstructured
	err := object.EachListItem(func(item runtime.Object) error {
		object := item.(*unstructured.Unstructured)
		objects = append(objects, object)
		return checkObject(object)
	})
	return objects, err
}

func checkObject(object *unstructured.Unstructured) error {
	if object.GetAPIVersion() == "" || object.GetKind() == "" || object.GetName() == "" {
		return errors.New("apiVersion, kind or metadata.name is missing")
	}
	return nil
}

// revisionOf reads the revision from the name of a record of owner; false if it is not one.
func revisionOf(name string, owner client.Object) (int, bool) {
	number, ok := strings.CutPrefix(name, "sh.helm.release.v1."+owner.GetName()+".v")
	revision, err := strconv.Atoi(number)
	return revision, ok && err == nil && revision > 0
}

// unpack is what Helm's storage drivers do to read a release, with a limit.
func unpack(data string) (*release.Release, error) {
	packed, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		return nil, err
	}
	text, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(io.LimitReader(text, maxRecord+1))
	if err != nil {
		return nil, err
	}
	if len(raw) > maxRecord {
		return nil, fmt.Errorf("it unpacks to more than %d MiB", maxRecord>>20)
	}
	rel := &release.Release{}
	return rel, json.Unmarshal(raw, rel)
}

// pack is the opposite of unpack.
func pack(rel *release.Release) (string, error) {
	raw, err := json.Marshal(rel)
	if err != nil {
		return "", err
	}
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	if _, err := writer.Write(raw); err != nil {
		return "", err
	}
	if err := writer.Close(); err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(packed.Bytes()), nil
}
