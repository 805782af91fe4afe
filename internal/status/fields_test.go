package status

import (
	"strings"
	"testing"

	"demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/internal/release"
)

func TestPageURL(t *testing.T) {
	const service = "apiVersion: v1\nkind: Service\nmetadata: {name: hello, namespace: test}\nspec: {ports: [{port: %PORT}]}\n"
	const ingress = "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: hello}\n"
	withPort := func(port string) string { return strings.ReplaceAll(service, "%PORT", port) }
	rule := func(paths string) string {
		return "spec: {rules: [{host: hello.example.com, http: {paths: [" + paths + "]}}]}"
	}
	for name, c := range map[string]struct {
		objects []string
		url     string
	}{
		"in the cluster":                                 {[]string{withPort("8080")}, "http://hello.test.svc:8080/hello/"},
		"port 80 goes without":                           {[]string{withPort("80")}, "http://hello.test.svc/hello/"},
		"a load balancer's IP":                           {[]string{withPort("8080") + "status: {loadBalancer: {ingress: [{ip: 192.0.2.7}]}}"}, "http://192.0.2.7:8080/hello/"},
		"its IPv6 address":                               {[]string{withPort("80") + `status: {loadBalancer: {ingress: [{ip: "2001:db8::7"}]}}`}, "http://[2001:db8::7]/hello/"},
		"its name":                                       {[]string{withPort("80") + "status: {loadBalancer: {ingress: [{hostname: lb.example.com, ip: 192.0.2.7}]}}"}, "http://lb.example.com/hello/"},
		"an ingress":                                     {[]string{ingress + "spec: {rules: [{host: hello.example.com}]}", withPort("80")}, "http://hello.example.com/hello/"},
		"an ingress with TLS":                            {[]string{ingress + "spec: {tls: [{secretName: s}], rules: [{host: hello.example.com}]}", withPort("80")}, "https://hello.example.com/hello/"},
		"an ingress with TLS for this host":              {[]string{ingress + "spec: {tls: [{secretName: s, hosts: [hello.example.com]}], rules: [{host: hello.example.com}]}", withPort("80")}, "https://hello.example.com/hello/"},
		"an ingress with TLS for all below":              {[]string{ingress + "spec: {tls: [{secretName: s, hosts: ['*.example.com']}], rules: [{host: hello.example.com}]}", withPort("80")}, "https://hello.example.com/hello/"},
		"an ingress with TLS for another host":           {[]string{ingress + "spec: {tls: [{secretName: s, hosts: [other.example.com]}], rules: [{host: hello.example.com}]}", withPort("80")}, "http://hello.example.com/hello/"},
		"an ingress for all hosts":                       {[]string{ingress + "spec: {rules: [{}]}", withPort("80")}, "http://hello.test.svc/hello/"},
		"an ingress for every host one level below":      {[]string{ingress + "spec: {rules: [{host: '*.example.com'}]}", withPort("80")}, "http://hello.test.svc/hello/"},
		"an ingress with one for every host and another": {[]string{ingress + "spec: {rules: [{host: '*.example.com'}, {host: hello.example.com}]}", withPort("80")}, "http://hello.example.com/hello/"},
		"one ingress with an address and one without":    {[]string{ingress + "spec: {rules: [{host: hello.example.com}]}", ingress + "spec: {rules: [{}]}"}, "http://hello.example.com/hello/"},
		"an ingress for the path":                        {[]string{ingress + rule("{path: /hello, pathType: Prefix}"), withPort("80")}, "http://hello.example.com/hello/"},
		"an ingress for the whole host":                  {[]string{ingress + rule("{path: /, pathType: Prefix}"), withPort("80")}, "http://hello.example.com/hello/"},
		"an ingress for another path":                    {[]string{ingress + rule("{path: /foo, pathType: Prefix}"), withPort("80")}, "http://hello.test.svc/hello/"},
		"an ingress for half a name":                     {[]string{ingress + rule("{path: /hell, pathType: Prefix}"), withPort("80")}, "http://hello.test.svc/hello/"},
		"an ingress for what is below the path":          {[]string{ingress + rule("{path: /hello/static/, pathType: Prefix}"), withPort("80")}, "http://hello.test.svc/hello/"},
		"an ingress for exactly the path":                {[]string{ingress + rule("{path: /foo, pathType: Prefix}, {path: /hello/, pathType: Exact}"), withPort("80")}, "http://hello.example.com/hello/"},
		"an ingress for exactly another path":            {[]string{ingress + rule("{path: /hello, pathType: Exact}"), withPort("80")}, "http://hello.test.svc/hello/"},
		"a port that speaks something else":              {[]string{withPort("6379")}, ""},
		"a port that says that it speaks HTTP":           {[]string{strings.ReplaceAll(service, "port: %PORT", "port: 6379}, {name: http-api, port: 9898")}, "http://hello.test.svc:9898/hello/"},
		"a port that says that it speaks HTTPS":          {[]string{withPort("443, name: https")}, "https://hello.test.svc/hello/"},
		"one that the program speaks it at":              {[]string{withPort("8443, name: main, appProtocol: https")}, "https://hello.test.svc:8443/hello/"},
		"one of Traefik's":                               {[]string{withPort("443, name: websecure")}, "https://hello.test.svc/hello/"},
		"a webhook, which is no page":                    {[]string{withPort("443, name: webhook-server")}, ""},
		"a headless release":                             {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []childState{{}} // one that is not seen
			for _, text := range c.objects {
				objects = append(objects, childState{live: parse(t, text)})
			}
			if got := pageURL(objects, "/hello/"); got != c.url {
				t.Errorf("got %q, want %q", got, c.url)
			}
		})
	}
}

