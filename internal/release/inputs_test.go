package release

import (
	"slices"
	"strings"
	"testing"

	"github.com/Masterminds/sprig/v3"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
)

func TestDigestFollowsEveryInput(t *testing.T) {
	base := func() inputs {
		return inputs{Chart: "c", Capabilities: "k", Values: map[string]any{"name": "a", "service": map[string]any{"port": int64(80)}}}
	}
	want, err := base().digest()
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := base().digest(); again != want {
		t.Errorf("equal inputs have the digests %s and %s", want, again)
	}
	changes := map[string]func(*inputs){
		"chart":        func(i *inputs) { i.Chart = "d" },
		"capabilities": func(i *inputs) { i.Capabilities = "l" },
		"value":        func(i *inputs) { i.Values["name"] = "b" },
		"nested value": func(i *inputs) { i.Values["service"].(map[string]any)["port"] = int64(81) },
		"new value":    func(i *inputs) { i.Values["x"] = nil },
		"value's type": func(i *inputs) { i.Values["service"].(map[string]any)["port"] = "80" },
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			changed := base()
			change(&changed)
			if got, _ := changed.digest(); got == want {
				t.Error("the digest did not change")
			}
		})
	}
}

func TestSource(t *testing.T) {
	of := func(template string, dependencies ...*chart.Chart) *chart.Chart {
		file := &chart.File{Name: "templates/a.yaml", Data: []byte(template)}
		c := &chart.Chart{Metadata: &chart.Metadata{Name: "c"}, Raw: []*chart.File{file}, Templates: []*chart.File{file}}
		c.AddDependency(dependencies...)
		return c
	}
	if newChartSource(of("a")).digest == newChartSource(of("b")).digest {
		t.Error("another template has the same digest")
	}
	for template, pure := range map[string]bool{
		`name: {{ .Release.Name }}`:                               true,
		`nowhere: {{ .Values.lookups }}`:                          true,
		`{{ lookup "v1" "Secret" "ns" "x" }}`:                     false,
		`pw: {{ randAlphaNum 8 }}`:                                false,
		`{{ if .Values.a }}{{ else }}{{ shuffle "ab" }}{{ end }}`: false,
		`{{ define "a" }}{{ htmlDateInZone .a "UTC" }}{{ end }}`:  false,
		`{{ range $i, $e := (tpl .Values.text $) }}{{ end }}`:     false,
		`{{ with $.Release }}{{ .Revision }}{{ end }}`:            false,
		`{{ template "a" (.Files.Get "a" | durationRound) }}`:     false,
		`{{/* lookup */}}now: "{{ "shuffle" }}" # tpl`:            true,
		`at: {{ now | date "2006" }}`:                             false,
		`{{ $ca := genCA "x" 1 }}`:                                false,
		`revision: {{ .Release.Revision | quote }}`:               false,
		`{{ if .Release.IsInstall }}first: true{{ end }}`:         false,
		`version: {{ .Capabilities.KubeVersion }}`:                true,
	} {
		if got := newChartSource(of(template)).pure; got != pure {
			t.Errorf("pure(%s) = %v", template, got)
		}
		if got, asks := newChartSource(of(template)).asksCluster, strings.Contains(template, "Capabilities"); got != asks {
			t.Errorf("asksCluster(%s) = %v", template, got)
		}
		if got := newChartSource(of("a", of(template))).pure; got != pure {
			t.Errorf("pure as a subchart(%s) = %v", template, got)
		}
	}
}

