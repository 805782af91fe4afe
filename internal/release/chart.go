package release

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"k8s.io/apimachinery/pkg/runtime"
)

var (
	// capable and looking find what makes the output of a template depend on the cluster: on its version and APIs,
	// or its objects.
	capable = regexp.MustCompile(`\.Capabilities\b`)
	looking = regexp.MustCompile(`^lookup$`)
	// tpl and running find what runs values as templates, which may ask the cluster themselves: running also in notes
	// and files, which are not parsed.
	tpl     = regexp.MustCompile(`^tpl$`)
	running = regexp.MustCompile(`\btpl\b`)

	// deleteHook finds the hooks of a deletion, which a template or a value says in words.
	deleteHook = regexp.MustCompile(`(pre|post)-delete`)
	// chancy finds functions whose results differ each time and may be kept by somebody: passwords, keys,
	// times.
	chancy = regexp.MustCompile(`\b(rand[A-Z]\w*|gen[A-Z]\w*|uuidv4|htpasswd|bcrypt|encryptAES|shuffle|now)\b`)
	// timed finds what tells the time.
	timed = regexp.MustCompile(`\bnow\b`)
	// clocks finds functions that tell the time where they are given none, and unordered those whose results come in
	// another order each time: their names are words of other things, too.
	clocks    = regexp.MustCompile(`^(date|dateInZone|date_in_zone|htmlDate|htmlDateInZone|ago|durationRound)$`)
	unordered = regexp.MustCompile(`^(keys|values)$`)
	// revising finds what tells an upgrade, or a revision, from another.
	revising = regexp.MustCompile(`\b(Revision|IsUpgrade|IsInstall)\b`)
	// reading finds what reads files of the chart.
	reading = regexp.MustCompile(`\.Files\b`)
	// hooking finds hooks.
	hooking = regexp.MustCompile(`helm\.sh/hook`)

	// namedHooks finds the hook events that a template or a value names, except in YAML comments; commented
	// finds template comments.
	namedHooks = regexp.MustCompile(`(?m)^[^#\n]*helm\.sh/hook["']?[ \t]*:[ \t]*["']?([\w-]+(?:[ \t]*,[ \t]*[\w-]+)*)(?:["',}#\s]|\{\{-?\s*end\b|$)`)
	commented  = regexp.MustCompile(`(?s)\{\{-?\s*/\*.*?\*/`)

	capableText = regexp.MustCompile(`\{\{[^{}]*\.Capabilities\b`)
	lookingText = regexp.MustCompile(`\{\{[^{}]*\blookup\b`)
	chancyText  = regexp.MustCompile(`\{\{[^{}]*\b(date|dateInZone|date_in_zone|htmlDate|htmlDateInZone|ago|durationRound|keys|values)\b`)
)

// pagePathAnnotation in a Chart.yaml tells the path of the URL at which people see what the chart
// deploys. Without it, that is /.
const pagePathAnnotation = "webapp.demo.welcome.domain/page-path"

// chartSource is a chart as a source of releases.
type chartSource struct {
	digest string
	// asks is what the chart asks the cluster, and valuesAsk whether its values may ask as well.
	asks      questions
	valuesAsk bool
	// runsValues is whether the chart may run values as templates, if only in its notes.
	runsValues bool
	// incomplete is whether the values may enable a subchart that charts/ lacks, or that has a broken schema.
	incomplete bool
	// deleteHooks is whether the chart may have hooks that run when a custom resource goes, and hooking whether
	// it may have any.
	deleteHooks, hooking bool
	// chancy is whether the chart may render something else each time, and timed whether it may each second.
	chancy, timed bool
	// revised is whether the chart may render something else at an upgrade than at an installation, or at each revision.
	revised bool
	// loops is whether the chart has loops that numbers bound, and costly whether it has costly functions.
	loops, costly bool
	// schema of the values, nil where Helm is to look, which compiles it for each rendering: 7 % of the CPU of an
	// install.
	schema *jsonschema.Schema
}

// questions say whether the cluster's version and APIs, and its objects, decide about a rendering besides the
// inputs. Without that distinction, a new CRD, or an aggregated API that is down, would have the releases of
// all charts rendered.
type questions struct{ capabilities, objects bool }

func pagePath(c *chart.Chart) string {
	return "/" + strings.TrimPrefix(c.Metadata.Annotations[pagePathAnnotation], "/")
}

// packages finds packed subcharts, and what proves whose they are.
var packages = regexp.MustCompile(`^charts/.*\.tgz(\.prov)?$`)

