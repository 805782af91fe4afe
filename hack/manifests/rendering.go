package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"path"
	"regexp"
	goruntime "runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	obj "demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/internal/operator"
	"demo.welcome.domain/welcome-operator/internal/release"
	"demo.welcome.domain/welcome-operator/internal/terminal"
)

func init() {
	log.SetOutput(io.Discard) // Helm's engine logs each value that a chart requires
	debug.SetGCPercent(400)   // a rendering leaves much behind, and there are thousands
	debug.SetMemoryLimit(int64(renderMemory / 2))
}

// What one rendering may take. More than that is taken by no chart that is meant to be used, and would be the end of the machine.
var (
	renderTime          = 30 * time.Second
	renderMemory uint64 = 4 << 30
)

// processors bounds how many renderings there are at once.
var processors = make(chan struct{}, goruntime.GOMAXPROCS(0))

// tooMuch is that a rendering takes more. Nothing can end it but the end of the process.
type tooMuch struct{ error }

// caught has a function return that a rendering took too much.
func caught(err *error) {
	switch why := recover().(type) {
	case nil:
	case tooMuch:
		*err = why
	default:
		panic(why)
	}
}

// bounded panics, for caught, if a rendering takes too much, which it says is because of why, a value, unless that is empty.
func bounded(chart, why string, render func()) {
	if why != "" {
		why = ", with " + why + ": pin that value (PIN, or overrideValues)"
	}
	done, end := make(chan struct{}), time.After(renderTime)
	go func() {
		defer close(done)
		render()
	}()
	for {
		select {
		case <-done:
			return
		case <-end:
			panic(tooMuch{fmt.Errorf("to render chart %s once takes more than %s%s", chart, renderTime, why)})
		case <-time.After(50 * time.Millisecond):
			var taken goruntime.MemStats
			goruntime.ReadMemStats(&taken)
			if taken.Sys-taken.HeapReleased > renderMemory {
				panic(tooMuch{fmt.Errorf("to render chart %s once takes more than %d MiB of memory%s", chart, renderMemory>>20, why)})
			}
		}
	}
}

// oldestKubernetes is what the operator runs on at least, and charts are tried as: Helm's own default is of 2020, for which charts make other objects, or none.
var oldestKubernetes = chartutil.KubeVersion{Version: "v1.32.0", Major: "1", Minor: "32"}

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
	sampleRelease = &metav1.ObjectMeta{Name: "sample", Namespace: "default"}
	otherRelease  = &metav1.ObjectMeta{Name: "other", Namespace: "elsewhere"}
)

// trial renders the chart of an entry with values of its choice.
type trial struct {
	chart *chart.Chart
	// release is that as which it is tried, pins are what the entry pins then.
	release *metav1.ObjectMeta
	pins    map[string]any
	// asked are the APIs that the chart looks for: what it would make where they are counts, too.
	asked []string
	// words are all that templates might take for the name of a value.
	words []string
	// alternatives are the texts that templates compare a value with, by the last part of its name: eq .Values.kind "DaemonSet".
	alternatives map[string][]any
	// compared are all texts, and limits the numbers, that templates compare anything with, or that are about such.
	compared, limits []any
	// broken are values that the chart can't be rendered with, although its author has thought of them.
	broken []leftOut
	// workloads are how many the chart makes at most whose pods are counted.
	workloads int
	// runsText is whether it may take the text of a value for a template.
	runsText bool
	// parsesText is whether it may parse one, and decodesText whether it may decode one.
	parsesText, decodesText bool
	// loops is whether it may make as many of something as a value says.
	loops bool
	// tests is whether those of the chart may be run, and so count as what it makes.
	tests bool
	// checked is whether the chart's own schema has to take the values, as it does when a release is made. A trial is more than that says.
	checked bool
	// allow is what the entry allows.
	allow     obj.Allow
	progress  *progress
	documents *documents
}