func TestURLEndsInPathOfChart(t *testing.T) {
	for name, c := range map[string]struct {
		stored string
		state  release.State
		url    string
	}{
		"the chart names a path":                   {"", release.State{Revision: 1, PagePath: "/hello/"}, "http://hello.test.svc:8080/hello/"},
		"it names none":                            {"", release.State{Revision: 1, PagePath: "/"}, "http://hello.test.svc:8080/"},
		"it names another one now":                 {"http://hello.test.svc:8080/old/", release.State{Revision: 2, PagePath: "/new/"}, "http://hello.test.svc:8080/new/"},
		"waiting for its turn since a restart":     {"http://hello.test.svc:8080/hello/", release.State{WaitFor: "10 are underway"}, "http://hello.test.svc:8080/hello/"},
		"waiting for its turn, and never reported": {"", release.State{WaitFor: "10 are underway"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			status := Status{URL: c.stored}
			status.describeObjects(observed(t, func(o *observation) { o.state = c.state }))
			if status.URL != c.url {
				t.Errorf("got %q, want %q", status.URL, c.url)
			}
		})
	}
}

// Where the chart no longer makes what has the page, as with service.enabled: false, the status tells of none.
func TestURLWithoutAPage(t *testing.T) {
	before, _ := next(Status{}, observed(t, nil))
	for name, c := range map[string]struct {
		change func(*observation)
		url    string
	}{
		"that the chart no longer makes": {func(o *observation) { o.objects = o.objects[:1] }, ""},
		"that does not exist":            {func(o *observation) { o.objects[1].live, o.objects[1].gone = nil, true }, ""},
		"that is not seen just now":      {func(o *observation) { o.objects[1].live = nil }, before.URL},
		"of objects that are not known":  {func(o *observation) { o.state.Children, o.objects = nil, nil }, before.URL},
	} {
		t.Run(name, func(t *testing.T) {
			after, _ := next(before, observed(t, func(o *observation) {
				o.state.Children = []object.Child{o.objects[0].Child}
				c.change(o)
			}))
			if after.URL != c.url {
				t.Errorf("got %q, want %q", after.URL, c.url)
			}
		})
	}
}

func TestCountsOfAWorkload(t *testing.T) {
	before, _ := next(Status{}, observed(t, nil))
	for name, c := range map[string]struct {
		gone     bool
		replicas int32
	}{
		"that is not seen just now": {false, 2},
		"that does not exist":       {true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			after, _ := next(before, observed(t, func(o *observation) { o.objects[0].live, o.objects[0].gone = nil, c.gone }))
			if after.Replicas != c.replicas || after.ReadyReplicas != c.replicas || after.Selector != before.Selector {
				t.Errorf("got %+v", after)
			}
		})
	}
}

// Where the chart no longer has a workload, the scale subresource tells of no pods; where it is not known
// what there is, the counts stay.
func TestCountsWithoutAWorkload(t *testing.T) {
	before, _ := next(Status{}, observed(t, nil))
	for name, c := range map[string]struct {
		children []object.Child
		replicas int32
		selector string
	}{
		"any more": {[]object.Child{{APIVersion: "v1", Kind: "Service", Name: "hello"}}, 0, ""},
		"known":    {nil, before.Replicas, before.Selector},
	} {
		t.Run(name, func(t *testing.T) {
			after, _ := next(before, observed(t, func(o *observation) { o.state.Children, o.objects = c.children, nil }))
			if after.Replicas != c.replicas || after.ReadyReplicas != c.replicas || after.Selector != c.selector {
				t.Errorf("got %+v", after)
			}
		})
	}
}

// The counts are those of all pods; a selector there is only for those of one workload.
func TestCountsOfTwoWorkloads(t *testing.T) {
	two := func(o *observation) { o.objects = append(o.objects, o.objects[0]) }
	status, _ := next(Status{}, observed(t, two))
	if status.Replicas != 4 || status.ReadyReplicas != 4 || status.Selector != "" {
		t.Errorf("got %+v", status)
	}
	before := status
	status, _ = next(before, observed(t, func(o *observation) { two(o); o.objects[0].live = nil }))
	if status.Replicas != 4 {
		t.Errorf("with one that is not seen just now: %+v", status)
	}
}

func TestDescribeObjects(t *testing.T) {
	status, _ := next(Status{}, observed(t, nil))
	if status.Replicas != 2 || status.ReadyReplicas != 2 || status.Selector != "welcome=hello" || status.URL != "http://hello.test.svc:8080/hello/" {
		t.Errorf("got %+v", status)
	}
}
