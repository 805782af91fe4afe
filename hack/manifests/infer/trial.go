package infer

import (
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes/scheme"

	obj "demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/internal/operator"
	"demo.welcome.domain/welcome-operator/internal/release"
)

// Trial renders the chart of an entry with values of its choice.
type Trial struct {
	chart *chart.Chart
	// release is that as which it is tried, and pins are what the overrides of the entry pin then.
	release   *metav1.ObjectMeta
	overrides map[string]string
	pins      map[string]any
	// samples are the specs that it is tried with, too.
	samples []map[string]any
	// asked are the APIs that the chart looks for, or might: what it would make where they are counts, too.
	asked []string
	// words are all that templates might take for the name of a value.
	words []string
	// alternatives are the texts that templates compare a value with (eq .Values.kind "DaemonSet"), by its
	// path, or the end of that.
	alternatives map[string][]any
	// compared are all texts, and limits the numbers, that templates compare anything with, or that are about such.
	compared, limits []any
	// separators are the texts at which templates split others.
	separators []string
	// broken are values that the chart can't be rendered with, although its author has thought of them.
	Broken []LeftOut
	// workloads are how many the chart makes at most whose pods are counted.
	Workloads int
	// runsText is whether it may take the text of a value for a template.
	runsText bool
	// parsesText is whether it may parse one, and decodesText whether it may decode one.
	parsesText, decodesText bool
	// loops is whether it may make as many of something as a value says.
	loops bool
	// tests is whether those of the chart may be run, and so count as what it makes.
	tests bool
	// checked is whether the chart's own schema has to take the values, as it does when a release is made. A
	// trial is more than that says.
	checked bool
	// lookups, if there are any, note what it looks up.
	lookups lookups
	// allow is what the entry allows.
	allow     obj.Allow
	progress  *progress
	documents *documents
}

// OldestKubernetes is the oldest version that the operator runs on. Charts are tried as on that: for Helm's
// own default, which is of 2020, they make other objects, or none.
var OldestKubernetes = chartutil.KubeVersion{Version: "v1.32.0", Major: "1", Minor: "32"}

// laterKubernetes is one on which a chart makes whatever it makes on any later version.
var laterKubernetes = chartutil.KubeVersion{Version: "v1.99.0", Major: "1", Minor: "99"}

// stableAPIs are the APIs of Kubernetes, as a cluster lists them: those that are stable, for it serves no others by default.
var stableAPIs = func() (all chartutil.VersionSet) {
	for gvk := range scheme.Scheme.AllKnownTypes() {
		if gv := gvk.GroupVersion().String(); stable.MatchString(gvk.Version) {
			all = append(all, gv, gv+"/"+gvk.Kind)
		}
	}
	slices.Sort(all) // a chart may write them all
	return all
}()

// sampleRelease is that as which charts are tried, otherRelease one to see what follows from its name.
var (
	SampleRelease = &metav1.ObjectMeta{Name: "sample", Namespace: "default"}
	OtherRelease  = &metav1.ObjectMeta{Name: "other", Namespace: "elsewhere"}
)

// New sets up the trial of the chart of an entry, by itself and with the specs of samples. It fails if what the
// entry pins can't be.
func New(entry operator.Entry, c *chart.Chart, samples []map[string]any) (*Trial, error) {
	t, err := (&Trial{
		chart:     withoutCertificates(c),
		tests:     entry.Tests,
		allow:     entry.Allow,
		progress:  &progress{told: time.Now()},
		documents: &documents{},
		overrides: entry.OverrideValues,
		samples:   samples,
	}).As(SampleRelease)
	if err != nil {
		return nil, err
	}
	apis, words, all := sets.New[string](), sets.New[string](), sources(c)
	for _, source := range all {
		apis.Insert(groups(askedAPI, source)...).Insert(groups(quotedAPI, source)...)
		words.Insert(groups(fieldOf, source)...).Insert(groups(quotedName, source)...)
		for _, match := range separator.FindAllStringSubmatch(source, -1) {
			if separator := match[1] + match[2]; !slices.Contains(t.separators, separator) {
				t.separators = append(t.separators, separator)
			}
		}
		t.runsText = t.runsText || tplFunction.MatchString(source)
		t.parsesText = t.parsesText || parseFunction.MatchString(source)
		t.decodesText = t.decodesText || decodeFunction.MatchString(source)
		t.loops = t.loops || loopFunction.MatchString(source)
	}
	for _, paths := range switches(c, nil) {
		words.Insert(slices.Concat(paths...)...)
	}
	if !slices.ContainsFunc(append(all, Compact(entry.OverrideValues), Compact(samples)), filesName.MatchString) {
		t.chart = withoutFiles(t.chart)
	}
	t.alternatives, t.words = alternativesIn(all), sets.List(words)
	for _, api := range sets.List(apis) { // a helper may be given a version, and put it together with a kind
		t.asked = append(t.asked, api)
		for _, word := range t.words {
			if strings.Count(api, "/") == 1 && unicode.IsUpper(rune(word[0])) {
				t.asked = append(t.asked, api+"/"+word)
			}
		}
	}
	t.compared, t.limits = comparedIn(all, t.loops)
	return t, nil
}

