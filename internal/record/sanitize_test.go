package record

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/tests/kit"
)

const (
	ours      = "---\n# Source: chart/templates/service.yaml\napiVersion: v1\nkind: Service\nmetadata:\n  name: hello\n  namespace: here\n"
	unplaced  = "---\napiVersion: v1\nkind: Service\nmetadata:\n  name: unplaced\n"
	elsewhere = "---\napiVersion: v1\nkind: Service\nmetadata:\n  name: theirs\n  namespace: there\n"
	cluster   = "---\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: there\n"
	unknown   = "---\napiVersion: example.com/v1\nkind: Unheard\nmetadata:\n  name: of\n"
)

func owner() *unstructured.Unstructured {
	o := kit.Welcome("here", "hello")
	o.SetUID("1")
	return o
}

// newSanitizer knows Services and Namespaces, and collects what it reports.
func newSanitizer() (*sanitizer, *[]string) {
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{{Version: "v1"}})
	mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: "Service"}, meta.RESTScopeNamespace)
	mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, meta.RESTScopeRoot)
	var told []string
	return &sanitizer{mapper: mapper, owner: owner(), release: "hello", isApplied: func(string) bool { return false }, applied: func() int { return 3 }, known: func() []object.Child { return nil }, report: func(message string) { told = append(told, message) }}, &told
}

func TestChildrenOfAManifest(t *testing.T) {
	for name, c := range map[string]struct {
		manifest string
		kept     []string
		left     []string
	}{
		"nothing":                  {},
		"what the chart made":      {manifest: ours + unplaced, kept: []string{"hello", "unplaced"}},
		"only comments":            {manifest: "---\n# nothing\n" + ours, kept: []string{"hello"}},
		"list of our own":          {manifest: "kind: List\napiVersion: v1\nitems:\n- {apiVersion: v1, kind: Service, metadata: {name: a}}\n", kept: []string{"a"}},
		"another namespace":        {manifest: unplaced + elsewhere, kept: []string{"unplaced"}, left: []string{`Service "theirs": it is in namespace "there"`}},
		"cluster-scoped":           {manifest: cluster + unplaced, kept: []string{"unplaced"}, left: []string{"cluster-scoped"}},
		"unknown kind":             {manifest: unknown + unplaced, kept: []string{"unplaced"}, left: []string{"the cluster knows no example.com/v1, Kind=Unheard"}},
		"no YAML":                  {manifest: unplaced + "---\n{{ not: [yaml\n", kept: []string{"unplaced"}, left: []string{"no object"}},
		"no name":                  {manifest: unplaced + "---\napiVersion: v1\nkind: Service\n", kept: []string{"unplaced"}, left: []string{"no object"}},
		"no map":                   {manifest: unplaced + "---\n- a\n- b\n", kept: []string{"unplaced"}, left: []string{"no object"}},
		"metadata of a wrong type": {manifest: unplaced + "---\napiVersion: v1\nkind: Service\nmetadata: 5\n", kept: []string{"unplaced"}, left: []string{"no object"}},
		"many":                     {manifest: elsewhere + elsewhere + cluster + unknown, left: []string{"there", "there", "cluster-scoped", "Unheard"}},
		"a list": {
			manifest: "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Service, metadata: {name: unplaced}}\n- {apiVersion: v1, kind: Service, metadata: {name: theirs, namespace: there}}\n",
			kept:     []string{"unplaced"}, left: []string{"there"},
		},
		"order is kept": {
			manifest: strings.Repeat(unplaced, 11) + "---\napiVersion: v1\nkind: Service\nmetadata:\n  name: last\n" + cluster,
			kept:     append(slices.Repeat([]string{"unplaced"}, 11), "last"), left: []string{"cluster-scoped"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := newSanitizer()
			kept, left, usable, err := s.children(c.manifest)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, child := range kept {
				names = append(names, child.Name)
			}
			if !slices.Equal(names, c.kept) {
				t.Errorf("kept %q, want %q", names, c.kept)
			}
			if len(left) != len(c.left) || usable != (len(left) == 0) {
				t.Fatalf("left out %q; usable: %t", left, usable)
			}
			for i := range left {
				if !strings.Contains(left[i], c.left[i]) {
					t.Errorf("%q does not say %q", left[i], c.left[i])
				}
			}
		})
	}
}

// asked counts what a mapper is asked.
type asked struct {
	meta.RESTMapper
	count int
}

func (a *asked) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	a.count++
	return a.RESTMapper.RESTMapping(kind, versions...)
}

// To ask about a kind that the cluster does not know is a request, for which all others wait.
func TestFewUnknownKindsAreAskedAbout(t *testing.T) {
	for name, kinds := range map[string]int{"one kind, many times": 1, "many kinds": 500} {
		t.Run(name, func(t *testing.T) {
			s, _ := newSanitizer()
			mapper := &asked{RESTMapper: s.mapper}
			s.mapper = mapper
			manifest := unplaced
			for i := range 500 {
				manifest += strings.Replace(unknown, "example.com", fmt.Sprintf("a%d.example.com", i%kinds), 1)
			}
			kept, left, _, err := s.children(manifest)
			if err != nil || len(kept) != 1 || len(left) == 0 || mapper.count > maxUnknown+1 {
				t.Errorf("asked %d times, kept %v, left out %d, %v", mapper.count, kept, len(left), err)
			}
		})
	}
}

