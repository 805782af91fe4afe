package object

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

const (
	ingressOf   = "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: x}\nspec: "
	serviceOf   = "apiVersion: v1\nkind: Service\nmetadata: {name: x}\nspec: "
	routeOf     = "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: x}\nspec: "
	openshiftOf = "apiVersion: route.openshift.io/v1\nkind: Route\nmetadata: {name: x}\nspec: "
	podsOf      = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\nspec: {template: {metadata: {annotations: "
)

func asksOf(t *testing.T, text string) []Ask {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	if o.GetNamespace() == "" {
		o.SetNamespace("team-a") // as the guard does
	}
	return Asks(o)
}

func words(asks []Ask) string {
	var all []string
	for _, ask := range asks {
		all = append(all, strings.TrimSuffix(strings.SplitN(ask.String(), " (", 2)[0], " "))
	}
	return strings.ReplaceAll(strings.Join(all, " "), `"`, "")
}

// What others add to client-go's scheme, as Helm and the library do while objects are judged, is read by
// nobody, and makes no kind one of Kubernetes' own.
func TestAsksOfAKindThatOthersRegister(t *testing.T) {
	kind := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Registered"}
	scheme.Scheme.AddKnownTypeWithName(kind, &unstructured.Unstructured{})
	o := Empty(kind)
	if asks := Asks(o); len(asks) == 0 || asks[0].what != "kind" {
		t.Errorf("it asks for %v", asks)
	}
}

func TestAsks(t *testing.T) {
	for name, c := range map[string]struct{ object, want string }{
		"Ingress with a host":                   {ingressOf + "{rules: [{host: Bank.Example.com, http: {}}]}", "host bank.example.com"},
		"Ingress, the host twice":               {ingressOf + "{rules: [{host: a.b}], tls: [{hosts: [a.b, c.d]}]}", "host a.b host c.d"},
		"Ingress without a host":                {ingressOf + "{rules: [{host: a.b}, {http: {}}]}", "every host host a.b"},
		"Ingress with an empty host":            {ingressOf + `{rules: [{host: ""}]}`, "every host"},
		"Ingress with TLS for whatever":         {ingressOf + "{rules: [{host: a.b}], tls: [{secretName: x}]}", "every host host a.b"},
		"Ingress with a default backend":        {ingressOf + "{defaultBackend: {service: {name: x}}}", "every host"},
		"Ingress of old":                        {"apiVersion: extensions/v1beta1\nkind: Ingress\nspec: {backend: {serviceName: x}}", "every host"},
		"Ingress of a version of the future":    {"apiVersion: networking.k8s.io/v7\nkind: Ingress\nspec: {rules: [{host: a.b}]}", "host a.b"},
		"Service":                               {serviceOf + "{type: LoadBalancer, ports: [{port: 80}]}", ""},
		"Service with other people's addresses": {serviceOf + "{externalIPs: [192.0.2.1], loadBalancerIP: 192.0.2.2}", "host 192.0.2.1 host 192.0.2.2"},
		"Service with addresses in the cluster": {serviceOf + "{clusterIP: 10.0.0.7, clusterIPs: [10.0.0.7, 'fd00::7']}", "host 10.0.0.7 host fd00::7"},
		"Service without one":                   {serviceOf + "{clusterIP: None, clusterIPs: [None]}", ""},
		"Service that is a name":                {serviceOf + "{type: ExternalName, externalName: metadata.example.com.}", "host metadata.example.com"},
		"EndpointSlice":                         {"apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nendpoints: [{addresses: [192.0.2.1]}]", "host 192.0.2.1"},
		"Endpoints":                             {"apiVersion: v1\nkind: Endpoints\nsubsets: [{addresses: [{ip: 192.0.2.1}], notReadyAddresses: [{ip: 192.0.2.2}]}]", "host 192.0.2.1 host 192.0.2.2"},
		"HTTPRoute":                             {routeOf + "{hostnames: [a.b, '*.c.d']}", "host *.c.d host a.b"},
		"HTTPRoute without a host":              {routeOf + "{}", "every host"},
		"OpenShift Route":                       {openshiftOf + "{host: a.b}", "host a.b"},
		"OpenShift Route, host by the router":   {openshiftOf + "{wildcardPolicy: None}", ""},
		"OpenShift Route to all below":          {openshiftOf + "{host: a.b, wildcardPolicy: Subdomain}", "every host host a.b"},
		"what nobody here can judge":            {"apiVersion: traefik.io/v1alpha1\nkind: IngressRoute\nspec: {routes: [{match: HostRegexp(`.*`)}]}", "kind IngressRoute.traefik.io"},
		"a CRD that looks like Kubernetes' own": {"apiVersion: externaldns.k8s.io/v1alpha1\nkind: DNSEndpoint\nspec: {}", "kind DNSEndpoint.externaldns.k8s.io"},
		"kind of Kubernetes":                    {"apiVersion: batch/v1\nkind: Job\nspec: {}", ""},
		"annotations without a prefix":          {podsOf + "{team: a, cost-center: b, restarted_at: c}}}}", ""},
		"annotation with a prefix":              {podsOf + "{a.b/c: d}}}}", "annotation a.b/c"},
		"annotation of CRI-O":                   {podsOf + "{io.kubernetes.cri-o.Devices: /dev/sda}}}}", "annotation io.kubernetes.cri-o.Devices"},
		"annotations of Helm":                   {podsOf + "{helm.sh/hook: pre-install}}}}", ""},
		"annotation that resembles Helm's":      {podsOf + "{meta.helm.sh/release-name: x, helm.sh.evil.com/hook: x}}}}", "annotation helm.sh.evil.com/hook annotation meta.helm.sh/release-name"},
		"annotations that the operator writes":  {"apiVersion: v1\nkind: ConfigMap\nmetadata: {annotations: {meta.helm.sh/release-name: x, meta.helm.sh/release-namespace: y, meta.helm.sh/other: z}}", "annotation meta.helm.sh/other"},
		"checksum":                              {podsOf + "{checksum/config: 0123456789abcdef}}}}", ""},
		"checksum that is none":                 {podsOf + "{checksum/config: see http}}}}", "annotation checksum/config"},
		"annotations of a CronJob's pods":       {"apiVersion: batch/v1\nkind: CronJob\nspec: {jobTemplate: {spec: {template: {metadata: {annotations: {a/b: c}}}}}}", "annotation a/b"},
		"annotations of claims":                 {"apiVersion: apps/v1\nkind: StatefulSet\nspec: {volumeClaimTemplates: [{metadata: {annotations: {a/b: c}}}]}", "annotation a/b"},
		"annotations of the object":             {"apiVersion: v1\nkind: ServiceAccount\nmetadata: {annotations: {eks.amazonaws.com/role-arn: admin}}", "annotation eks.amazonaws.com/role-arn"},
		"annotations as text":                   {"apiVersion: v1\nkind: ConfigMap\ndata: {annotations: 'a/b: c'}", ""},
		"annotation with a number":              {podsOf + "{a/b: 5}}}}", "annotation a/b"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := words(asksOf(t, c.object)); got != c.want {
				t.Errorf("it asks for %q, want %q", got, c.want)
			}
		})
	}
}

func TestAllow(t *testing.T) {
	allow := Allow{
		Hosts:       []string{"*.{namespace}.apps.example.com", "shared.example.com", "*.open.example.com", "192.0.2.1"},
		Annotations: []string{"cert-manager.io/cluster-issuer", "nginx.ingress.kubernetes.io/rewrite-*"},
		Kinds:       []string{"VirtualService.networking.istio.io"},
	}
	if err := allow.Validate(); err != nil {
		t.Fatal(err)
	}
	host := func(name string) string { return ingressOf + `{rules: [{host: "` + name + `"}]}` }
	for text, allowed := range map[string]bool{
		host("hello.team-a.apps.example.com"):                                true,
		host("a.b.team-a.apps.example.com"):                                  true,
		host("*.team-a.apps.example.com"):                                    true,
		host("team-a.apps.example.com"):                                      false,
		host("hello.team-b.apps.example.com"):                                false,
		host("*.apps.example.com"):                                           false,
		host("team-a.apps.example.com.evil.io"):                              false,
		host("xteam-a.apps.example.com"):                                     false,
		host("x y.team-a.apps.example.com"):                                  false,
		host("shared.example.com"):                                           true,
		host("SHARED.example.com"):                                           true,
		host("*.shared.example.com"):                                         false,
		host("bank.example.com"):                                             false,
		host("x.open.example.com"):                                           true,
		host(""):                                                             false,
		serviceOf + "{externalIPs: [192.0.2.1]}":                             true,
		serviceOf + "{externalIPs: [192.0.2.2]}":                             false,
		podsOf + "{cert-manager.io/cluster-issuer: x}}}}":                    true,
		podsOf + "{cert-manager.io/cluster-issuer-of-others: x}}}}":          false,
		podsOf + "{nginx.ingress.kubernetes.io/rewrite-target: /}}}}":        true,
		podsOf + "{nginx.ingress.kubernetes.io/auth-url: x}}}}":              false,
		"apiVersion: networking.istio.io/v1\nkind: VirtualService\nspec: {}": true,
		"apiVersion: networking.istio.io/v1\nkind: Gateway\nspec: {}":        false,
	} {
		if refused := allow.Refused("team-a", asksOf(t, text)); (len(refused) == 0) != allowed {
			t.Errorf("%s\nrefused: %s", text, refused)
		}
	}
	everything := Allow{Hosts: []string{"*"}, Annotations: []string{"*"}}
	for _, text := range []string{host("a.b"), host(""), podsOf + "{a/b: c}}}}"} {
		if refused := everything.Refused("team-a", asksOf(t, text)); len(refused) > 0 {
			t.Errorf("%s\nrefused: %s", text, refused)
		}
	}
}

// Nothing is allowed by default, and what is refused comes with what is not.
func TestRefusal(t *testing.T) {
	asks := asksOf(t, ingressOf+"{rules: [{host: a.b}, {host: b.c}, {host: c.d}, {host: d.e}, {host: e.f}, {}]}")
	err := Allow{Hosts: []string{"*.{namespace}.example.com"}}.Refusal("team-a", (Allow{}).Refused("team-a", asks))
	for _, want := range []string{`not allowed: every host (Ingress "x"), host "a.b" (Ingress "x")`, "1 more", "*.team-a.example.com", "prefix: none", "watches.yaml"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("it lacks %q: %s", want, err)
		}
	}
}

func TestAllowMistakes(t *testing.T) {
	for want, allow := range map[string]Allow{
		`"https://a.b"`:                     {Hosts: []string{"https://a.b"}},
		`"a.*.b"`:                           {Hosts: []string{"a.*.b"}},
		`"*a.b"`:                            {Hosts: []string{"*a.b"}},
		`"**.a.b"`:                          {Hosts: []string{"**.a.b"}},
		`"A.b"`:                             {Hosts: []string{"A.b"}},
		`"*.{name}.b"`:                      {Hosts: []string{"*.{name}.b"}},
		`allow.hosts: ""`:                   {Hosts: []string{""}},
		`allow.annotations: ""`:             {Annotations: []string{""}},
		`allow.annotations: "example.com/"`: {Annotations: []string{"example.com/"}}, // which would match nothing
		`"a b/c"`:                           {Annotations: []string{"a b/c"}},
		`"*/c"`:                             {Annotations: []string{"*/c"}},
		`"VirtualService"`:                  {Kinds: []string{"VirtualService"}},
		`"privileged"`:                      {Pods: []string{"privileged"}},
		`"networking.istio.io/x"`:           {Kinds: []string{"networking.istio.io/x"}},
	} {
		if err := allow.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", allow, err)
		}
	}
}
