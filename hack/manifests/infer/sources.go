package infer

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
)

var (
	stable         = regexp.MustCompile(`^v[0-9]+$`)
	askedAPI       = regexp.MustCompile(`APIVersions\.Has\s+"([^"]+)"`)
	quotedAPI      = regexp.MustCompile("[\"`]([a-z0-9][-a-z0-9.]*\\.[a-z]+/v[0-9]\\w*(?:/[A-Z]\\w*)?)(?:/%s)?[\"`]")
	fieldOf        = regexp.MustCompile(`\.([A-Za-z_]\w*)`)
	quotedName     = regexp.MustCompile(`"([A-Za-z][-\w]{0,40})"`)
	tplFunction    = regexp.MustCompile(`\btpl\b`)
	parseFunction  = regexp.MustCompile(`\b(must)?[fF]rom(Yaml|Json|Toml)`)
	decodeFunction = regexp.MustCompile(`\bb(64|32)dec\b`)
	loopFunction   = regexp.MustCompile(`\b(until|untilStep|seq)\b`)
	compares       = regexp.MustCompile(`\b(eq|ne|lt|le|gt|ge|has|hasKey|get|index|dict|list|contains|hasPrefix|hasSuffix|regexMatch|mustRegexMatch)\b`)
	separator      = regexp.MustCompile("\\bsplit(?:n|List)?\\s+(?:\"([^\"]+)\"|`([^`]+)`)")
	literal        = regexp.MustCompile("\"[^\"]*\"|`[^`]*`")
	word           = regexp.MustCompile(`[A-Za-z0-9/][-\w./:]*`)
	digits         = regexp.MustCompile(`[\s(]([0-9]{1,6})(\.0)?\b`)
	filesName      = regexp.MustCompile(`\bFiles\b`)
	action         = regexp.MustCompile(`(?s)\{\{.*?\}\}`)
)

// sources are the templates of a chart and its subcharts, be these packed or not, and those in its files and
// defaults, which a chart may run by tpl.
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
	addActions := func(text string) { all = append(all, strings.Join(action.FindAllString(text, -1), "")) }
	for _, file := range c.Files {
		addActions(string(file.Data))
	}
	walk(c.Values, nil, func(_ []string, value any, _ bool) {
		text, _ := value.(string)
		addActions(text)
	})
	return all
}

// groups are what the first group of a pattern finds in a text.
func groups(pattern *regexp.Regexp, text string) (found []string) {
	for _, match := range pattern.FindAllStringSubmatch(text, -1) {
		found = append(found, match[1])
	}
	return found
}

// withoutFiles returns a chart without the files that its templates might read. Some templates copy all that
// they are given (deepCopy .), which takes longer than all the rest of a rendering if there is a README.
func withoutFiles(c *chart.Chart) *chart.Chart {
	copied := *c
	copied.Files = nil
	copied.SetDependencies()
	for _, subchart := range c.Dependencies() {
		copied.AddDependency(withoutFiles(subchart))
	}
	return &copied
}

// certifying finds functions that take seconds to make a certificate, and what only looks like one in texts and names.
var (
	certifying = regexp.MustCompile("\"(?:\\\\.|[^\"\\\\])*\"|`[^`]*`|[.$]\\w+|\\bgen(?:CA|SelfSignedCert|SignedCert)(?:WithKey)?\\b")
	reading    = regexp.MustCompile(`\bbuildCustomCert\b`)
)

// withoutCertificates returns a chart that makes no certificates, for that takes seconds, and no mark could be seen in one. A chart that
// reads the certificates it has made is returned as it is. What the functions are replaced with takes any arguments.
func withoutCertificates(c *chart.Chart) *chart.Chart {
	if slices.ContainsFunc(sources(c), reading.MatchString) {
		return c
	}
	copied := *c
	copied.Templates = nil
	for _, file := range c.Templates {
		text := action.ReplaceAllStringFunc(string(file.Data), func(action string) string {
			return certifying.ReplaceAllStringFunc(action, func(found string) string {
				if !strings.HasPrefix(found, "gen") {
					return found
				}
				return `dict "Cert" "certificate" "Key" "key"`
			})
		})
		copied.Templates = append(copied.Templates, &chart.File{Name: file.Name, Data: []byte(text)})
	}
	copied.SetDependencies()
	for _, subchart := range c.Dependencies() {
		copied.AddDependency(withoutCertificates(subchart))
	}
	return &copied
}
