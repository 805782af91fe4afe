package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"demo.welcome.domain/welcome-operator/hack/manifests/infer"
)

const chartsDir = "helm-charts"

// inCopy changes into a copy of what is read and written.
func inCopy(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	for _, from := range []string{chartsDir, "config"} {
		if err := os.CopyFS(filepath.Join(dir, from), os.DirFS("../../"+from)); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"watches.yaml", projectFile, catalogFile, releasedFile} {
		write(t, filepath.Join(dir, file), read(t, "../../"+file))
	}
	t.Chdir(dir)
}

// files of the working directory, with what is in them.
func files(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	if err := filepath.WalkDir(".", func(file string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			all[file] = read(t, file)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestGeneratedFilesAreUpToDate(t *testing.T) {
	inCopy(t)
	committed := files(t)
	if err := run(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(committed, files(t)); diff != "" {
		t.Errorf("out of date: make manifests (-committed +generated):\n%s", diff)
	}
}

// A second kind is a chart and an entry, and nothing else.
func TestEveryEntryGetsItsCRD(t *testing.T) {
	inCopy(t)
	write(t, "helm-charts/goodbye/Chart.yaml", "apiVersion: v2\nname: goodbye\nversion: 0.1.0\n")
	write(t, "helm-charts/goodbye/values.yaml", "text: bye\npage: {color: red, image: one}\nimage: two\n")
	write(t, "helm-charts/goodbye/README.md", "<!-- values: written by make manifests -->\n<!-- end of values -->\n")
	write(t, "helm-charts/goodbye/values.schema.json", `{
		"x-crd": {}, "description": "What it says.", "type": "object", "additionalProperties": false, "required": ["image"],
		"properties": {
			"text": {"description": "The text.", "type": "string", "maxLength": 10},
			"image": {"description": "The image.", "type": "string"},
			"page": {"description": "The page.", "type": "object", "additionalProperties": false, "properties": {
				"color": {"description": "The color.", "type": "string", "nullable": true},
				"image": {"description": "The picture.", "type": "string"}}}}}`)
	write(t, "watches.yaml", read(t, "watches.yaml")+"- {group: example.com, version: v1alpha1, kind: Goodbye, chart: helm-charts/goodbye, overrideValues: {image: z, page.image: z}, releaseName: kind}\n")
	if err := run(); err != nil {
		t.Fatal(err)
	}
	read(t, "config/crd/bases/webapp.demo.welcome.domain_welcomes.yaml")

	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict([]byte(read(t, "config/crd/bases/example.com_goodbyes.yaml")), &crd); err != nil {
		t.Fatal(err)
	}
	version := crd.Spec.Versions[0]
	if rule := version.Schema.OpenAPIV3Schema.XValidations[0]; !strings.Contains(rule.Rule, "{0,43}") || !strings.Contains(rule.Message, "at most 45 ") {
		t.Errorf("with .goodbye behind it, a name is too long for Helm: %+v", rule)
	}
	if crd.Name != "goodbyes.example.com" || crd.Spec.Names.Kind != "Goodbye" || version.Name != "v1alpha1" {
		t.Errorf("CRD is %s, %s %s", crd.Name, version.Name, crd.Spec.Names.Kind)
	}
	if version.Subresources.Status == nil || version.Subresources.Scale != nil {
		t.Errorf("subresources of a kind without replicas are %+v; want status only", version.Subresources)
	}
	spec := version.Schema.OpenAPIV3Schema.Properties["spec"]
	if _, pinned := spec.Properties["image"]; pinned || len(spec.Required) > 0 {
		t.Error("image is pinned, and still in the CRD")
	}
	page := spec.Properties["page"]
	if _, pinned := page.Properties["image"]; pinned {
		t.Errorf("page.image is pinned; page is %+v", page.Properties)
	}
	if want := `{}`; string(spec.Default.Raw) != want {
		t.Errorf("default of spec is %s, want %s", spec.Default.Raw, want)
	}
	color := page.Properties["color"]
	if page.Default != nil || color.Default != nil || color.Description != "The color. Default: red." {
		t.Errorf("page.color is %q with default %v in %v: it should be the chart's, and told", color.Description, color.Default, page.Default)
	}
	if !color.Nullable {
		t.Error("null does not take out the default of page.color")
	}
	if readme := read(t, "helm-charts/goodbye/README.md"); !strings.Contains(readme, "| `page.color` | `\"red\"` | string | The color. |\n") {
		t.Errorf("README lacks page.color:\n%s", readme)
	}
}

// The API server stores the default that the scale subresource needs, and no other.
func TestOnlyReplicasAreDefaulted(t *testing.T) {
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict([]byte(read(t, "../../config/crd/bases/webapp.demo.welcome.domain_welcomes.yaml")), &crd); err != nil {
		t.Fatal(err)
	}
	version := crd.Spec.Versions[0]
	if version.Subresources.Scale.SpecReplicasPath != replicasPath {
		t.Errorf("the scale subresource is at %s", version.Subresources.Scale.SpecReplicasPath)
	}
	var defaults []string
	var walk func(schema apiextensionsv1.JSONSchemaProps, path string)
	walk = func(schema apiextensionsv1.JSONSchemaProps, path string) {
		if schema.Default != nil {
			defaults = append(defaults, path+"="+string(schema.Default.Raw))
		}
		for name, property := range schema.Properties {
			walk(property, path+"."+name)
		}
		if schema.Items != nil {
			walk(*schema.Items.Schema, path+"[]")
		}
	}
	walk(version.Schema.OpenAPIV3Schema.Properties["spec"], ".spec")
	if want := []string{`.spec={"replicas":1}`, ".spec.replicas=1"}; !slices.Equal(defaults, want) {
		t.Errorf("the CRD has the defaults %q, want %q", defaults, want)
	}
}

// Rules compare what a field is, set or not.
func TestRulesKnowTheDefaults(t *testing.T) {
	schema := apiextensionsv1.JSONSchemaProps{XValidations: apiextensionsv1.ValidationRules{{Rule: "orDefault(self.a.b) != orDefault(oldSelf.text) && orDefault(self.n) > 0 && self.n < 9"}}}
	values := map[string]any{"a": map[string]any{"b": "it's"}, "text": "", "n": 3}
	if err := resolveDefaults(&schema, values, ""); err != nil {
		t.Fatal(err)
	}
	want := `(has(self.a) && has(self.a.b) ? self.a.b : "it's") != (has(oldSelf.text) ? oldSelf.text : "") && (has(self.n) ? self.n : 3) > 0 && self.n < 9`
	if rule := schema.XValidations[0].Rule; rule != want {
		t.Errorf("the rule is\n%s, want\n%s", rule, want)
	}
}

// A field that is pinned is none any more, and rules go on with what it is pinned to.
func TestRulesKnowThePins(t *testing.T) {
	inCopy(t)
	write(t, "watches.yaml", strings.Replace(read(t, "watches.yaml"), "  overrideValues:\n",
		"  overrideValues:\n    service.type: ClusterIP\n    service.loadBalancerClass: \"\"\n    ingress.enabled: \"true\"\n    ingress.host: \"{name}.{namespace}.apps.example.com\"\n", 1))
	if err := run(); err != nil {
		t.Fatal(err)
	}
	made := read(t, "config/crd/bases/webapp.demo.welcome.domain_welcomes.yaml")
	if strings.Contains(made, "# No fields") { // externalTrafficPolicy is one, although no ClusterIP has any
		t.Errorf("it says of a field that it is none:\n%s", made)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict([]byte(made), &crd); err != nil {
		t.Fatal(err)
	}
	spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	for rule, want := range map[string]string{
		spec.XValidations[0].Rule:                       `"ClusterIP" != 'LoadBalancer' || "ClusterIP" != 'LoadBalancer' || "" == ""`,
		spec.Properties["service"].XValidations[0].Rule: `"ClusterIP" != 'ClusterIP' || (has(self.externalTrafficPolicy) ? self.externalTrafficPolicy : "Cluster") == 'Cluster'`,
		spec.Properties["ingress"].XValidations[0].Rule: `!true || "sample.default.apps.example.com" != ''`,
	} {
		if rule != want {
			t.Errorf("the rule is\n%s, want\n%s", rule, want)
		}
	}
}

// Each mistake stops the generator with a message that says where it is and what to do.
func TestMistakes(t *testing.T) {
	const schema, values = "helm-charts/welcome/values.schema.json", "helm-charts/welcome/values.yaml"
	for name, c := range map[string]struct {
		file, old, new string
		want           []string
	}{
		"pin of a value that is not there": {"watches.yaml", "imagePullPolicy:", "pullPolicy:", []string{"watches.yaml", "Welcome", `"pullPolicy"`, "correct overrideValues"}},
		"setting that is not there":        {"watches.yaml", "overrideValues:", "overideValues:", []string{"watches.yaml", "overideValues"}},
		"chart that is not there":          {"watches.yaml", "helm-charts/welcome", "helm-charts/none", []string{"helm-charts/none", "Welcome"}},
		"value without schema":             {values, "replicas: 1", "replicas: 1\nextra: 1", []string{schema, "extra"}},
		"property without value":           {values, "replicas: 1", "", []string{schema, ".replicas: not in values.yaml"}},
		"nested property without value":    {values, "  port: 8080", "", []string{schema, ".service.port: not in values.yaml"}},
		"default out of bounds":            {values, "port: 8080", "port: 80800", []string{schema, "values.yaml", "/service/port"}},
		"default that breaks a rule":       {values, "minReplicas: 1", "minReplicas: 6", []string{schema, "properties[autoscaling].default", "lower minReplicas"}},
		"default in the schema":            {schema, `"maximum": 100`, `"maximum": 100, "default": 2`, []string{schema, "defaults are in values.yaml"}},
		"no description":                   {schema, `"description": "Fewest pods."`, `"title": "Fewest pods."`, []string{schema, ".autoscaling.minReplicas", `add a "description"`}},
		"open object":                      {schema, `"additionalProperties": false,`, "", []string{schema, `values.service: add "additionalProperties": false`, `values: add "additionalProperties": false`}},
		"keyword that a CRD has not":       {schema, `"maximum": 65535`, `"maximum": 65535, "const": 8080`, []string{schema, ".properties.service.properties.port.const", "x-kubernetes-validations"}},
		"such a keyword within a list":     {schema, `"maximum": 31536000`, `"maximum": 31536000, "const": 1`, []string{schema, "tolerationSeconds.const"}},
		"rule that does not compile":       {schema, "orDefault(self.minReplicas) <=", "self.min <=", []string{schema, "properties[autoscaling]", "undefined field 'min'"}},
		"rule about a default of nothing":  {schema, "orDefault(self.minReplicas) <=", "orDefault(self.min) <=", []string{schema, ".autoscaling", "orDefault(self.min)", "not in values.yaml"}},
		"rule about a pinned field":        {schema, "orDefault(self.service.type) !=", "self.imagePullPolicy !=", []string{schema, "values: ", "write orDefault(self.imagePullPolicy)"}},
		"pin that breaks a rule":           {"watches.yaml", "  overrideValues:", "  overrideValues:\n    autoscaling.minReplicas: \"9\"", []string{schema, "or overrideValues", "lower minReplicas"}},
		"text without maximum in a rule":   {schema, `"maxLength": 253,`, "", []string{schema, "exceeds budget"}},
		"misspelt x-crd":                   {schema, `"shortNames"`, `"shortName"`, []string{schema, "x-crd", ".shortName"}},
		"template that is broken":          {"helm-charts/welcome/templates/pdb.yaml", "{{- if", "{{- iff", []string{"watches.yaml", "Welcome", "can't be rendered", "pdb.yaml"}},
		"template that is no YAML":         {"helm-charts/welcome/templates/service.yaml", "kind: Service", "kind: [Service", []string{"watches.yaml", "Welcome", "service.yaml", "no YAML"}},
		"template that an option breaks":   {"helm-charts/welcome/templates/pdb.yaml", "kind: PodDisruptionBudget", "kind: {{ include \"none\" . }}", []string{"watches.yaml", "Welcome", "podDisruptionBudget.enabled: true", "pdb.yaml"}},
		"allowance of what is not there":   {"watches.yaml", "  overrideValues:", "  allow: {values: [imag]}\n  overrideValues:", []string{"watches.yaml", "Welcome", `"imag"`}},
		"README without a place":           {"helm-charts/welcome/README.md", "<!-- end of values -->\n", "", []string{"README.md", "add the lines"}},
	} {
		t.Run(name, func(t *testing.T) {
			inCopy(t)
			text := read(t, c.file)
			if !strings.Contains(text, c.old) {
				t.Fatalf("the case is broken: %s has no %q", c.file, c.old)
			}
			write(t, c.file, strings.ReplaceAll(text, c.old, c.new))
			err := run()
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error lacks %q:\n%v", want, err)
				}
			}
		})
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Who may deploy the operator is told the version as which charts are tried.
func TestOldestKubernetes(t *testing.T) {
	minor := strings.TrimSuffix(infer.OldestKubernetes.Version, ".0")
	for file, pattern := range map[string]string{
		csvFile:                          `minKubeVersion: (\S+)\.0\n`,
		"README.md":                      `Kubernetes (\S+) or newer`,
		"README.zh-CN.md":                `Kubernetes (\S+) 或更高版本`,
		"helm-charts/welcome/Chart.yaml": `kubeVersion: ">=(\S+)\.0-0"`,
		"Makefile":                       `KUBERNETES_VERSION=(\d+\.\d+)`,
	} {
		if found := regexp.MustCompile(pattern).FindStringSubmatch(read(t, "../../"+file)); found == nil || "v"+found[1] != minor {
			t.Errorf("%s says %q, and charts are tried as on %s", file, found, minor)
		}
	}
}