// progress has who waits for a large chart see that something goes on.
type progress struct {
	sync.Mutex
	told       time.Time
	renderings int
}

func (p *progress) tell(chart string) {
	p.Lock()
	defer p.Unlock()
	if p.renderings++; time.Since(p.told) > 5*time.Second {
		fmt.Fprintf(os.Stderr, "trying the values of %s: %d renderings so far\n", terminal.Line(chart), p.renderings)
		p.told = time.Now()
	}
}

var (
	stable         = regexp.MustCompile(`^v[0-9]+$`)
	askedAPI       = regexp.MustCompile(`APIVersions\.Has\s+"([^"]+)"`)
	fieldOf        = regexp.MustCompile(`\.([A-Za-z_]\w*)`)
	quotedName     = regexp.MustCompile(`"([A-Za-z][-\w]{0,40})"`)
	tplFunction    = regexp.MustCompile(`\btpl\b`)
	parseFunction  = regexp.MustCompile(`\b(must)?[fF]rom(Yaml|Json|Toml)`)
	decodeFunction = regexp.MustCompile(`\bb(64|32)dec\b`)
	loopFunction   = regexp.MustCompile(`\b(until|untilStep|seq)\b`)
	comparison     = regexp.MustCompile(`\beq\s+\(?[^"(){}]*\.(\w+)[\s)]+"([^"]+)"`)
	compares       = regexp.MustCompile(`\b(eq|ne|lt|le|gt|ge|has|hasKey|get|index|dict|list|contains|hasPrefix|hasSuffix|regexMatch|mustRegexMatch)\b`)
	literal        = regexp.MustCompile("\"[^\"]*\"|`[^`]*`")
	word           = regexp.MustCompile(`[A-Za-z0-9/][-\w./:]*`)
	digits         = regexp.MustCompile(`[\s(]([0-9]{1,6})(\.0)?\b`)
	action         = regexp.MustCompile(`(?s)\{\{.*?\}\}`)
)

// as is the same with another release.
func (t *trial) as(named *metav1.ObjectMeta, entry operator.Entry) (*trial, error) {
	other := *t
	other.release, other.pins = named, map[string]any{}
	return &other, release.Pin(named, other.pins, entry.OverrideValues)
}

// byDefault is what the chart makes where a spec says nothing.
func (t *trial) byDefault() ([]rendered, error) {
	values, err := t.values()
	if err != nil {
		return nil, err
	}
	return t.render(scenario{values: values}, false)
}

// making finds functions that take seconds to make keys, and what only looks like one in texts and names.
var making = regexp.MustCompile("\"(?:\\\\.|[^\"\\\\])*\"|`[^`]*`|[.$]\\w+|\\bgen(?:CA|SelfSignedCert|SignedCert|PrivateKey)(?:WithKey)?\\b")

// withoutKeys is a chart that makes no keys: nothing follows from what is in one. What is in the place of a function takes any arguments.
func withoutKeys(c *chart.Chart) *chart.Chart {
	copied := *c
	copied.Templates = nil
	for _, file := range c.Templates {
		text := action.ReplaceAllStringFunc(string(file.Data), func(action string) string {
			return making.ReplaceAllStringFunc(action, func(found string) string {
				switch {
				case !strings.HasPrefix(found, "gen"):
					return found
				case found == "genPrivateKey":
					return `printf "%.0skey"`
				}
				return `dict "Cert" "certificate" "Key" "key"`
			})
		})
		copied.Templates = append(copied.Templates, &chart.File{Name: file.Name, Data: []byte(text)})
	}
	copied.SetDependencies()
	for _, subchart := range c.Dependencies() {
		copied.AddDependency(withoutKeys(subchart))
	}
	return &copied
}

