package hack

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// tree is a copy of what make verify looks at, with a second kind, Goodbye, that make kind has made.
type tree struct {
	*testing.T
	dir, manifests string
}

func (c tree) run(program string, args ...string) (string, error) {
	cmd := exec.Command(program, args...)
	cmd.Dir = c.dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (c tree) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

func (c tree) write(file, text string) {
	c.Helper()
	file = filepath.Join(c.dir, file)
	c.must(os.MkdirAll(filepath.Dir(file), 0o755))
	c.must(os.WriteFile(file, []byte(text), 0o644))
}

// edit replaces what has to be in a file.
func (c tree) edit(file, before, after string) {
	c.Helper()
	text, err := os.ReadFile(filepath.Join(c.dir, file))
	c.must(err)
	if !strings.Contains(string(text), before) {
		c.Fatalf("%s has no %q:\n%s", file, before, text)
	}
	c.write(file, strings.Replace(string(text), before, after, 1))
}

// verify does as make verify: the tests of this package in the copy, then what hack/verify.sh makes again.
func (c tree) verify() (string, error) {
	c.Helper()
	tests, err := os.Executable()
	c.must(err)
	cmd := exec.Command(tests, "-test.run=TestKinds|TestPinned|TestSamples")
	cmd.Dir = filepath.Join(c.dir, "hack")
	if out, err := cmd.CombinedOutput(); err != nil {
		return string(out), err
	}
	before := c.copy(c.T)
	if out, err := c.run(c.manifests); err != nil {
		return out, err
	}
	return c.run("diff", "-ru", before.dir, ".")
}

// copy is one for a test, to make a mistake in.
func (c tree) copy(t *testing.T) tree {
	t.Helper()
	fresh := tree{t, t.TempDir(), c.manifests}
	if out, err := exec.Command("cp", "-a", c.dir+"/.", fresh.dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return fresh
}

func newTree(t *testing.T) tree {
	t.Helper()
	manifests := filepath.Join(t.TempDir(), "manifests")
	if out, err := exec.Command("go", "build", "-o", manifests, "./manifests").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c := tree{t, t.TempDir(), manifests}
	for _, dir := range []string{"config", "catalog", "helm-charts", "hack", "bundle"} {
		c.must(os.CopyFS(filepath.Join(c.dir, dir), os.DirFS(filepath.Join("..", dir))))
	}
	for _, file := range []string{"watches.yaml", "PROJECT"} {
		text, err := os.ReadFile(filepath.Join("..", file))
		c.must(err)
		c.write(file, string(text))
	}
	bin, err := filepath.Abs("../bin")
	c.must(err)
	c.must(os.Symlink(bin, filepath.Join(c.dir, "bin")))

	c.write("goodbye/Chart.yaml", "{apiVersion: v2, name: goodbye, version: 0.1.0}")
	c.write("goodbye/values.yaml", "image: old\ntext: hello\nextra: false\n")
	c.write("goodbye/templates/pod.yaml", "{apiVersion: v1, kind: Pod, metadata: {name: {{ .Release.Name }}}, spec: {containers: [{name: x, image: {{ .Values.image | quote }}, env: [{name: TEXT, value: {{ .Values.text | quote }}}]}]}}\n")
	if out, err := c.run(manifests, "kind", "-chart=goodbye", "-group=example.com", "-version=v1", "-kind=Goodbye", "-pin=image=example.com/goodbye:v1"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// As make bundle does it, which takes longer.
	c.edit("bundle/manifests/welcome-operator.clusterserviceversion.yaml", "  relatedImages:\n", "  relatedImages:\n  - image: example.com/goodbye:v1\n    name: goodbye\n")
	if out, err := c.verify(); err != nil {
		t.Fatalf("nothing is wrong yet: %v\n%s", err, out)
	}
	return c
}

// make verify says of each mistake with a kind which entry of watches.yaml has it, and what to do.
func TestVerifyFindsMistakes(t *testing.T) {
	sound := newTree(t)
	remove := func(c tree, file string) { c.must(os.Remove(filepath.Join(c.dir, file))) }
	for name, mistake := range map[string]struct {
		make func(c tree)
		want []string
	}{
		"no rights": {
			func(c tree) {
				c.edit("config/rbac/role.yaml", "resources: [goodbyes]\n  verbs: [list, watch, patch]", "resources: [goodbyes]\n  verbs: [list]")
			},
			[]string{"entry Goodbye", "config/rbac/role.yaml does not let the operator watch goodbyes", "make manifests"},
		},
		"no right to the status": {
			func(c tree) { c.edit("config/rbac/role.yaml", "[goodbyes/status]", "[goodbyes/stats]") },
			[]string{"entry Goodbye", "does not let the operator update goodbyes/status", "make manifests"},
		},
		"a CRD in no list": {
			func(c tree) { c.edit("config/crd/kustomization.yaml", "- bases/example.com_goodbyes.yaml\n", "") },
			[]string{"entry Goodbye", "config/crd/kustomization.yaml does not list", "make manifests"},
		},
		"no CRD": {
			func(c tree) { remove(c, "config/crd/bases/example.com_goodbyes.yaml") },
			[]string{"entry Goodbye", "no CRD of it", "make manifests"},
		},
		"a sample in no list": {
			func(c tree) { c.edit("config/samples/kustomization.yaml", "- example_v1_goodbye.yaml\n", "") },
			[]string{"entry Goodbye", "config/samples/kustomization.yaml lists no sample of it", "make manifests"},
		},
		"roles in no list": {
			func(c tree) { c.edit("config/rbac/kustomization.yaml", "- goodbye_editor_role.yaml\n", "") },
			[]string{"entry Goodbye", "config/rbac/kustomization.yaml does not list goodbye_editor_role.yaml", "make manifests"},
		},
		"not in PROJECT": {
			func(c tree) { c.edit("PROJECT", "kind: Goodbye\n", "kind: Other\n") },
			[]string{"entry Goodbye", "PROJECT says", "make manifests"},
		},
		"not owned": {
			func(c tree) {
				c.edit("config/manifests/bases/welcome-operator.clusterserviceversion.yaml", "- name: goodbyes.example.com\n", "- name: others.example.com\n")
			},
			[]string{"entry Goodbye", "customresourcedefinitions.owned", "make manifests"},
		},
		"a broken template": {
			func(c tree) {
				c.write("helm-charts/goodbye/templates/more.yaml", "{{ .Values.nothing.here }}")
			},
			[]string{"entry Goodbye", "helm-charts/goodbye", "templates/more.yaml", "correct it"},
		},
		"a template that is no YAML": {
			func(c tree) { c.write("helm-charts/goodbye/templates/more.yaml", "a: b: c") },
			[]string{"entry Goodbye", "helm-charts/goodbye", "templates/more.yaml", "correct it"},
		},
		"a template that an option breaks": {
			func(c tree) {
				c.write("helm-charts/goodbye/templates/more.yaml", "{{ if .Values.extra }}{{ .Values.nothing.here }}{{ end }}")
			},
			[]string{"example.com_goodbyes.yaml", "The chart can't be rendered with these", "extra: true", "templates/more.yaml"},
		},
		"an image that the operator does not get": {
			func(c tree) {
				c.edit("config/manager/manager.yaml", "        - name: RELATED_IMAGE_GOODBYE\n          value: example.com/goodbye:v1\n", "")
			},
			[]string{"entry Goodbye", "image is pinned by RELATED_IMAGE_GOODBYE, which hack/deployment.sh does not set", "config/manager/manager.yaml"},
		},
		"an image that is not in relatedImages": {
			func(c tree) {
				c.edit("bundle/manifests/welcome-operator.clusterserviceversion.yaml", "  - image: example.com/goodbye:v1\n    name: goodbye\n", "")
			},
			[]string{"entry Goodbye", "relatedImages of the bundle has no goodbye", "make bundle"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := sound.copy(t)
			mistake.make(c)
			out, err := c.verify()
			if err == nil {
				t.Fatal("make verify finds nothing")
			}
			for _, part := range mistake.want {
				if !strings.Contains(out, part) {
					t.Errorf("make verify does not say %q:\n%s", part, out)
				}
			}
		})
	}
}
