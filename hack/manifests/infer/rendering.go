package infer

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"path"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	obj "demo.welcome.domain/welcome-operator/internal/object"
)

// Rendered is an object that a chart makes, and the template it is from. Nobody may change one: where a
// template writes the same again, several renderings share it.
type Rendered struct {
	File   string
	Object *unstructured.Unstructured
	text   string // of the object, which is the same for the same
	leaves []leaf
}

// rendering is what became of a scenario.
type rendering struct {
	objects []Rendered
	err     error
}

// breaks is whether the scenario has the value, and the chart can't be rendered with it.
func (r rendering) breaks() bool { return r.err != nil && !errors.Is(r.err, errNoPath) }

// render returns what becomes of a scenario. leniently, what the chart requires counts as there.
func (t *Trial) render(s Scenario, leniently bool) (objects []Rendered, err error) {
	processors <- struct{}{}
	defer func() { <-processors }()
	t.progress.tell(t.chart.Name())
	bounded(t.chart.Name(), s.why, func() { objects, err = t.renderAtAnyCost(s, leniently) })
	return objects, err
}

// processors bounds how many renderings there are at once.
var processors = make(chan struct{}, goruntime.GOMAXPROCS(0))

// errNoPath is that a scenario has no place for a value.
var errNoPath = errors.New("there is no such value")

// renderAll renders scenarios leniently, as many at once as there are processors.
func (t *Trial) renderAll(scenarios []Scenario) []rendering {
	all := make([]rendering, len(scenarios))
	var rendering sync.WaitGroup
	for n, s := range scenarios {
		if s.values == nil {
			all[n].err = errNoPath
			continue
		}
		rendering.Go(func() {
			defer Caught(&all[n].err)
			all[n].objects, all[n].err = t.render(s, true)
		})
	}
	rendering.Wait()
	var costly []error // which share the memory: it may be that of any
	for _, r := range all {
		if errors.As(r.err, &TooMuch{}) {
			costly = append(costly, r.err)
		}
	}
	if len(costly) > 0 {
		panic(TooMuch{errors.Join(costly...)})
	}
	return all
}

// errNoYAML is that a template does not render YAML.
var errNoYAML = errors.New("is no YAML")

func (t *Trial) renderAtAnyCost(s Scenario, leniently bool) ([]Rendered, error) {
	values := chartutil.CoalesceTables(runtime.DeepCopyJSON(t.pins), runtime.DeepCopyJSON(s.values))
	c, err := t.enabled(values)
	if err != nil {
		return nil, err
	}
	capabilities := chartutil.Capabilities{KubeVersion: OldestKubernetes, APIVersions: stableAPIs, HelmVersion: chartutil.DefaultCapabilities.HelmVersion}
	if s.later {
		capabilities.KubeVersion = laterKubernetes
	}
	if s.everyAPI {
		capabilities.APIVersions = append(slices.Clone(stableAPIs), t.asked...)
	}
	options := chartutil.ReleaseOptions{Name: t.release.Name, Namespace: t.release.Namespace, Revision: max(s.revision, 1), IsInstall: s.revision == 0, IsUpgrade: s.revision > 0}
	all, err := chartutil.ToRenderValuesWithSchemaValidation(c, values, options, &capabilities, !t.checked)
	if err != nil {
		return nil, err
	}
	render := engine.Engine{LintMode: leniently}.Render
	if t.lookups.asked != nil {
		render = func(c *chart.Chart, values chartutil.Values) (map[string]string, error) {
			return engine.RenderWithClientProvider(c, values, t.lookups)
		}
	}
	files, err := render(c, all)
	if err != nil {
		return nil, err
	}
	var objects []Rendered
	for _, file := range slices.Sorted(maps.Keys(files)) {
		if base := path.Base(file); strings.HasPrefix(base, "_") || base == "NOTES.txt" {
			continue
		}
		documents, err := t.documents.of(file, files[file])
		if err != nil {
			return nil, fmt.Errorf("%s %w: %w", file, errNoYAML, err)
		}
		for _, r := range documents {
			if t.tests || !IsTest(r.Object) {
				objects = append(objects, r)
			}
		}
	}
	return objects, nil
}

// documents has what templates wrote last, parsed: most renderings make the same, and there are thousands.
type documents struct {
	sync.Mutex
	parsed map[written][]Rendered
	size   int
}

// maxWritten is how much text they are of, in bytes. Parsed, it takes many times that.
const maxWritten = 16 << 20

type written struct{ file, text string }

func (d *documents) of(file, text string) ([]Rendered, error) {
	d.Lock()
	all, there := d.parsed[written{file, text}]
	d.Unlock()
	if there {
		return all, nil
	}
	objects, err := obj.Documents(strings.NewReader(strings.Join(obj.Split(text), "\n---\n")))
	if err != nil {
		return nil, err
	}
	for _, object := range objects {
		decode(object)
		all = append(all, Rendered{file, object, Compact(object.Object), leavesOf(object)})
	}
	d.Lock()
	defer d.Unlock()
	if d.size += len(text); d.parsed == nil || d.size > maxWritten {
		d.parsed, d.size = map[written][]Rendered{}, len(text)
	}
	d.parsed[written{file, text}] = all
	return all, nil
}

// decode has what a Secret or ConfigMap holds in base64 as what pods get of it: in base64, no mark is seen.
func decode(object *unstructured.Unstructured) {
	field := map[string]string{"Secret": "data", "ConfigMap": "binaryData"}[object.GetKind()]
	held, _ := object.Object[field].(map[string]any)
	for key, value := range held {
		text, _ := value.(string)
		if decoded, err := base64.StdEncoding.DecodeString(text); err == nil {
			held[key] = string(decoded)
		}
	}
}

// IsTest is whether an object is there for helm test only.
func IsTest(object *unstructured.Unstructured) bool {
	events := object.GetAnnotations()["helm.sh/hook"]
	return events != "" && !slices.ContainsFunc(strings.Split(events, ","), func(event string) bool {
		return !slices.Contains([]string{"test", "test-success"}, strings.TrimSpace(event))
	})
}

// same is whether two renderings are.
func same(a, b []Rendered) bool {
	return slices.EqualFunc(a, b, func(a, b Rendered) bool { return a.text == b.text })
}