// What cannot be looked up is not left out: it may be an object of the owner.
func TestChildrenOfAManifestWhileTheClusterIsAway(t *testing.T) {
	s, _ := newSanitizer()
	s.mapper = away{s.mapper}
	if _, _, _, err := s.children(ours); err == nil {
		t.Error("no error")
	}
}

type away struct{ meta.RESTMapper }

func (away) RESTMapping(schema.GroupKind, ...string) (*meta.RESTMapping, error) {
	return nil, errors.New("connection refused")
}

func recordOf(t *testing.T, rel *release.Release) *corev1.ConfigMap {
	t.Helper()
	raw, err := json.Marshal(rel)
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Name: "sh.helm.release.v1.hello.v3", Namespace: "here", Labels: map[string]string{"status": "deployed"},
			OwnerReferences: []metav1.OwnerReference{{UID: "1", Controller: new(true)}},
			Annotations:     map[string]string{inputsAnnotation: "0123456789abcdef"},
		},
		Data: map[string]string{"release": packed(raw)},
	}
}

// packed is how Helm stores a text.
func packed(raw []byte) string {
	var text bytes.Buffer
	writer := gzip.NewWriter(&text)
	_, _ = writer.Write(raw) // to memory
	_ = writer.Close()
	return base64.StdEncoding.EncodeToString(text.Bytes())
}

// asHelmReads is the release of a record in the eyes of Helm's driver.
func asHelmReads(t *testing.T, record *corev1.ConfigMap) *release.Release {
	t.Helper()
	rel, err := driver.NewConfigMaps(holds{record: record}).Get(record.Name)
	if err != nil {
		t.Fatal(err)
	}
	return rel
}

type holds struct {
	corev1client.ConfigMapInterface
	record *corev1.ConfigMap
}

func (h holds) Get(context.Context, string, metav1.GetOptions) (*corev1.ConfigMap, error) {
	return h.record, nil
}

func TestSanitizeRecord(t *testing.T) {
	good := func() *release.Release {
		return &release.Release{Name: "hello", Namespace: "here", Version: 3, Info: &release.Info{Status: release.StatusDeployed, Notes: "kept"}, Manifest: ours}
	}
	for name, c := range map[string]struct {
		change    func(*release.Release)
		corrected bool
	}{
		"nothing is wrong":  {func(*release.Release) {}, false},
		"another name":      {func(r *release.Release) { r.Name = "other" }, true},
		"another namespace": {func(r *release.Release) { r.Namespace = "there" }, true},
		"another revision":  {func(r *release.Release) { r.Version = 99 }, true},
		"another status":    {func(r *release.Release) { r.Info.Status = release.StatusPendingUpgrade }, true},
		"no info":           {func(r *release.Release) { r.Info = nil }, true},
		"more objects":      {func(r *release.Release) { r.Manifest += elsewhere }, true},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := newSanitizer()
			rel := good()
			c.change(rel)
			record := recordOf(t, rel)
			safe, err := s.sanitize(record)
			if err != nil {
				t.Fatal(err)
			}
			if corrected := safe.Data["release"] != record.Data["release"]; corrected != c.corrected {
				t.Fatalf("corrected: %v", corrected)
			}
			got := asHelmReads(t, safe)
			if got.Name != "hello" || got.Namespace != "here" || got.Version != 3 || got.Info.Status != release.StatusDeployed || !strings.Contains(got.Manifest, "hello") || strings.Contains(got.Manifest, "there") {
				t.Errorf("got %+v, %+v", got, got.Info)
			}
		})
	}
}

// What cannot be read becomes a release of the objects that the status lists.
func TestSanitizeUnreadableRecord(t *testing.T) {
	for name, data := range map[string]string{
		"nothing": "", "no base64": "%", "no gzip": "cnViYmlzaA==",
		"huge":     packed([]byte(`{"manifest": "` + strings.Repeat("A", MaxRecord) + `"}`)),
		"large":    packed([]byte(`{"manifest": "` + strings.Repeat("A", maxUnproven) + `"}`)),
		"no UTF-8": packed([]byte("{\"manifest\": \"\xff\"}")),
		"hooks":    packed([]byte(`{"hooks": [` + strings.Repeat("{},", maxParts) + `{}]}`)),
		"deep":     packed([]byte(`{"config": ` + strings.Repeat(`{"a":`, maxParts) + "1" + strings.Repeat("}", maxParts) + `}`)),
		"parts":    packed([]byte(`{"manifest": "` + strings.Repeat(`- a\n`, maxParts) + `"}`)),
		"anchors":  packed([]byte(`{"manifest": "a: &a [x]\nb: [*a, *a]"}`)),
	} {
		t.Run(name, func(t *testing.T) {
			s, told := newSanitizer()
			s.known = func() []object.Child { return []object.Child{{APIVersion: "v1", Kind: "Service", Name: "hello"}} }
			record := recordOf(t, &release.Release{})
			record.Data["release"] = data
			safe, err := s.sanitize(record)
			if err != nil {
				t.Fatal(err)
			}
			rel := asHelmReads(t, safe)
			if rel.Name != "hello" || rel.Version != 3 || !strings.Contains(rel.Manifest, `kind: "Service"`) || !strings.Contains(rel.Manifest, `name: "hello"`) {
				t.Errorf("got %+v", rel)
			}
			if len(*told) != 1 || !strings.Contains((*told)[0], "cannot be read") {
				t.Errorf("told %q", *told)
			}
		})
	}
}