func newTrial(entry operator.Entry, c *chart.Chart) (*trial, error) {
	t, err := (&trial{chart: withoutKeys(c), alternatives: map[string][]any{}, tests: entry.Tests, allow: entry.Allow, progress: &progress{told: time.Now()}, documents: &documents{}}).as(sampleRelease, entry)
	if err != nil {
		return nil, err
	}
	words, texts, limits := map[string]bool{}, map[string]bool{"": true, markText: true}, map[int]bool{-1: true, 0: true, 1: true}
	for _, source := range sources(c) {
		for _, match := range askedAPI.FindAllStringSubmatch(source, -1) {
			t.asked = append(t.asked, match[1])
		}
		for _, pattern := range []*regexp.Regexp{fieldOf, quotedName} {
			for _, match := range pattern.FindAllStringSubmatch(source, -1) {
				words[match[1]] = true
			}
		}
		for _, match := range comparison.FindAllStringSubmatch(source, -1) {
			if field, text := match[1], any(match[2]); !slices.Contains(t.alternatives[field], text) {
				t.alternatives[field] = append(t.alternatives[field], text)
			}
		}
		for _, action := range action.FindAllString(source, -1) {
			if !compares.MatchString(action) {
				continue
			}
			for _, text := range literal.FindAllString(action, -1) {
				for _, word := range word.FindAllString(text, -1) {
					texts[word] = true
				}
			}
			for _, match := range digits.FindAllStringSubmatch(action, -1) {
				limit, _ := strconv.Atoi(match[1]) // it is one
				limits[limit-1], limits[limit], limits[limit+1] = true, true, true
			}
		}
		t.runsText = t.runsText || tplFunction.MatchString(source)
		t.parsesText = t.parsesText || parseFunction.MatchString(source)
		t.decodesText = t.decodesText || decodeFunction.MatchString(source)
		t.loops = t.loops || loopFunction.MatchString(source)
	}
	t.words = slices.Sorted(maps.Keys(words))
	for _, text := range slices.Backward(slices.Sorted(maps.Keys(texts))) { // last those with which a chart most often can't be rendered
		t.compared = append(t.compared, text)
	}
	for _, limit := range slices.Backward(slices.Sorted(maps.Keys(limits))) {
		if !t.loops || limit < 10 { // loops may be in loops
			t.limits = append(t.limits, float64(limit))
		}
	}
	return t, nil
}

// sources are the templates of a chart and its subcharts, be these packed or not, and those in its files and defaults, which a chart may run by tpl.
func sources(c *chart.Chart) (all []string) {
	subcharts := slices.Clone(c.Dependencies())
	slices.SortFunc(subcharts, func(a, b *chart.Chart) int { // Helm has read them in any order
		return cmp.Or(cmp.Compare(a.Name(), b.Name()), cmp.Compare(a.Metadata.Version, b.Metadata.Version))
	})
	for _, subchart := range subcharts {
		all = append(all, sources(subchart)...)
	}
	for _, file := range c.Templates {
		all = append(all, string(file.Data))
	}
	for _, file := range c.Files {
		all = append(all, action.FindAllString(string(file.Data), -1)...)
	}
	walk(c.Values, nil, func(_ []string, value any, _ bool) {
		text, _ := value.(string)
		all = append(all, action.FindAllString(text, -1)...)
	})
	return all
}

// values are those of the chart and its subcharts, with what is pinned.
func (t *trial) values() (map[string]any, error) {
	c := release.Private(t.chart)
	nameSubcharts(c)
	values, err := chartutil.CoalesceValues(c, runtime.DeepCopyJSON(t.pins))
	return values, err
}

// mentions is whether templates might name each part of a path that values lack.
func (t *trial) mentions(values map[string]any, path []string) bool {
	for i, key := range path {
		if _, found, _ := unstructured.NestedFieldNoCopy(values, path[:i+1]...); !found && !slices.Contains(t.words, key) {
			return false
		}
	}
	return true
}