// Each function of sprig is known to be impure, or here: a new version of it brings none that nobody has looked at.
func TestEveryFunctionIsKnown(t *testing.T) {
	// The order of keys and values is left to chance, too: a chart that cares sorts them. Helm has no env and no expandenv.
	pure := strings.Fields(`
		env expandenv keys values
		abbrev abbrevboth add add1 add1f addf adler32sum all any append atoi b32dec b32enc b64dec b64enc base biggest
		buildCustomCert camelcase cat ceil chunk clean coalesce compact concat contains dateModify date_modify decryptAES deepCopy
		deepEqual default derivePassword dict dig dir div divf duration empty ext fail first float64 floor fromJson get has hasKey
		hasPrefix hasSuffix hello indent initial initials int int64 isAbs join kebabcase kindIs kindOf last list lower max maxf merge
		mergeOverwrite min minf mod mul mulf mustAppend mustChunk mustCompact mustDateModify mustDeepCopy mustFirst mustFromJson mustHas
		mustInitial mustLast mustMerge mustMergeOverwrite mustPrepend mustPush mustRegexFind mustRegexFindAll mustRegexMatch
		mustRegexReplaceAll mustRegexReplaceAllLiteral mustRegexSplit mustRest mustReverse mustSlice mustToJson mustToPrettyJson
		mustToRawJson mustUniq mustWithout must_date_modify nindent nospace omit osBase osClean osDir osExt osIsAbs pick pluck plural
		prepend push quote regexFind regexFindAll regexMatch regexQuoteMeta regexReplaceAll regexReplaceAllLiteral regexSplit
		repeat replace rest reverse round semver semverCompare seq set sha1sum sha256sum sha512sum slice snakecase sortAlpha split
		splitList splitn squote sub subf substr swapcase ternary title toDecimal toJson toPrettyJson toRawJson toString toStrings
		trim trimAll trimPrefix trimSuffix trimall trunc tuple typeIs typeIsLike typeOf uniq unixEpoch unset until untilStep untitle
		upper urlJoin urlParse without wrap wrapWith`)
	for name := range sprig.TxtFuncMap() {
		if known := slices.Contains(pure, name); known == impure.MatchString(name) {
			t.Errorf("%s: does its output depend on its arguments only? Then add it here, else to impure", name)
		}
	}
}

func TestCapabilitiesDigestIgnoresOrder(t *testing.T) {
	a := &chartutil.Capabilities{APIVersions: chartutil.VersionSet{"v1", "apps/v1"}}
	b := &chartutil.Capabilities{APIVersions: chartutil.VersionSet{"apps/v1", "v1"}}
	if capabilitiesDigest(a) != capabilitiesDigest(b) {
		t.Error("the order of APIs changes the digest")
	}
	b.KubeVersion.Version = "v1.36.0"
	if capabilitiesDigest(a) == capabilitiesDigest(b) {
		t.Error("another server version has the same digest")
	}
}

// Helm takes subcharts that the values disable out of the chart that it renders. The next release has other values.
func TestPrivate(t *testing.T) {
	c := &chart.Chart{
		Metadata: &chart.Metadata{Name: "c", Dependencies: []*chart.Dependency{{Name: "sub", Condition: "sub.enabled"}}},
		Values:   map[string]any{"sub": map[string]any{"enabled": true}},
	}
	c.AddDependency(&chart.Chart{Metadata: &chart.Metadata{Name: "sub"}, Values: map[string]any{"a": "b"}})
	mine := private(c)
	if err := chartutil.ProcessDependenciesWithMerge(mine, map[string]any{"sub": map[string]any{"enabled": false}}); err != nil {
		t.Fatal(err)
	}
	if len(mine.Dependencies()) != 0 {
		t.Errorf("the subchart is not disabled: %v", mine.Dependencies())
	}
	if len(c.Dependencies()) != 1 || len(c.Metadata.Dependencies) != 1 || c.Dependencies()[0].Parent() != c {
		t.Errorf("the chart itself has lost its subchart: %v, %v", c.Dependencies(), c.Metadata.Dependencies)
	}
	again := private(c)
	if err := chartutil.ProcessDependenciesWithMerge(again, map[string]any{}); err != nil {
		t.Fatal(err)
	}
	if len(again.Dependencies()) != 1 || again.Dependencies()[0].Parent() != again {
		t.Errorf("the next one lacks the subchart: %v", again.Dependencies())
	}
}