// A record of another revision than was applied last may be large.
func TestSanitizeLargeRecordOfAnotherRevision(t *testing.T) {
	s, told := newSanitizer()
	s.applied = func() int { return 2 }
	record := recordOf(t, &release.Release{})
	record.Data["release"] = packed([]byte(`{"manifest": "` + strings.Repeat("A", maxUnproven) + `"}`))
	if _, err := s.sanitize(record); err != nil || len(*told) > 0 {
		t.Errorf("told %q: %v", *told, err)
	}
}

// What the operator has applied itself is read whatever its size, and what somebody put beside it is not.
func TestSanitizeProvenRecord(t *testing.T) {
	manifest := ours + "spec:\n  text: '" + strings.Repeat("a,", maxUnproven) + "'\n"
	text, err := json.Marshal(manifest)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		beside string
		whole  bool
	}{
		"nothing else":     {`"name": "hello", "namespace": "here", "version": 3, "info": {"status": "deployed"}`, true},
		"a flood of hooks": {`"hooks": [` + strings.Repeat("{},", maxParts) + `{}]`, false},
		"a flood of text":  {`"config": {"a": "` + strings.Repeat("a", maxUnproven) + `"}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, told := newSanitizer()
			s.isApplied = func(m string) bool { return m == manifest }
			record := recordOf(t, &release.Release{})
			record.Data["release"] = packed([]byte(`{"manifest": ` + string(text) + `, ` + c.beside + `}`))
			safe, err := s.sanitize(record)
			if err != nil {
				t.Fatal(err)
			}
			if whole := safe.Data["release"] == record.Data["release"]; whole != c.whole {
				t.Errorf("it keeps every byte: %v", whole)
			}
			rel := asHelmReads(t, safe)
			if rel.Manifest != manifest || len(rel.Hooks) > 0 || len(rel.Config) > 0 || rel.Version != 3 {
				t.Errorf("got revision %d, %d hooks, %d values, a manifest of %d bytes", rel.Version, len(rel.Hooks), len(rel.Config), len(rel.Manifest))
			}
			if len(*told) > 0 {
				t.Errorf("told %q", *told)
			}
		})
	}
}

// What was applied last is to be repaired though a kind of it is gone. A deletion goes by names, as Helm
// deletes nothing of a manifest with a kind that the cluster does not know.
func TestSanitizeProvenRecordOfAnUnknownKind(t *testing.T) {
	for name, c := range map[string]struct {
		manifest string
		deleted  bool
		whole    bool
	}{
		"applied last":                          {ours + unknown, false, true},
		"while it is deleted":                   {ours + unknown, true, false},
		"with what is in another namespace":     {ours + unknown + elsewhere, false, false},
		"of a version that is gone":             {strings.Replace(ours, "v1", "v1beta1", 1), false, false},
		"without anything that is unknown, too": {ours, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := newSanitizer()
			s.isApplied = func(m string) bool { return m == c.manifest }
			if c.deleted {
				s.owner.SetDeletionTimestamp(&metav1.Time{Time: time.Now()})
			}
			safe, err := s.sanitize(recordOf(t, &release.Release{Name: "hello", Namespace: "here", Version: 3, Info: &release.Info{Status: release.StatusDeployed}, Manifest: c.manifest}))
			if err != nil {
				t.Fatal(err)
			}
			if got := asHelmReads(t, safe).Manifest; (got == c.manifest) != c.whole {
				t.Errorf("the manifest is %q", got)
			}
		})
	}
}

func TestRevisionOf(t *testing.T) {
	for name, want := range map[string]int{
		"sh.helm.release.v1.hello.v1":                   1,
		"sh.helm.release.v1.hello.v12":                  12,
		"sh.helm.release.v1.hello.v0":                   0,
		"sh.helm.release.v1.hello.v-1":                  0,
		"sh.helm.release.v1.hello.vx":                   0,
		"sh.helm.release.v1.hello-2.v1":                 0,
		"sh.helm.release.v1.hello.v1.v2":                0,
		"hello":                                         0,
		"sh.helm.release.v1.hello.v9999999999999999999": 0,
	} {
		if revision, ok := revisionOf(name, "hello"); ok != (want > 0) || ok && revision != want {
			t.Errorf("%s: got %d, %v", name, revision, ok)
		}
	}
}
