// Package hostile has Welcomes that somebody might write to break the operator, to reach what belongs to
// others, or by mistake. Each must be refused with a helpful message, or do no harm.
package hostile

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// Case is one attempt.
type Case struct {
	// Name says what is tried.
	Name string
	// Manifest is the Welcome in YAML, as somebody would apply it.
	Manifest string
	// Refused is a part of the API server's message. If it is empty, the Welcome is accepted, and Harm must
	// find nothing in what it becomes.
	Refused string
}

// Object decodes the manifest as a client without strict field validation would send it.
func (c Case) Object() (*unstructured.Unstructured, error) {
	data, err := yaml.YAMLToJSON([]byte(c.Manifest))
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{}
	return object, object.UnmarshalJSON(data)
}

const (
	plainText   = "write one line of plain text"
	oneLine     = "on one line, without control characters"
	noPrefix    = "without a prefix"
	reserved    = "reserved for Helm, kubectl and the operator"
	badKey      = "write annotation keys like example.com/key"
	proxyConfig = "would act for everybody behind it"
	badName     = "metadata.name becomes the name of a Service"
	badCPU      = "write CPU as cores"
	badMemory   = "write memory as a whole number"
	badLabel    = "write label values with"
	badPath     = "write a path like"
	badHost     = "write a lowercase host name"
	oneOfTwo    = "exactly one of minAvailable and maxUnavailable"
)