// nameSubcharts gives those of a chart the names that Chart.yaml has for them (alias). Helm does so when it renders, and then leaves out those that are off.
func nameSubcharts(c *chart.Chart) {
	var all []*chart.Chart
	for _, subchart := range c.Dependencies() {
		nameSubcharts(subchart)
		named := false
		for _, d := range c.Metadata.Dependencies {
			if d.Name == subchart.Name() && chartutil.IsCompatibleRange(d.Version, subchart.Metadata.Version) {
				copied, metadata := *subchart, *subchart.Metadata
				metadata.Name = cmp.Or(d.Alias, d.Name)
				copied.Metadata = &metadata
				all, named = append(all, &copied), true
			}
		}
		if !named { // Chart.yaml does not have it
			all = append(all, subchart)
		}
	}
	c.SetDependencies(all...)
}

// errNoYAML is that a template does not render YAML.
var errNoYAML = errors.New("is no YAML")

// render returns what becomes of a scenario. leniently, what the chart requires counts as there.
func (t *trial) render(s scenario, leniently bool) (objects []rendered, err error) {
	processors <- struct{}{}
	defer func() { <-processors }()
	t.progress.tell(t.chart.Name())
	bounded(t.chart.Name(), s.why, func() { objects, err = t.renderAtAnyCost(s, leniently) })
	return objects, err
}

// rendering is what became of a scenario.
type rendering struct {
	objects []rendered
	err     error
}

// errNoPath is that a scenario has no place for a value.
var errNoPath = errors.New("there is no such value")

// renderAll renders scenarios leniently, as many at once as there are processors.
func (t *trial) renderAll(scenarios []scenario) []rendering {
	all := make([]rendering, len(scenarios))
	var rendering sync.WaitGroup
	for n, s := range scenarios {
		if s.values == nil {
			all[n].err = errNoPath
			continue
		}
		rendering.Go(func() {
			defer caught(&all[n].err)
			all[n].objects, all[n].err = t.render(s, true)
		})
	}
	rendering.Wait()
	for _, r := range all {
		if why := (tooMuch{}); errors.As(r.err, &why) {
			panic(why)
		}
	}
	return all
}

