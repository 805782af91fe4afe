package release

import (
	"errors"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/release"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	ours      = "---\n# Source: chart/templates/service.yaml\napiVersion: v1\nkind: Service\nmetadata:\n  name: hello\n  namespace: here\n"
	unplaced  = "---\napiVersion: v1\nkind: Service\nmetadata:\n  name: unplaced\n"
	elsewhere = "---\napiVersion: v1\nkind: Service\nmetadata:\n  name: theirs\n  namespace: there\n"
	cluster   = "---\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: there\n"
	unknown   = "---\napiVersion: example.com/v1\nkind: Unheard\nmetadata:\n  name: of\n"
)

func owner() *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetAPIVersion("webapp.demo.welcome.domain/v1")
	o.SetKind("Welcome")
	o.SetName("hello")
	o.SetNamespace("here")
	o.SetUID("1")
	return o
}

// newSanitizer knows Services and Namespaces, and collects what it reports.
func newSanitizer() (*sanitizer, *[]string) {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: "Service"}, meta.RESTScopeNamespace)
	mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, meta.RESTScopeRoot)
	var told []string
	return &sanitizer{mapper: mapper, owner: owner(), report: func(message string) { told = append(told, message) }}, &told
}

func TestSanitizeManifest(t *testing.T) {
	for name, c := range map[string]struct {
		manifest, want string
		left           []string
	}{
		"nothing":                  {},
		"what the chart made":      {manifest: ours + unplaced, want: ours + unplaced},
		"only comments":            {manifest: "---\n# nothing\n" + ours, want: "---\n# nothing\n" + ours},
		"list of our own":          {manifest: "kind: List\napiVersion: v1\nitems:\n- {apiVersion: v1, kind: Service, metadata: {name: a}}\n", want: "kind: List\napiVersion: v1\nitems:\n- {apiVersion: v1, kind: Service, metadata: {name: a}}\n"},
		"another namespace":        {manifest: unplaced + elsewhere, want: unplaced, left: []string{`Service "theirs": it is in namespace "there"`}},
		"cluster-scoped":           {manifest: cluster + unplaced, want: unplaced, left: []string{"cluster-scoped"}},
		"unknown kind":             {manifest: unknown + unplaced, want: unplaced, left: []string{"the cluster knows no example.com/v1, Kind=Unheard"}},
		"no YAML":                  {manifest: unplaced + "---\n{{ not: [yaml\n", want: unplaced, left: []string{"no object"}},
		"no name":                  {manifest: unplaced + "---\napiVersion: v1\nkind: Service\n", want: unplaced, left: []string{"no object"}},
		"no map":                   {manifest: unplaced + "---\n- a\n- b\n", want: unplaced, left: []string{"no object"}},
		"metadata of a wrong type": {manifest: unplaced + "---\napiVersion: v1\nkind: Service\nmetadata: 5\n", want: unplaced, left: []string{"no object"}},
		"many": {
			manifest: elsewhere + elsewhere + cluster + unknown, want: "",
			left: []string{"there", "there", "cluster-scoped", "Unheard"},
		},
		"a list": {
			manifest: "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Service, metadata: {name: unplaced}}\n- {apiVersion: v1, kind: Service, metadata: {name: theirs, namespace: there}}\n",
			want:     unplaced, left: []string{"there"},
		},
		"order is kept": {manifest: strings.Repeat(unplaced, 11) + "---\napiVersion: v1\nkind: Service\nmetadata:\n  name: last\n" + cluster,
			want: strings.Repeat(unplaced, 11) + "---\napiVersion: v1\nkind: Service\nmetadata:\n  name: last\n", left: []string{"cluster-scoped"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := newSanitizer()
			got, left, err := s.sanitizeManifest(c.manifest)
			if err != nil {
				t.Fatal(err)
			}
			if got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
			if len(left) != len(c.left) {
				t.Fatalf("left out %q", left)
			}
			for i := range left {
				if !strings.Contains(left[i], c.left[i]) {
					t.Errorf("%q does not say %q", left[i], c.left[i])
				}
			}
		})
	}
}

// What cannot be looked up is not left out: it may be an object of the owner.
func TestSanitizeManifestWhileTheClusterIsAway(t *testing.T) {
	s, _ := newSanitizer()
	s.mapper = away{s.mapper}
	if _, _, err := s.sanitizeManifest(ours); err == nil {
		t.Error("no error")
	}
}

type away struct{ meta.RESTMapper }

func (away) RESTMapping(schema.GroupKind, ...string) (*meta.RESTMapping, error) {
	return nil, errors.New("connection refused")
}

func recordOf(t *testing.T, rel *release.Release) *corev1.ConfigMap {
	t.Helper()
	data, err := pack(rel)
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Name: "sh.helm.release.v1.hello.v3", Namespace: "here", Labels: map[string]string{"status": "deployed"},
			Annotations: map[string]string{childrenAnnotation: `[{"apiVersion": "v1", "kind": "Service", "name": "hello"}]`},
		},
		Data: map[string]string{"release": data},
	}
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
			before := record.Data["release"]
			if err := s.sanitize(record); err != nil {
				t.Fatal(err)
			}
			if corrected := record.Data["release"] != before; corrected != c.corrected {
				t.Fatalf("corrected: %v", corrected)
			}
			got, err := unpack(record.Data["release"])
			if err != nil {
				t.Fatal(err)
			}
			if got.Name != "hello" || got.Namespace != "here" || got.Version != 3 || got.Info.Status != release.StatusDeployed || !strings.Contains(got.Manifest, "name: hello") || strings.Contains(got.Manifest, "there") {
				t.Errorf("got %+v, %+v", got, got.Info)
			}
		})
	}
}

// What cannot be read becomes a release of the objects that its metadata lists.
func TestSanitizeUnreadableRecord(t *testing.T) {
	huge, err := pack(&release.Release{Manifest: strings.Repeat("A", maxRecord)})
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{"nothing": "", "no base64": "%", "no gzip": "cnViYmlzaA==", "huge": huge} {
		t.Run(name, func(t *testing.T) {
			s, told := newSanitizer()
			record := recordOf(t, &release.Release{})
			record.Data["release"] = data
			if err := s.sanitize(record); err != nil {
				t.Fatal(err)
			}
			rel, err := unpack(record.Data["release"])
			if err != nil {
				t.Fatal(err)
			}
			if rel.Name != "hello" || rel.Version != 3 || !strings.Contains(rel.Manifest, `kind: "Service"`) || !strings.Contains(rel.Manifest, `name: "hello"`) {
				t.Errorf("got %+v", rel)
			}
			if len(*told) != 1 || !strings.Contains((*told)[0], "cannot be read") {
				t.Errorf("told %q", *told)
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
		if revision, ok := revisionOf(name, owner()); ok != (want > 0) || ok && revision != want {
			t.Errorf("%s: got %d, %v", name, revision, ok)
		}
	}
}