// ChartDigest is the digest of a chart's files. Of a packed subchart, the content counts: helm dependency build
// packs it anew, with another time, whenever somebody builds an image, which would upgrade every release.
func ChartDigest(c *chart.Chart) string {
	files := slices.DeleteFunc(slices.Clone(c.Raw), func(file *chart.File) bool { return packages.MatchString(file.Name) })
	if len(files) < len(c.Raw) {
		for _, dependency := range c.Dependencies() {
			files = append(files, &chart.File{Name: "charts/" + dependency.Name(), Data: []byte(ChartDigest(dependency))})
		}
	}
	slices.SortFunc(files, func(a, b *chart.File) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), bytes.Compare(a.Data, b.Data))
	})
	hash := sha256.New()
	for _, file := range files {
		_, _ = fmt.Fprintf(hash, "%s\x00%d\x00%s", file.Name, len(file.Data), file.Data) // a hash takes any write
	}
	return hex.EncodeToString(hash.Sum(nil)[:16])
}

func newChartSource(c *chart.Chart) chartSource {
	read := readFiles(c)
	schema, noSchema := checkSchemas(c)
	if len(c.Dependencies()) > 0 {
		schema = nil // these may have their own
	}
	// Code is in braces. Without that, every dashboard would have the word now.
	runs := func(words *regexp.Regexp) bool {
		return says(c, words) || regexp.MustCompile(`\{\{[^{}]*(?:`+words.String()+`)`).MatchString(read)
	}
	tells := mentions(c, clocks)
	source := chartSource{
		digest: ChartDigest(c), asks: questions{mentions(c, capable), mentions(c, looking)},
		valuesAsk: mentions(c, tpl), runsValues: runs(running), incomplete: len(missing(c, "")) > 0 || noSchema != nil,
		deleteHooks: says(c, deleteHook) || deleteHook.MatchString(read), hooking: says(c, hooking) || hooking.MatchString(read),
		chancy: runs(chancy) || tells || mentions(c, unordered) || chancyText.MatchString(read), timed: runs(timed) || tells, loops: runs(looping), costly: runs(costly), schema: schema,
		revised: runs(revising),
	}
	source.asks = source.questions(defaults(c) + read)
	return source
}

// questions of the chart with these values, a text that may have templates with questions of their own.
func (s chartSource) questions(values string) questions {
	return questions{
		capabilities: s.asks.capabilities || s.valuesAsk && capableText.MatchString(values),
		objects:      s.asks.objects || s.valuesAsk && lookingText.MatchString(values),
	}
}

// accepts is whether the effective values are known to be as the chart's schema wants them. Else Helm validates
// them, and words what is wrong.
func (s chartSource) accepts(values map[string]any) bool {
	return s.schema != nil && s.schema.Validate(values) == nil
}

// checkSchemas returns the schema of a chart, nil if it has none. It fails if the chart or one of its subcharts has a
// schema that Helm can't compile, or only with what it would read elsewhere at each rendering: a file of the machine, or
// a page.
func checkSchemas(c *chart.Chart) (schema *jsonschema.Schema, err error) {
	if c.Schema != nil {
		schema, err = compiled(c.Schema)
		var elsewhere *jsonschema.LoadURLError
		if errors.As(err, &elsewhere) {
			return nil, fmt.Errorf("chart %s: %s refers to %s, which Helm would read each time: copy what that says into the schema ($defs) and refer to it there (#/$defs/NAME), or remove the schema", c.Name(), chartutil.SchemafileName, elsewhere.URL)
		}
		if err != nil {
			return nil, fmt.Errorf("chart %s: %s is no schema: %w", c.Name(), chartutil.SchemafileName, err)
		}
	}
	for _, subchart := range c.Dependencies() {
		if _, err := checkSchemas(subchart); err != nil {
			return nil, err
		}
	}
	return schema, nil
}

// compiled is a schema as Helm compiles it, except that it may not refer to files or pages. A panic of the compiler, as on
// {"multipleOf": 1e-9999999}, is an error: it would end the operator for all kinds.
func compiled(text []byte) (schema *jsonschema.Schema, err error) {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	defer func() {
		if why := recover(); why != nil {
			schema, err = nil, fmt.Errorf("%v", why)
		}
	}()
	const place = "file:///values.schema.json" // as Helm has it, for references within
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(jsonschema.SchemeURLLoader{"urn": anything{}})
	if err := compiler.AddResource(place, document); err != nil {
		return nil, err
	}
	return compiler.Compile(place)
}

// anything is the schema that a name (urn:) stands for, as in Helm: every value is valid.
type anything struct{}

func (anything) Load(string) (any, error) { return true, nil }

// hasDeleteHooks is whether the chart may have hooks that run when a custom resource with these values goes.
func (s chartSource) hasDeleteHooks(values map[string]any) bool {
	return s.deleteHooks || say(values, deleteHook)
}