func (t *trial) renderAtAnyCost(s scenario, leniently bool) ([]rendered, error) {
	c := release.Private(t.chart)
	values := chartutil.CoalesceTables(runtime.DeepCopyJSON(t.pins), runtime.DeepCopyJSON(s.values))
	if err := chartutil.ProcessDependenciesWithMerge(c, values); err != nil {
		return nil, err
	}
	capabilities := chartutil.Capabilities{KubeVersion: oldestKubernetes, APIVersions: stableAPIs, HelmVersion: chartutil.DefaultCapabilities.HelmVersion}
	if s.everyAPI {
		capabilities.APIVersions = append(slices.Clone(stableAPIs), t.asked...)
	}
	options := chartutil.ReleaseOptions{Name: t.release.Name, Namespace: t.release.Namespace, Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValuesWithSchemaValidation(c, values, options, &capabilities, !t.checked)
	if err != nil {
		return nil, err
	}
	files, err := engine.Engine{LintMode: leniently}.Render(c, all)
	if err != nil {
		return nil, err
	}
	var objects []rendered
	for _, file := range slices.Sorted(maps.Keys(files)) {
		if base := path.Base(file); strings.HasPrefix(base, "_") || base == "NOTES.txt" {
			continue
		}
		documents, err := t.documents.of(file, files[file])
		if err != nil {
			return nil, fmt.Errorf("%s %w: %w", file, errNoYAML, err)
		}
		for _, r := range documents {
			if t.tests || !isTest(r.object) {
				objects = append(objects, r)
			}
		}
	}
	return objects, nil
}

// documents has what templates wrote last, parsed: most renderings make the same, and there are thousands.
type documents struct {
	sync.Mutex
	parsed map[written][]rendered
	size   int
}

type written struct{ file, text string }

func (d *documents) of(file, text string) ([]rendered, error) {
	d.Lock()
	all, there := d.parsed[written{file, text}]
	d.Unlock()
	if there {
		return all, nil
	}
	objects, err := obj.Documents(strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	for _, object := range objects {
		decode(object)
		all = append(all, rendered{file, object, leavesOf(object)})
	}
	d.Lock()
	defer d.Unlock()
	if d.size += len(text); d.parsed == nil || d.size > maxWritten {
		d.parsed, d.size = map[written][]rendered{}, len(text)
	}
	d.parsed[written{file, text}] = all
	return all, nil
}

// maxWritten is how much text they are of, in bytes. Parsed, it takes many times that.
const maxWritten = 16 << 20

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

// isTest is whether an object is there for helm test only.
func isTest(object *unstructured.Unstructured) bool {
	events := object.GetAnnotations()["helm.sh/hook"]
	return events != "" && !slices.ContainsFunc(strings.Split(events, ","), func(event string) bool {
		return !slices.Contains([]string{"test", "test-success"}, strings.TrimSpace(event))
	})
}

// scenario is a state of all values in which a chart is tried.
type scenario struct {
	values map[string]any
	// everyAPI is whether the cluster has each that the chart looks for, and not only Kubernetes' own.
	everyAPI bool
	// why is the value that makes it differ from the one before, empty for the first ones.
	why string
}

// scenarios are the chart as it comes, as its samples have it, and each of these with all options on and with all off, where the cluster
// has all APIs, and with a text that a template asks for (architecture: high-availability) if that makes another kind of objects.
func (t *trial) scenarios(samples []map[string]any) ([]scenario, error) {
	values, err := t.values()
	if err != nil {
		return nil, err
	}
	var all []scenario
	var renderings [][]rendered
	kinds := map[string]bool{}
	add := func(s scenario, forNewKinds bool) {
		objects, err := t.render(s, true)
		brings := false
		for _, r := range objects {
			brings = brings || !kinds[r.object.GetKind()]
		}
		if len(all) > 0 && (err != nil || forNewKinds && !brings || slices.ContainsFunc(renderings, func(other []rendered) bool { return same(objects, other) })) {
			return
		}
		for _, r := range objects {
			kinds[r.object.GetKind()] = true
		}
		all, renderings = append(all, s), append(renderings, objects)
	}
	for _, spec := range append([]map[string]any{{}}, samples...) {
		begin := scenario{values: chartutil.CoalesceTables(runtime.DeepCopyJSON(spec), runtime.DeepCopyJSON(values))}
		on := t.switched(begin, true)
		everywhere := on
		everywhere.everyAPI = true
		for _, s := range []scenario{begin, on, t.switched(begin, false), everywhere} {
			add(s, false)
		}
		for _, path := range leaves(on.values, nil) {
			for _, text := range t.alternatives[path[len(path)-1]] {
				other, _ := on.with(path, text)
				add(other, true)
			}
		}
	}
	return all, nil
}

// with is a scenario that has another value at a path, in which [] stands for every element of a list. There is none if there is no such path.
func (s scenario) with(path []string, value any) (scenario, bool) {
	s.values = runtime.DeepCopyJSON(s.values)
	return s, put(s.values, path, value)
}

// switched has every option on, or off, that can be together with those before it.
func (t *trial) switched(begin scenario, on bool) scenario {
	paths := options(begin.values, nil)
	s := begin
	for _, path := range paths {
		s, _ = s.with(path, on)
	}
	if _, err := t.render(s, true); err == nil {
		return s
	}
	s = begin
	for _, path := range paths {
		more, _ := s.with(path, on)
		if _, err := t.render(more, true); err == nil {
			s = more
		}
	}
	return s
}

// options are the paths of all values that are true or false.
func options(value any, path []string) [][]string {
	switch value := value.(type) {
	case bool:
		return [][]string{slices.Clone(path)}
	case map[string]any:
		var all [][]string
		for _, key := range slices.Sorted(maps.Keys(value)) {
			all = append(all, options(value[key], append(path, key))...)
		}
		return all
	}
	return nil
}

// made is a kind of objects that a chart makes, or one of them by a name that allow.cluster does not have among others of its kind.
type made struct {
	apiVersion, kind string
	file             string
	// when is the value that it needs, empty if it is there by default.
	when string
	// objects are all that differ: most renderings make the same, and there are thousands.
	objects []variant
}

// variant is an object as it is with a value, when, or by default if that is empty.
type variant struct {
	rendered
	when string
}

// kinds are those that the chart makes in some scenario, or in one where a single value is another one.
func (t *trial) kinds(scenarios []scenario) ([]made, error) {
	found, known, seen := map[string]*made{}, map[*unstructured.Unstructured]bool{}, map[[sha256.Size]byte]bool{}
	note := func(objects []rendered, when string) {
		scalable := map[string]bool{}
		for _, r := range objects {
			if strings.HasPrefix(r.object.GetAPIVersion(), "apps/") && r.object.GetKind() != "DaemonSet" {
				scalable[r.object.GetKind()+r.object.GetName()] = true
			}
			t.workloads = max(t.workloads, len(scalable))
			key := t.key(r.object)
			if found[key] == nil {
				found[key] = &made{apiVersion: r.object.GetAPIVersion(), kind: r.object.GetKind(), file: path.Base(r.file), when: when}
			}
			if known[r.object] {
				continue
			}
			known[r.object] = true
			if content := sha256.Sum256([]byte(compact(r.object.Object))); !seen[content] {
				seen[content] = true
				found[key].objects = append(found[key].objects, variant{r, when})
			}
		}
	}
	objects, err := t.render(scenarios[0], false)
	if err != nil {
		return nil, err
	}
	note(objects, "")
	for i, begin := range scenarios {
		begin.why = "several options" // or what a sample says
		single := []scenario{begin}   // first: what it has is not because of another option
		for _, path := range leaves(begin.values, nil) {
			now, _, _ := unstructured.NestedFieldNoCopy(begin.values, path...)
			var others []any
			switch now := now.(type) {
			case bool:
				others = []any{!now}
			case string:
				others = t.alternatives[path[len(path)-1]]
			}
			for _, other := range others {
				s, _ := begin.with(path, other)
				s.why = fmt.Sprintf("%s: %v", strings.Join(path, "."), other)
				single = append(single, s)
			}
		}
		for n, of := range t.renderAll(single) {
			when := single[n].why
			if i > 0 && n > 0 {
				when = begin.why + " and " + when
			}
			note(of.objects, when)
			if of.err != nil && i == 0 { // options that are on together may exclude each other
				line, _, _ := strings.Cut(of.err.Error(), "\n")
				t.broken = append(t.broken, leftOut{path: when, why: line})
			}
		}
	}
	var all []made
	for _, key := range slices.Sorted(maps.Keys(found)) {
		all = append(all, *found[key])
	}
	return all, nil
}

// key is the same for objects that the operator may make, or may not, together.
func (t *trial) key(o *unstructured.Unstructured) string {
	key, of := o.GetAPIVersion()+"/"+o.GetKind(), o.GroupVersionKind().GroupKind()
	if t.allow.HasCluster(of) && t.allow.InNoNamespace(t.release, of, o.GetName()) != nil {
		key += "/" + o.GetName()
	}
	return key
}

// leaves are the paths of all values that are no maps with something in them.
func leaves(value any, path []string) [][]string {
	fields, ok := value.(map[string]any)
	if !ok || len(fields) == 0 && len(path) > 0 { // a chart may have no values at all
		return [][]string{slices.Clone(path)}
	}
	var all [][]string
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		all = append(all, leaves(fields[key], append(path, key))...)
	}
	return all
}

// same is whether two renderings are.
func same(a, b []rendered) bool {
	text := func(objects []rendered) string {
		var all strings.Builder
		for _, r := range objects {
			all.WriteString(compact(r.object.Object))
		}
		return all.String()
	}
	return text(a) == text(b)
}
