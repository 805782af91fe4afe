package e2e

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// kubectl explain shows the API: each field of the chart that is not pinned, with its description.
func TestExplain(t *testing.T) {
	s := newScene(t)
	content, err := os.ReadFile(kit.File("helm-charts/welcome/values.schema.json"))
	s.must(err)
	var schema field
	s.must(json.Unmarshal(content, &schema))
	pinned := []string{"image", "imagePullPolicy"}

	fields := s.kubectl("explain", "welcome.spec", "--recursive")
	descriptions := s.kubectl("explain", "welcome.spec")
	for name, property := range schema.Properties {
		if slices.Contains(pinned, name) {
			if strings.Contains(fields, "\n  "+name+"\t") {
				t.Errorf("%s is pinned, and no field of a Welcome", name)
			}
			continue
		}
		if !strings.Contains(fields, "\n  "+name+"\t") || !strings.Contains(words(descriptions), words(property.Description)) {
			t.Errorf("%s is not explained with %q", name, property.Description)
		}
		if len(property.Properties) == 0 {
			continue
		}
		descriptions := s.kubectl("explain", "welcome.spec."+name)
		for inner, property := range property.Properties {
			if !strings.Contains(fields, "\n    "+inner+"\t") || !strings.Contains(words(descriptions), words(property.Description)) {
				t.Errorf("%s.%s is not explained with %q", name, inner, property.Description)
			}
		}
	}
	if t.Failed() {
		t.Logf("kubectl explain welcome.spec --recursive\n%s\nkubectl explain welcome.spec\n%s", fields, descriptions)
	}
}

type field struct {
	Description string
	Properties  map[string]field
}

// words replaces line breaks by spaces.
func words(text string) string { return strings.Join(strings.Fields(text), " ") }

func TestGetPrintsColumns(t *testing.T) {
	s := newScene(t)
	s.welcome("hello", kit.Greet("myfriends"))
	s.awaitReady("hello")
	// The local cluster gives it an address; another one may have no load balancer.
	url := "http://hello." + s.namespace + ".svc:8080/hello/"
	if address := s.kubectl("get", "service", "hello", "--output=jsonpath={.status.loadBalancer.ingress[0]['ip','hostname']}"); address != "" {
		url = "http://" + address + ":8080/hello/"
		s.awaitPage(url, "Hello myfriends")
	}
	s.awaitOutput("the URL leads to the page", url, "get", "welcome", "hello", "--output=jsonpath={.status.url}")
	for _, name := range []string{"welcome", "welcomes", "wel"} {
		out := s.kubectl("get", name)
		table := lines(out)
		if len(table) != 2 || words(table[0]) != "NAME GREETING REPLICAS READY URL AGE" ||
			!strings.HasPrefix(words(table[1]), "hello myfriends 1 True "+url+" ") {
			t.Errorf("kubectl get %s prints\n%s", name, out)
		}
	}
	if all := s.kubectl("get", "all", "--output=name"); !slices.Contains(lines(all), "welcome.webapp.demo.welcome.domain/hello") {
		t.Errorf("kubectl get all prints no Welcome:\n%s", all)
	}
}
