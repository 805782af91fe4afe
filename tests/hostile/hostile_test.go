package hostile

import (
	"strings"
	"testing"

	"demo.welcome.domain/welcome-operator/tests/kit"
	"demo.welcome.domain/welcome-operator/tests/render"
)

// The same cases meet a real API server in tests/integration.
func TestHostileWelcomes(t *testing.T) {
	const image = "demo.welcome.domain/welcome:v0.1.0"
	t.Setenv("RELATED_IMAGE_WELCOME", image)
	welcomes, err := render.LoadAPI("../../config/crd/bases/webapp.demo.welcome.domain_welcomes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	renderer, err := render.LoadRenderer("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range Cases {
		t.Run(c.Name, func(t *testing.T) {
			welcome, err := c.Object()
			if err != nil {
				t.Fatalf("the case itself is no YAML: %v", err)
			}
			welcome.SetNamespace("demo")
			err = welcomes.Admit(welcome)
			if c.Refused != "" {
				if err == nil {
					t.Fatalf("accepted; must be refused with %q", c.Refused)
				}
				if !strings.Contains(err.Error(), c.Refused) {
					t.Fatalf("refused with %.500q; must say %q", err, c.Refused)
				}
				return
			}
			if err != nil {
				t.Fatalf("refused: %v", err)
			}
			rel, err := renderer.Render(welcome)
			if err != nil {
				t.Fatalf("accepted, but cannot be rendered: %v", err)
			}
			if len(rel.Hooks) > 0 {
				t.Errorf("became a hook: %s", rel.Hooks[0].Manifest)
			}
			objects, err := kit.Objects([]byte(rel.Manifest))
			if err != nil {
				t.Fatalf("%v in:\n%s", err, rel.Manifest)
			}
			for _, harm := range Harm(welcome, objects, image) {
				t.Error(harm)
			}
		})
	}
}
