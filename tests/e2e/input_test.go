package e2e

import (
	"strings"
	"testing"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// Invalid input is refused with an error that says what to write instead. tests/hostile has many more cases.
func TestBadInputIsRefused(t *testing.T) {
	s := newScene(t)
	for title, c := range map[string]struct {
		name string
		edit kit.Edit
		want string
	}{
		"a name with a dot":           {"hello.world", kit.Greet("world"), "metadata.name becomes the name of a Service"},
		"a greeting of two lines":     {"hello", kit.Greet("my\nfriends"), "write one line of plain text"},
		"too many replicas":           {"hello", kit.Set("replicas", 101), "should be less than or equal to 100"},
		"text for a number":           {"hello", kit.Set("replicas", "many"), "must be of type integer"},
		"an ingress without host":     {"hello", kit.Set("ingress.enabled", true), "set ingress.host"},
		"a field that does not exist": {"hello", kit.Set("greeting", "myfriends"), `unknown field "spec.greeting"`},
		"what the operator pins":      {"hello", kit.Set("image", "example.com/evil"), `unknown field "spec.image"`},
	} {
		t.Run(title, func(t *testing.T) {
			err := s.tryWelcome(c.name, c.edit)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	if created := s.kubectl("get", "welcomes", "--output=name"); created != "" {
		t.Errorf("there are %s", created)
	}
}
