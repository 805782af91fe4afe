package record

import (
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"helm.sh/helm/v3/pkg/release"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// Bounds of what is unpacked of a release record. A ConfigMap of 1 MiB can unpack to a thousand times that, and
// a text of a megabyte be parsed to a thousand times that again, which would end the operator for everybody.
const (
	// MaxRecord bounds any unpacked record, in bytes.
	MaxRecord = 2 << 20
	// maxUnproven bounds what is read of a record that is not proven, in bytes: texts grow twentyfold while
	// they are parsed.
	maxUnproven = 64 << 10
	// maxParts bounds the parts of an unproven record, each of which costs up to half a kilobyte.
	maxParts = 5_000
	// maxUnknown bounds how many kinds of a record that the cluster does not serve are looked up: each lookup
	// is a full discovery, for which others wait.
	maxUnknown = 5
)

// anchor finds YAML anchors: a hundred bytes with ten of them can stand for a million parts.
var anchor = regexp.MustCompile(`(?m)(^|[^\w&])&[\w-]`)

// sanitizer makes the release records of one custom resource safe to hand to Helm, which trusts them: a record
// that it cannot read, or with a kind that the cluster does not serve, would stop every later upgrade and the
// deletion.
//
// What it leaves in a manifest is still for the guard to judge.
type sanitizer struct {
	mapper  meta.RESTMapper
	owner   client.Object
	release string               // its name, as it is recorded
	report  func(message string) // of what was left out
	// isApplied is whether a manifest is the one that was applied last.
	isApplied func(manifest string) bool
	// known are the objects of the release as far as they are known.
	known func() []object.Child
	// applied is the revision that was applied last, 0 if none is known.
	applied func() int
	// allow is what the platform allows in no namespace.
	allow object.Allow
	// discreet is whether records hold values of Secrets, which errors may quote.
	discreet bool
}

// because is what may be told of an error.
func (s *sanitizer) because(err error) string {
	if s.discreet {
		return "why is not told, for it may quote a Secret"
	}
	return err.Error()
}

// sanitize returns the record as Helm may read it. A record with nothing wrong in it is returned as it is.
func (s *sanitizer) sanitize(record *corev1.ConfigMap) (*corev1.ConfigMap, error) {
	meta := slim(record)
	rel, whole, err := s.unpack(record.Data["release"])
	if err != nil {
		// Another one, an earlier revision or an attempt, may well be unproven.
		if revision, _ := revisionOf(record.Name, s.release); !errors.Is(err, errUnproven) || revision == s.applied() {
			s.report(fmt.Sprintf("release record %s cannot be read: %s", record.Name, s.because(err)))
		}
		rel = &release.Release{Manifest: object.BareManifest(s.known())}
	}
	children, left, usable, err := s.children(rel.Manifest)
	if err != nil {
		return nil, fmt.Errorf("check release record %s: %w", record.Name, err)
	}
	for _, reason := range left {
		s.report(fmt.Sprintf("release record %s: %s", record.Name, reason))
	}
	if !usable || len(left) > 0 && s.owner.GetDeletionTimestamp() != nil { // Helm deletes nothing of a manifest with kinds that the cluster does not know
		rel.Manifest, whole = object.BareManifest(children), false
	}
	if whole && s.fits(meta, rel) {
		meta.Data = record.Data
		return meta, nil
	}
	return s.pack(meta, rel)
}

// bare is a record that tells Helm no more than that it exists.
func (s *sanitizer) bare(meta *corev1.ConfigMap) (*corev1.ConfigMap, error) {
	return s.pack(meta.DeepCopy(), &release.Release{})
}

// fits is whether a release matches the metadata of its record, by which Helm has found it.
func (s *sanitizer) fits(meta *corev1.ConfigMap, rel *release.Release) bool {
	revision, _ := revisionOf(meta.Name, s.release)
	return rel.Info != nil && rel.Name == s.release && rel.Namespace == s.owner.GetNamespace() && rel.Version == revision &&
		string(rel.Info.Status) == meta.Labels["status"]
}

// pack makes a record of a release and its metadata. It is not compressed: Helm reads that, too.
func (s *sanitizer) pack(meta *corev1.ConfigMap, rel *release.Release) (*corev1.ConfigMap, error) {
	if rel.Info == nil {
		rel.Info = &release.Info{}
	}
	rel.Name, rel.Namespace, rel.Info.Status = s.release, s.owner.GetNamespace(), release.Status(meta.Labels["status"])
	rel.Version, _ = revisionOf(meta.Name, s.release)
	raw, err := json.Marshal(rel)
	meta.Data = map[string]string{"release": base64.StdEncoding.EncodeToString(raw)}
	return meta, err
}

// Named lists, by name only, the objects of a manifest that somebody else has applied that a release of the
// owner may have.
func (r *Store) Named(manifest string) (string, error) {
	children, _, _, err := r.sanitizer.children(manifest)
	return object.BareManifest(children), err
}

// children names the objects of a manifest that a release of the owner may have, and says why each other one is
// left out. usable is whether Helm can be given the manifest as it is.
func (s *sanitizer) children(manifest string) (kept []object.Child, left []string, usable bool, err error) {
	unknown, applied := sets.New[schema.GroupKind](), s.isApplied(manifest)
	usable = true
	for _, document := range object.Split(manifest) {
		objects, err := objectsOf(document)
		if err != nil {
			left, usable = append(left, fmt.Sprintf("left out a document that is no object: %s", s.because(err))), false
			continue
		}
		for _, obj := range objects {
			if len(unknown) == maxUnknown && !applied {
				return kept, append(left, fmt.Sprintf("left out %s %q, and what comes after it: the cluster does not know %d kinds before it", obj.GetKind(), obj.GetName(), maxUnknown)), false, nil
			}
			kind, reason := obj.GroupVersionKind(), ""
			if !unknown.Has(kind.GroupKind()) {
				if reason, err = s.refuse(obj); meta.IsNoMatchError(err) {
					unknown.Insert(kind.GroupKind())
				} else if err != nil {
					return nil, nil, false, err
				}
			}
			switch version := obj.GroupVersionKind(); {
			case unknown.Has(kind.GroupKind()):
				reason = fmt.Sprintf("the cluster knows no %s", kind)
				usable = usable && applied && !strings.Contains(document, "List") // without these, the guard knows what to do
			case reason != "":
				usable = false
			case version != kind:
				left = append(left, fmt.Sprintf("took %s %q for one of %s: the cluster knows no %s", obj.GetKind(), obj.GetName(), version.GroupVersion(), kind.GroupVersion()))
				usable = false
			}
			if reason != "" {
				left = append(left, fmt.Sprintf("left out %s %q: %s", obj.GetKind(), obj.GetName(), reason))
				continue
			}
			kept = append(kept, object.Named(obj))
		}
	}
	return kept, left, usable, nil
}

// refuse says why the owner's release cannot hold obj, "" if it can. An error means that the cluster does not
// serve the kind (meta.IsNoMatchError), or could not be asked: to leave the object out would orphan it. If only
// the version in which obj was made is gone, obj is changed to one that is served.
func (s *sanitizer) refuse(obj *unstructured.Unstructured) (reason string, err error) {
	gvk := obj.GroupVersionKind()
	mapping, err := s.mapper.RESTMapping(gvk.GroupKind())
	if err == nil && mapping.GroupVersionKind.Version != gvk.Version {
		if _, err = s.mapper.RESTMapping(gvk.GroupKind(), gvk.Version); meta.IsNoMatchError(err) {
			obj.SetGroupVersionKind(mapping.GroupVersionKind)
			err = nil
		}
	}
	switch namespace := obj.GetNamespace(); {
	case err != nil:
		return "", err
	case mapping.Scope.Name() != meta.RESTScopeNameNamespace:
		if why := s.allow.InNoNamespace(s.owner, gvk.GroupKind(), obj.GetName()); why != nil {
			reason = why.Error()
		}
		return reason, nil
	case namespace != "" && namespace != s.owner.GetNamespace():
		return fmt.Sprintf("it is in namespace %q", namespace), nil
	case Is(object.Child{Kind: gvk.Kind, Name: obj.GetName()}):
		return "it is a release record", nil
	}
	return "", nil
}

// objectsOf parses a document. A list becomes its items, as it does in Helm.
func objectsOf(document string) ([]*unstructured.Unstructured, error) {
	objects, err := object.Documents(strings.NewReader(document))
	for _, obj := range objects {
		if obj.GetAPIVersion() == "" || obj.GetKind() == "" || obj.GetName() == "" {
			return nil, errors.New("apiVersion, kind or metadata.name is missing")
		}
	}
	return objects, err
}

const makeLess = "ask for less, or have the chart make less (what is large goes into an image or a volume)"

// CheckSize fails if a release of so many bytes is more than a record can hold.
func CheckSize(size int) error {
	if size > MaxRecord {
		return fmt.Errorf("a release of %d KiB is more than its record can hold, which is %d KiB: %s", size>>10, MaxRecord>>10, makeLess)
	}
	return nil
}

// errUnproven is why a record is not read: it may be the operator's, or forged.
var errUnproven = errors.New("it is large or intricate, and not what the operator has applied last")

// unpack reads the release of a record as Helm's storage drivers do, but no more of it than is bounded. whole
// is whether that is all.
func (s *sanitizer) unpack(data string) (rel *release.Release, whole bool, err error) {
	raw, err := inflate(data, MaxRecord)
	if err != nil {
		return nil, false, err
	}
	var proven struct{ Manifest string } // the rest is skipped, and costs nothing
	if err := json.Unmarshal(raw, &proven); err != nil {
		return nil, false, err
	}
	size, count := len(raw), parts(raw)
	if s.isApplied(proven.Manifest) {
		size, count = size-len(proven.Manifest), count-parts(proven.Manifest)
	} else {
		count = max(count, parts(proven.Manifest))
		if anchor.MatchString(proven.Manifest) {
			count = maxParts + 1
		}
		proven.Manifest = ""
	}
	if size <= maxUnproven && count <= maxParts {
		rel = &release.Release{}
		return rel, true, json.Unmarshal(raw, rel)
	}
	if proven.Manifest == "" {
		return nil, false, errUnproven
	}
	return &release.Release{Manifest: proven.Manifest}, false, nil
}

// inflate unpacks a text of at most limit bytes. It does so twice, first to measure, so as to allocate no byte
// more than needed.
func inflate(data string, limit int64) ([]byte, error) {
	open := func() (io.Reader, error) {
		text, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(data)))
		return io.LimitReader(text, limit+1), err
	}
	text, err := open()
	if err != nil {
		return nil, err
	}
	size, err := io.Copy(io.Discard, text)
	if err != nil {
		return nil, err
	}
	if size > limit {
		return nil, fmt.Errorf("it unpacks to more than %d MiB", limit>>20)
	}
	if text, err = open(); err != nil {
		return nil, err
	}
	raw := make([]byte, size)
	if _, err := io.ReadFull(text, raw); err != nil {
		return nil, err
	}
	if !utf8.Valid(raw) {
		return nil, errors.New("it is not UTF-8") // which would grow threefold
	}
	return raw, nil
}

// parts is at least how many parts a text of JSON or YAML has.
func parts[T string | []byte](text T) (count int) {
	for i := range len(text) {
		switch text[i] {
		case '\n', ',', ':', '[', '{', '-', '?':
			count++
		}
	}
	return count
}