// Cases is the corpus.
var Cases = []Case{
	// Text that means something to YAML, templates, shells, browsers or Kubernetes.
	greet("yaml: closes the quote and adds a field", `x" \n image: evil`),
	greet("yaml: closes the quote", `x"`),
	greet("yaml: single quotes", `'; '' '`),
	greet("yaml: flow mapping", `{image: evil}`),
	greet("yaml: anchors, aliases, tags", `&a *b !!binary <<: *c`),
	greet("yaml: comment", `x # y`),
	greet("yaml: document marker", `--- kind: Secret`),
	greet("yaml: block scalar", `|- x`),
	greet("yaml: looks like a boolean", `yes`),
	greet("yaml: looks like nothing", `~`),
	greet("yaml: looks like a number", `0x1F`),
	greet("yaml: backslashes", `\n\x00\u0000\`),
	greet("template: action", `{{ .Values.image }}`),
	greet("template: function", `{{ fail "x" }}{{ lookup "v1" "Secret" "" "" }}`),
	greet("template: comment", `{{/* `),
	greet("html: script", `<script>alert(1)</script>`),
	greet("html: entity", `&lt;b&gt; &#x3c;`),
	greet("html: attribute", `" onload="alert(1)`),
	greet("shell: substitution", "$(id) `id` ; rm -rf / | $HOME"),
	greet("env: reference to a variable before it", `$(KUBERNETES_SERVICE_HOST) $(POD_NAME)`),
	greet("env: escaped reference", `$$(PORT) $$ $`),
	greet("override: Helm's --set syntax", `x,image=evil,y[0]=z`),
	greet("unicode: emoji with joiners", "👩‍👩‍👧‍👦 🏳️‍🌈"),
	greet("unicode: right to left", "שלום مرحبا"),
	greet("unicode: zero width", "a\u200bb\u200cc\u200d\ufeffd"),
	greet("unicode: look-alikes", "раураl"),
	greet("unicode: stacked accents", "z"+strings.Repeat("\u0301", 200)),
	greet("unicode: beyond the first plane", "𝕳𝖊𝖑𝖑𝖔 \U0001fffe"),
	greet("size: 253 characters of four bytes", strings.Repeat("🎉", 253)),

	{"size: 254 characters", spec("name: " + strings.Repeat("x", 254)), "spec.name: Too long"},
	{"size: a megabyte", spec("name: " + strings.Repeat("x", 1<<20)), "spec.name: Too long"},
	{"control: line break and a field", spec(`name: "x\nimage: evil"`), plainText},
	{"control: carriage return", spec(`name: "x\ry"`), plainText},
	{"control: tab", spec(`name: "x\ty"`), plainText},
	{"control: NUL", spec(`name: "x\0y"`), plainText},
	{"control: terminal escape", spec(`name: "\e[2J"`), plainText},
	{"control: next line of EBCDIC", spec(`name: "x\x85y"`), plainText},
	{"control: Unicode line separator", spec(`name: "x\u2028y"`), plainText},
	{"control: override of the writing direction", spec(`name: "x\u202Ey"`), plainText},
	{"control: isolate of the writing direction", spec(`name: "x\u2066y"`), plainText},
	{"control: character that is none", spec(`name: "x\uFFFEy"`), plainText},

	// Types and numbers.
	{"type: name is a number", spec("name: 5"), "must be of type string"},
	{"type: name is an object", spec("name: {a: b}"), "must be of type string"},
	{"type: spec is a list", "apiVersion: webapp.demo.welcome.domain/v1\nkind: Welcome\nmetadata: {name: hostile}\nspec: []\n", "must be of type object"},
	{"type: replicas is text", spec(`replicas: "3"`), "must be of type integer"},
	{"type: enabled is text", spec(`ingress: {enabled: "yes"}`), "must be of type boolean"},
	{"number: negative replicas", spec("replicas: -1"), "greater than or equal to 0"},
	{"number: many replicas", spec("replicas: 101"), "less than or equal to 100"},
	{"number: replicas beyond 64 bits", spec("replicas: 99999999999999999999999"), "spec.replicas"},
	{"number: half a replica", spec("replicas: 1.5"), "must be of type integer"},
	{"number: port 0", spec("service: {port: 0}"), "greater than or equal to 1"},
	{"number: port 65536", spec("service: {port: 65536}"), "less than or equal to 65535"},
	{"number: endless grace", spec("terminationGracePeriodSeconds: 86400"), "less than or equal to 3600"},
	{"nothing: null for every object", spec("service: null\n  ingress: null\n  resources: null\n  podLabels: null\n  name: null"), ""},
	{"nothing: no spec", "apiVersion: webapp.demo.welcome.domain/v1\nkind: Welcome\nmetadata: {name: hostile}\n", ""},

	// Fields that authors cannot set: they are dropped before anybody reads them.
	{"unknown: image", spec("image: evil\n  imagePullPolicy: Always"), ""},
	{"unknown: pod settings", spec("command: [sh]\n  serviceAccountName: admin\n  hostNetwork: true\n  volumes: [{name: v, hostPath: {path: /}}]\n  securityContext: {privileged: true}"), ""},
	{"unknown: addresses of others", spec("service: {externalIPs: [10.0.0.1], loadBalancerIP: 10.0.0.1, selector: {app: other}, nodePort: 22}"), ""},
	{"unknown: names and namespaces", spec("nameOverride: other\n  fullnameOverride: other\n  namespace: kube-system\n  global: {image: evil}"), ""},
	{"unknown: devices", spec("resources: {limits: {nvidia.com/gpu: 1, hugepages-2Mi: 1Gi}}"), ""},
	{"unknown: selector of a spread constraint", spec("topologySpreadConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule, labelSelector: {}}]"), ""},

	// Labels and annotations.
	{"labels: selector", spec("podLabels: {welcome: other}"), "tell whose pod it is"},
	{"labels: ReplicaSet's hash", spec("podLabels: {pod-template-hash: x}"), "tell whose pod it is"},
	{"labels: standard selector", spec("podLabels: {app.kubernetes.io/instance: other}"), noPrefix},
	{"labels: sidecar injector", spec(`podLabels: {sidecar.istio.io/inject: "true"}`), noPrefix},
	{"labels: workload identity", spec(`podLabels: {azure.workload.identity/use: "true"}`), noPrefix},
	{"labels: operator's own", spec("podLabels: {webapp.demo.welcome.domain/managed-by: me}"), noPrefix},
	{"labels: key with YAML", spec(`podLabels: {"x: y\n  z": a}`), noPrefix},
	{"labels: empty key", spec(`podLabels: {"": a}`), noPrefix},
	{"labels: value with a space", spec("podLabels: {team: a b}"), badLabel},
	{"labels: value with a template", spec(`podLabels: {team: "{{x}}"}`), badLabel},
	{"labels: value that looks like a boolean", spec(`podLabels: {team: "true", size: "1e3", none: ""}`), ""},
	{"labels: number as value", spec("podLabels: {team: 5}"), "must be of type string"},
	{"labels: too many", spec("podLabels: {" + many(33) + "}"), "Too many"},
	{"pod annotations: AppArmor off", spec("podAnnotations: {container.apparmor.security.beta.kubernetes.io/welcome: unconfined}"), noPrefix},
	{"pod annotations: other networks", spec("podAnnotations: {k8s.v1.cni.cncf.io/networks: admin}"), noPrefix},
	{"pod annotations: devices of CRI-O", spec("podAnnotations: {io.kubernetes.cri-o.Devices: /dev/sda}"), noPrefix},
	{"pod annotations: Kata hypervisor", spec("podAnnotations: {io.katacontainers.config.hypervisor.path: /bin/sh}"), noPrefix},
	{"pod annotations: sidecar image", spec("podAnnotations: {sidecar.istio.io/proxyImage: evil}"), noPrefix},
	{"pod annotations: hook", spec("podAnnotations: {helm.sh/hook: pre-install}"), noPrefix},
	{"pod annotations: line break", spec(`podAnnotations: {owner: "x\nspec: {}"}`), oneLine},
	{"pod annotations: YAML", spec(`podAnnotations: {owner: "x: {y: [&a *a]} # '\""}`), ""},
	{"pod annotations: huge", spec("podAnnotations: {owner: " + strings.Repeat("x", 1025) + "}"), "Too long"},
	{"service annotations: hook", spec("service: {annotations: {helm.sh/hook: pre-delete}}"), reserved},
	{"service annotations: kept after uninstall", spec("service: {annotations: {helm.sh/resource-policy: keep}}"), reserved},
	{"service annotations: somebody else's release", spec("service: {annotations: {meta.helm.sh/release-name: other}}"), reserved},
	{"service annotations: somebody else's object", spec("service: {annotations: {operator-sdk/primary-resource: kube-system/x}}"), reserved},
	{"service annotations: operator's own", spec("service: {annotations: {webapp.demo.welcome.domain/paused: \"true\"}}"), reserved},
	{"service annotations: kubectl's memory", spec(`service: {annotations: {kubectl.kubernetes.io/last-applied-configuration: "{}"}}`), reserved},
	{"service annotations: key with a line break", spec(`service: {annotations: {"x\ny": z}}`), badKey},
	{"service annotations: key in upper case domain", spec("service: {annotations: {HELM.SH/hook: pre-install}}"), badKey},
	{"service annotations: key with template", spec(`service: {annotations: {"{{x}}": z}}`), badKey},
	{"service annotations: line break in a value", spec(`service: {annotations: {a: "x\ny"}}`), oneLine},
	{"service annotations: YAML in a value", spec(`service: {annotations: {a: "x\": y", b: "null", c: "{{ .Release }}"}}`), ""},
	{"ingress annotations: nginx configuration", ingress("annotations: {nginx.ingress.kubernetes.io/configuration-snippet: 'return 200;'}"), proxyConfig},
	{"ingress annotations: somebody's Secret", ingress("annotations: {nginx.ingress.kubernetes.io/auth-tls-secret: kube-system/x}"), proxyConfig},
	{"ingress annotations: HAProxy configuration", ingress("annotations: {haproxy-ingress.github.io/config-backend: x}"), proxyConfig},
	{"ingress annotations: class twice", ingress("annotations: {kubernetes.io/ingress.class: other}"), "write the class into ingress.className"},
	{"ingress annotations: hook", ingress("annotations: {helm.sh/hook: test}"), reserved},

	// Ingress and Service.
	{"ingress: no host", spec("ingress: {enabled: true}"), "set ingress.host"},
	{"ingress: host is a URL", spec("ingress: {enabled: true, host: \"http://x.com/\"}"), badHost},
	{"ingress: host is an address", spec("ingress: {enabled: true, host: 10.0.0.1}"), badHost},
	{"ingress: every host", spec(`ingress: {enabled: true, host: "*"}`), badHost},
	{"ingress: host with a line break", spec(`ingress: {enabled: true, host: "a.com\n"}`), badHost},
	{"ingress: path goes up", ingress("path: /../admin"), badPath},
	{"ingress: path is a configuration", ingress(`path: "/ { return 200; } #"`), badPath},
	{"ingress: path is relative", ingress("path: hello"), badPath},
	{"ingress: empty path", ingress(`path: ""`), badPath},
	{"ingress: Secret of another namespace", ingress("tlsSecretName: kube-system/x"), "name of a Secret in the same namespace"},
	{"ingress: class with a slash", ingress("className: a/b"), "name of an IngressClass"},
	{"service: type ExternalName", spec("service: {type: ExternalName, externalName: evil.com}"), "supported values"},
	{"service: Local inside the cluster", spec("service: {type: ClusterIP, externalTrafficPolicy: Local}"), "externalTrafficPolicy Local needs"},
	{"service: class without a load balancer", spec("service: {type: ClusterIP, loadBalancerClass: a/b}"), "loadBalancerClass needs"},
	{"service: class with a space", spec("service: {loadBalancerClass: a b}"), "write a load balancer class"},

	// Resources and the rest of the pod.
	{"resources: CPU is a word", spec("resources: {requests: {cpu: lots}}"), badCPU},
	{"resources: negative CPU", spec("resources: {requests: {cpu: -1}}"), badCPU},
	{"resources: no CPU request", spec(`resources: {requests: {cpu: ""}}`), badCPU},
	{"resources: no CPU at all", spec(`resources: {requests: {cpu: "0.0"}}`), badCPU},
	{"resources: CPU in exponents", spec("resources: {requests: {cpu: 1e9}}"), "spec.resources.requests.cpu"},
	{"resources: memory in millibytes", spec("resources: {limits: {memory: 100m}}"), badMemory},
	{"resources: memory with YAML", spec(`resources: {limits: {memory: "64Mi\nx: y"}}`), badMemory},
	{"resources: exabytes", spec("resources: {limits: {memory: 9E}}"), badMemory},
	{"resources: too little to start", spec("resources: {requests: {memory: 1Mi}, limits: {memory: 1Mi}}"), "less than 16Mi"},
	{"resources: request over the default limit", spec("resources: {requests: {memory: 1Gi}}"), "requests.memory (by default 32Mi) is more than"},
	{"resources: limit under the default request", spec("resources: {limits: {cpu: 50m}}"), "requests.cpu (by default 100m) is more than"},
	{"autoscaling: upside down", spec("autoscaling: {enabled: true, minReplicas: 6}"), "minReplicas (by default 1) is more than"},
	{"autoscaling: none at least", spec("autoscaling: {enabled: true, minReplicas: 0}"), "greater than or equal to 1"},
	{"budget: neither", spec("podDisruptionBudget: {enabled: true}"), oneOfTwo},
	{"budget: both", spec("podDisruptionBudget: {enabled: true, minAvailable: 1, maxUnavailable: 1}"), oneOfTwo},
	{"budget: more than all", spec(`podDisruptionBudget: {enabled: true, minAvailable: "101%"}`), "write a number of pods"},
	{"budget: a number that is read as octal", spec(`podDisruptionBudget: {enabled: true, maxUnavailable: "08"}`), "write a number of pods"},
	{"budget: negative", spec("podDisruptionBudget: {enabled: true, maxUnavailable: -1}"), "write a number of pods"},
	{"log level: unknown", spec(`logLevel: "info\n"`), "supported values"},
	{"node selector: bad label", spec("nodeSelector: {a b: c}"), "write node labels"},
	{"tolerations: everything by mistake", spec("tolerations: [{effect: NoSchedule}]"), "tolerates every taint"},
	{"tolerations: value without use", spec("tolerations: [{key: a, operator: Exists, value: b}]"), "takes no value"},
	{"tolerations: seconds without use", spec("tolerations: [{key: a, effect: NoSchedule, tolerationSeconds: 1}]"), "needs effect NoExecute"},
	{"tolerations: too many", spec("tolerations: [" + strings.Repeat("{key: a},", 17) + "]"), "Too many"},
	{"spread: twice the same", spec("topologySpreadConstraints: [" + strings.Repeat("{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule},", 2) + "]"), "Duplicate value"},
	{"spread: incomplete", spec("topologySpreadConstraints: [{topologyKey: a}]"), "Required value"},
	{"spread: minDomains without use", spec("topologySpreadConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: ScheduleAnyway, minDomains: 2}]"), "minDomains needs"},

	// Names: of the release, of the Service.
	{"name: 54 characters", named(strings.Repeat("x", 54)), badName},
	{"name: 53 characters", named(strings.Repeat("x", 53)), ""},
	{"name: starts with a digit", named("1st"), badName},
	{"name: has a dot", named("a.b"), badName},
	{"name: looks like a boolean", named(`"true"`), ""},
	{"name: looks like a number to YAML", named("e1"), ""},
	{"name: of a system object", named("kubernetes"), ""},
	{"name: upper case", named("Hello"), "metadata.name"},
	{"name: path", named("../x"), "metadata.name"},
}

// greet is a greeting with an unusual name.
func greet(name, greeting string) Case {
	text, err := yaml.Marshal(map[string]any{"name": greeting})
	if err != nil {
		panic(err)
	}
	return Case{Name: name, Manifest: spec(strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", "\n  "))}
}

func spec(fields string) string {
	return fmt.Sprintf("apiVersion: webapp.demo.welcome.domain/v1\nkind: Welcome\nmetadata:\n  name: hostile\nspec:\n  %s\n", fields)
}

func ingress(field string) string {
	return spec("ingress: {enabled: true, host: hello.example.com, " + field + "}")
}

func named(name string) string {
	return fmt.Sprintf("apiVersion: webapp.demo.welcome.domain/v1\nkind: Welcome\nmetadata:\n  name: %s\n", name)
}

func many(n int) string {
	var labels []string
	for i := range n {
		labels = append(labels, fmt.Sprintf("l%d: x", i))
	}
	return strings.Join(labels, ", ")
}