// hooks is whether the chart with these values may have hooks: many charts have annotations from their values.
func (s chartSource) hooks(values map[string]any) bool { return s.hooking || say(values, hooking) }

// chances is whether the chart may render something else each time. It may run these values as templates.
func (s chartSource) chances(values map[string]any) bool {
	return s.chancy || s.valuesAsk && (say(values, chancy) || say(values, chancyText))
}

// UnknownHooks are hooks of a chart, with their places, whose event Helm does not know, as a misspelt one: it
// leaves these objects out without a word.
func UnknownHooks(c *chart.Chart) (unknown []string) {
	look := func(place, text string) {
		for _, found := range namedHooks.FindAllStringSubmatch(commented.ReplaceAllString(text, ""), -1) {
			for event := range strings.SplitSeq(found[1], ",") {
				if !slices.Contains(hookEvents, strings.ToLower(strings.TrimSpace(event))) {
					unknown = append(unknown, fmt.Sprintf("%s: helm.sh/hook: %s", place, found[1]))
					break
				}
			}
		}
	}
	for _, template := range c.Templates {
		if path.Base(template.Name) != "NOTES.txt" {
			look(path.Join(c.ChartFullPath(), template.Name), string(template.Data))
		}
	}
	for _, file := range c.Raw {
		if file.Name == chartutil.ValuesfileName {
			look(path.Join(c.ChartFullPath(), file.Name), string(file.Data))
		}
	}
	for _, subchart := range c.Dependencies() {
		unknown = append(unknown, UnknownHooks(subchart)...)
	}
	return unknown
}

// hookEvents are those for which Helm runs hooks.
var hookEvents = []string{
	"pre-install", "post-install", "pre-upgrade", "post-upgrade", "pre-rollback", "post-rollback", "pre-delete", "post-delete", "test", "test-success",
}

// say is whether values have the words.
func say(values map[string]any, words *regexp.Regexp) bool {
	text, err := json.Marshal(values)
	return err != nil || words.Match(text)
}

// says is whether a template or a default of c or of its subcharts has the words.
func says(c *chart.Chart, words *regexp.Regexp) bool {
	return words.MatchString(defaults(c)) || slices.ContainsFunc(c.Templates, func(t *chart.File) bool { return words.Match(t.Data) }) ||
		slices.ContainsFunc(c.Dependencies(), func(d *chart.Chart) bool { return says(d, words) })
}

// readFiles are the files besides templates and values of c and its subcharts, as one text, if a template reads
// any: they may become objects of the release. Documentation is left out.
func readFiles(c *chart.Chart) (text string) {
	if says(c, reading) {
		for _, file := range c.Files {
			if path.Ext(file.Name) != ".md" {
				text += string(file.Data) + "\n"
			}
		}
	}
	for _, subchart := range c.Dependencies() {
		text += readFiles(subchart)
	}
	return text
}

// defaults are the values of a chart and its subcharts, as a text.
func defaults(c *chart.Chart) string {
	values, _ := json.Marshal(c.Values) // it was YAML
	text := string(values)
	for _, subchart := range c.Dependencies() {
		text += defaults(subchart)
	}
	return text
}

// mentions is whether a template of c or its subcharts uses what. One that cannot be parsed cannot be rendered
// either, and NOTES.txt is not applied.
func mentions(c *chart.Chart, what *regexp.Regexp) bool {
	return slices.ContainsFunc(c.Templates, func(t *chart.File) bool {
		if path.Base(t.Name) == "NOTES.txt" {
			return false
		}
		trees, err := ParseTemplates(t.Name, string(t.Data))
		if err != nil {
			return false
		}
		for _, tree := range trees {
			if slices.ContainsFunc(words(tree.Root), what.MatchString) {
				return true
			}
		}
		return false
	}) || slices.ContainsFunc(c.Dependencies(), func(d *chart.Chart) bool { return mentions(d, what) })
}

// Private returns a copy of a chart that has subcharts, or names some: Helm removes those that the values
// disable, and the next release would lack them, too.
func Private(c *chart.Chart) *chart.Chart {
	if len(c.Dependencies())+len(c.Metadata.Dependencies) == 0 {
		return c
	}
	return copyOf(c)
}

func copyOf(c *chart.Chart) *chart.Chart {
	copied, metadata := *c, *c.Metadata
	metadata.Dependencies = nil
	for _, dependency := range c.Metadata.Dependencies {
		d := *dependency
		metadata.Dependencies = append(metadata.Dependencies, &d)
	}
	copied.Metadata, copied.Values = &metadata, runtime.DeepCopyJSON(c.Values)
	var subcharts []*chart.Chart
	for _, subchart := range c.Dependencies() {
		subcharts = append(subcharts, copyOf(subchart))
	}
	copied.SetDependencies(subcharts...)
	return &copied
}