// comparedIn returns the texts that templates compare anything with, and the numbers, with the next below and
// above each. Where templates have loops, there are no large numbers: loops may be in each other.
func comparedIn(sources []string, loops bool) (compared, limits []any) {
	texts, numbers := sets.New("", markText), sets.New(-1, 0, 1)
	for _, source := range sources {
		for _, action := range action.FindAllString(source, -1) {
			if !compares.MatchString(action) {
				continue
			}
			for _, text := range literal.FindAllString(action, -1) {
				texts.Insert(word.FindAllString(text, -1)...)
			}
			for _, found := range groups(digits, action) {
				number, _ := strconv.Atoi(found) // it is one
				numbers.Insert(number-1, number, number+1)
			}
		}
	}
	for _, text := range slices.Backward(sets.List(texts)) { // last those with which a chart most often can't be rendered
		compared = append(compared, text)
	}
	for _, number := range slices.Backward(sets.List(numbers)) {
		if !loops || number < 10 {
			limits = append(limits, float64(number))
		}
	}
	return compared, limits
}

// As is the same with another release.
func (t *Trial) As(named *metav1.ObjectMeta) (*Trial, error) {
	other := *t
	other.release, other.pins = named, map[string]any{}
	return &other, release.Pin(named, other.pins, t.overrides)
}

// ByDefault is what the chart makes where a spec says nothing.
func (t *Trial) ByDefault() ([]Rendered, error) {
	values, err := t.Values()
	if err != nil {
		return nil, err
	}
	return t.With(values)
}

// With is what the chart makes of values.
func (t *Trial) With(values map[string]any) ([]Rendered, error) {
	return t.render(Scenario{values: values}, false)
}

// Values are those of the chart and its subcharts, with what is pinned, and what only Chart.yaml says of values: what
// is imported from subcharts, and what turns them off.
func (t *Trial) Values() (map[string]any, error) {
	c := t.named()
	values, err := chartutil.CoalesceValues(c, runtime.DeepCopyJSON(t.pins))
	if err != nil {
		return nil, err
	}
	addSwitches(values, switches(c, nil))
	importing, err := t.enabled(values)
	if err != nil {
		return nil, err
	}
	return chartutil.MergeTables(values, importing.Values), nil
}

// Unpinned are the values without what is pinned.
func (t *Trial) Unpinned() (map[string]any, error) {
	bare := *t
	bare.pins = map[string]any{}
	return bare.Values()
}

// HandsOn is whether the chart writes what is at a path into an object in one of some scenarios, as it does with
// each key of a map that it hands on.
func (t *Trial) HandsOn(scenarios []Scenario, path []string) bool {
	marked := *t
	marked.pins = runtime.DeepCopyJSON(t.pins)
	return unstructured.SetNestedField(marked.pins, markText, path...) == nil &&
		slices.ContainsFunc(marked.renderAll(scenarios), func(r rendering) bool { return len(places(r.objects)) > 0 })
}

// Mentions is whether templates might name each part of a path that values lack.
func (t *Trial) Mentions(values map[string]any, path []string) bool {
	for i, key := range path {
		if _, found, _ := unstructured.NestedFieldNoCopy(values, path[:i+1]...); !found && !slices.Contains(t.words, key) {
			return false
		}
	}
	return true
}

// alternativesOf returns the texts that templates compare a value with. There are none if it is something
// else than a text by default.
func (t *Trial) alternativesOf(path []string, value any) (texts []any) {
	if _, isText := value.(string); !isText && value != nil {
		return nil
	}
	for i := range path {
		for _, text := range t.alternatives[strings.Join(path[i:], ".")] {
			if !slices.Contains(texts, text) {
				texts = append(texts, text)
			}
		}
	}
	return texts
}
