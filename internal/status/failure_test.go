package status

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func TestExplain(t *testing.T) {
	for _, c := range []struct {
		message string
		reason  string
		says    string
		stalled bool
	}{
		{`repair drift: not allowed: host "is forbidden: " (Ingress "x"). In namespace a, the operator's watches.yaml allows hosts: none; annotations with a prefix: none`,
			"NotAllowed", `ask the platform team`, true},
		{`not allowed: to render the chart with this spec takes more than 48 MiB of memory, or 5s of a processor: its largest number is "is not controlled by this custom resource" (1)`, "NotAllowed", "48 MiB", true},
		{`not allowed: what the chart makes of this spec has U+2028, at which a line ends for YAML, and not for templates: write \n`, "NotAllowed", "U+2028", true},
		{`not allowed: a text in template: x has U+2028, at which a line ends for YAML, and not for templates: write \n`, "NotAllowed", "U+2028", true},
		{`not begun: at most 8 custom resources in a namespace, and 24 in all, may wait for hooks at once. It begins by itself when one of them is done`, "WaitingForHooks", "by itself", false},
		{`create Secret "x" in namespace "a": it failed: BadRequest; what else the API server says is not told, for it may quote the Secret`, "ChartError", "in base64", true},
		{`not begun: another spec with large numbers is being tried`, "WaitingForTrial", "another spec", false},
		{`Service "x" in namespace "a" exists and is not controlled by this custom resource: delete or rename one of the two`, "ObjectInTheWay", `Service "x"`, true},
		{`Unable to continue with install: Service "x" in namespace "a" exists and cannot be imported into the current release: invalid ownership metadata; label validation error`,
			"ObjectInTheWay", `Service "x" in namespace "a" exists and is not controlled by this custom resource: delete or rename`, true},
		{`release name "x" is taken by Memo "x" in this namespace: rename one of the two`, "ReleaseName", `taken by Memo "x"`, true},
		{`failed to create resource: services "x" is forbidden: exceeded quota: q, requested: services=1`, "QuotaExceeded", `services "x"`, true},
		{`configmaps "r" is forbidden: unable to create new content in namespace a because it is being terminated`, "NamespaceTerminating", `namespace a`, false},
		{`roles.rbac.authorization.k8s.io "x" is forbidden: user "system:serviceaccount:o:m" (groups=["g"]) is attempting to grant RBAC permissions not currently held: {APIGroups:[""]}`, "Forbidden", "make manifests INTO=DIR", true},
		{`roles.rbac.authorization.k8s.io "x" is forbidden: user "system:serviceaccount:o:m" (groups=["g"]) is attempting to grant RBAC permissions not currently held:
{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}`, "Forbidden", "those on Secrets only with secrets: true in watches.yaml", true},
		{`deployments.apps is forbidden: User "system:serviceaccount:o:m" cannot create resource "deployments" in API group "apps" in the namespace "a"`, "Forbidden", "make manifests INTO=DIR", true},
		{"values don't meet the specifications of the schema(s) in the following chart(s):\nwelcome:\n- replicas: must be >= 0", "InvalidValues", "pins (overrideValues)", true},
		{`create Service "x" in namespace "a": services "x" is forbidden: ValidatingAdmissionPolicy 'controller-manager' with binding 'controller-manager' denied request: the operator's ServiceAccount only makes, changes and deletes what a custom resource of its kinds controls`,
			"Rejected", "controls. This policy is the operator's own. If it names the kind of this custom resource, another webhook or policy removes the owner reference", true},
		{`spec not found`, "InvalidValues", "There is no spec. Write spec: {}, or have the CRD", true},
		{`execution error at (welcome/templates/ingress.yaml:14:15): ingress.host must be set while ingress.enabled is true`, "InvalidValues", "ingress.host must be set while ingress.enabled is true. Correct", true},
		{"execution error at (x/templates/NOTES.txt:9:4): \nPASSWORDS ERROR: provide your passwords\n", "InvalidValues", "PASSWORDS ERROR: provide your passwords. Correct", true},
		{`template: welcome/templates/service.yaml:3:5: executing "welcome/templates/service.yaml" at <nope>: nil pointer`, "ChartError", "nil pointer. Correct the spec or, where a custom resource without one has this, too, the chart.", true},
		{`YAML parse error on welcome/templates/service.yaml: error converting YAML to JSON`, "ChartError", "service.yaml", true},
		{`hook "x": no matches for kind "Backup" in version "v1", ensure CRDs are installed first (to delete without hooks, annotate with a=true)`, "ChartError", `The cluster does not know kind "Backup" in version "v1" (to delete without hooks, annotate with a=true). Install its CRD`, true},
		{`unable to build kubernetes objects from release manifest: resource mapping not found for name: "x": no matches for kind "Gateway" in version "v1"`, "ChartError", `The cluster does not know kind "Gateway" in version "v1". Install its CRD or, if the chart is older or newer than this Kubernetes, serve a version of it`, true},
		{`repair drift: create Thing "hello" in namespace "a": the server could not find the requested resource (post things.example.com)`, "ChartError", `The cluster no longer serves the kind of Thing "hello". Install its CRD`, true},
		{`error while running post render on files: Deployment "a": the value 1.1 of the label b is not a string`, "ChartError", "Quote it, in the chart or in the spec.", true},
		{`error while running post render on files: ConfigMap "1": its name is not a string`, "ChartError", `ConfigMap "1": its name is not a string. Quote it`, true},
		{`patch ConfigMap "a" in namespace "b": it is invalid: json: cannot unmarshal number into Go struct field ConfigMap.data of type string`, "ChartError", "a text in quotes", true},
		{`create ConfigMap "a" in namespace "b": ConfigMap in version "v1" cannot be handled as a ConfigMap: json: what is not told here`, "ChartError", "a text in quotes", true},
		{`error while running post render on files: Deployment "a": the value true of the annotation b is not a string`, "ChartError", "Quote it, in the chart or in the spec.", true},
		{`error while running post render on files: Deployment "a": 1e-300000000 is not a valid number`, "InvalidValues", `Deployment "a": 1e-300000000 is not a valid number`, true},
		{`error while running post render on files: ConfigMap of the chart has no name (generateName: "a-"): a release knows its objects by their names`, "ChartError", `ConfigMap of the chart has no name`, true},
		{`error while running post render on files: List of the chart is in another list, where Helm reads none`, "ChartError", `List of the chart is in another list, where Helm reads none. Write its items`, true},
		{`error while running post render on files: a/templates/b.yaml: unable to decode "": Object 'Kind' is missing in '{}'`, "ChartError", `a/templates/b.yaml makes an object without a kind: '{}'. Give it one`, true},
		{`error while running post render on files: a/templates/b.yaml: unable to decode "": Object 'Kind' is missing in what is not told here, for it may quote a Secret`, "ChartError", `b.yaml makes an object without a kind: what is not told here`, true},
		{`YAML parse error on a/templates/b.yaml: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal string into Go value of type releaseutil.SimpleHead`, "ChartError", `a/templates/b.yaml makes no object, but: string. Write one`, true},
		{`error while running post render on files: ConfigMap "a" in namespace "b" is in the chart twice, and not the same: one of the two would be lost`, "ChartError", `ConfigMap "a" in namespace "b" is in the chart twice`, true},
		{`error while running post render on files: a release of 4000 KiB is more than its record can hold, which is 2048 KiB: ask for less`, "TooLarge", "a release of 4000 KiB", true},
		{`create: failed to create: the release record would be of 1500 KiB, and Kubernetes takes none of more than 1024 KiB`, "TooLarge", "the release record would be of 1500 KiB", true},
		{`Service "x" in namespace "a" exists and is not controlled by this custom resource, but by Welcome "y": it is being deleted, and these finalizers keep it: b`, "ObjectInTheWay", `these finalizers keep it`, true},
		{`chart x: charts/ lacks y, which the values enable: run helm dependency build`, "ChartError", "build. Or disable it in the spec.", true},
		{`Deployment.apps "x" is invalid: spec.selector: field is immutable`, "Rejected", "or, where that does not set this field, the chart.", true},
		{`pods "x" is forbidden: violates PodSecurity "restricted:latest": hostPort`, "Rejected", "or the policy that refuses the object.", true},
		{`Job "x" in namespace "a" cannot be changed to what the chart wants (spec.template: field is immutable): delete it`, "Rejected", "): delete it", true},
		{`create Service "x" in namespace "a": Service "x" is invalid: spec.ports[0].nodePort: Invalid value: 31080: provided port is already allocated`, "Rejected", "allocated. Another Service has it", true},
		{`create release record sh.helm.release.v1.x.v2: configmaps "sh.helm.release.v1.x.v2" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request: no`, "Rejected", "no. That is the record of a release. The spec is not the cause", true},
		{`create release record sh.helm.release.v1.x.v2: admission webhook "no.example.com" denied the request: no`, "Rejected", "no. That is the record of a release. The spec is not the cause", true},
		{`create release record sh.helm.release.v1.x.v2: configmaps "sh.helm.release.v1.x.v2" is forbidden: exceeded quota: q, requested: configmaps=1`, "QuotaExceeded", "Raise the quota", true},
		{`admission webhook "no.example.com" denied the request: not on Sundays`, "Rejected", "not on Sundays. Correct", true},
		{"admission webhook \"no.example.com\" denied the request: not on Sundays.\n\n", "Rejected", "not on Sundays. Correct", true},
		{`create release record sh.helm.release.v1.x.v2: policy 'p' with binding 'p' denied request: no such key`, "Rejected", "The spec is not the cause", true},
		{`create Deployment "x" in namespace "a": policy 'p' with binding 'p' denied request: error applying patch: a path is missing`, "Rejected", "or the policy that refuses the object.", true},
		{`create Deployment "x" in namespace "a": policy "p" denied request: failed to configure policy: its paramKind is not known`, "Rejected", "or the policy that refuses the object.", true},
		{`create Service "x" in namespace "a": Service "x" is invalid: spec.ports: Invalid value; roll back: Internal error occurred: failed calling webhook "no.example.com": no endpoints`, "Rejected", "", true},
		{`create Service "x" in namespace "a": Internal error occurred: failed calling webhook "no.example.com": failed to call webhook: Post "https://no.a.svc:443/?timeout=10s": no endpoints available for service "no"`, "WebhookFailed", `service "no". The spec is not the cause`, false},
		{`pre-upgrade hooks failed: hook Job "m" in namespace "a" has not succeeded within 5m0s: timed out waiting for the condition: see kubectl -n a logs job/m`, "HookFailed", "logs job/m", false},
		{`run the pre-delete hooks of the chart: hook Pod "m" in namespace "a" has not succeeded within 5m0s: pod m failed: see kubectl -n a logs pod/m`, "HookFailed", "logs pod/m", false},
		{`run the test hooks of the chart: hook Job "m" in namespace "a" has not succeeded within 5m0s: timed out waiting for the condition`, "UpgradeError", "timed out", false},
		{`dial tcp 10.0.0.1:443: connect: connection refused`, "UpgradeError", "refused", false},
	} {
		p := explain("UpgradeError", c.message)
		if p.reason != c.reason || p.permanent != c.stalled || !strings.Contains(p.message, c.says) || strings.TrimSpace(p.message) != p.message {
			t.Errorf("%s\nis %+v\nwant reason %s, permanent %t, a message with %q", c.message, p, c.reason, c.stalled, c.says)
		}
	}
}

// Causes are found by their texts, so that whoever rewords an error of ours has to adapt its row: this test fails then.
func TestCausesKnowOurErrors(t *testing.T) {
	verb := regexp.MustCompile(`%[0-9.]*[a-zA-Z]`)
	for _, c := range []struct{ file, format, reason string }{
		{"object/allow.go", "not allowed: %s. In namespace %s, the operator's watches.yaml allows hosts: %s; annotations with a prefix: %s; kinds that are not Kubernetes' own: %s%s", "NotAllowed"},
		{"release/proof.go", "not allowed: the release is recorded in Secrets, and the operator's watches.yaml allows this kind no Secrets any longer. ", "NotAllowed"},
		{"release/allow.go", "not allowed: %s: without secrets: true, the operator's watches.yaml allows this kind no Secrets", "NotAllowed"},
		{"release/allow.go", "not allowed: what the chart makes of this spec has %U, at which a line ends for YAML, and not for templates: write \\n", "NotAllowed"},
		{"release/runaway.go", "not allowed: a text in %s has %U, at which a line ends for YAML, and not for templates: write \\n", "NotAllowed"},
		{"release/runaway.go", "not allowed: a template in %s %s, and the chart may run it: without allow.values for it, the operator's watches.yaml allows authors plain templates only (fields, and functions such as default and quote)", "NotAllowed"},
		{"release/runaway.go", "not allowed: a field of the spec has a path (as .a.b[]) of %d characters, and may have one of %d: write shorter names, or fewer levels", "NotAllowed"},
		{"release/trial.go", "not allowed: to render the chart with this spec takes more than %d MiB of memory, or %s of a processor: its largest number, or longest list or map, is %.100s (%.0f), its longest text has %d bytes, and its texts %d YAML aliases (*); change that", "NotAllowed"},
		{"object/words.go", "%s exists and is not controlled by this custom resource%s: %s", "ObjectInTheWay"},
		{"record/name.go", "release name %q is taken by %s %q in this namespace: %s", "ReleaseName"},
		{"guard/recreate.go", "%s cannot be changed to what the chart wants (%s)", "Rejected"},
		{"guard/hooks.go", "%s cannot be changed to what the chart wants, a hook, for it is kept: have the chart give the hook another name", "Rejected"},
		{"guard/hooks.go", "%s cannot be changed to what the chart wants, a hook, for nothing deletes it before: have the chart add before-hook-creation to helm.sh/hook-delete-policy, or give the hook another name", "Rejected"},
		{"release/operation.go", "not begun: at most %d custom resources in a namespace, and %d in all, may wait for hooks at once. It begins by itself when one of them is done", "WaitingForHooks"},
		{"release/trial.go", "not begun: another spec with large numbers, long lists or templates is being tried in this namespace, or %d in others", "WaitingForTrial"},
		{"release/trial.go", "not begun: the trial of this spec did not finish: %w", "WaitingForTrial"},
		{"release/subcharts.go", "chart %s: charts/ lacks %s, which the values enable: run helm dependency build", "ChartError"},
		{"object/check.go", "%s %q: the value %v of the %s %s is not a string", "ChartError"},
		{"object/check.go", "%s \"%v\": its name is not a string", "ChartError"},
		{"object/check.go", "%s of the chart has no name (generateName: %q): a release knows its objects by their names, and which of its hooks to delete", "ChartError"},
		{"object/check.go", "%s %q of the chart has no apiVersion", "ChartError"},
		{"object/check.go", "%s of the chart is in another list, where Helm reads none", "ChartError"},
		{"object/check.go", "%s %q: %.40s is not a valid number", "InvalidValues"},
		{"object/check.go", "%s %q: a field has a path (as .a.b[]) of %d characters, and may have one of %d", "InvalidValues"},
		{"release/allow.go", "%s is in the chart twice, and not the same: one of the two would be lost", "ChartError"},
		{"release/allow.go", "%s is in the chart twice, and not the same: once as a hook, and each would take the other's place", "ChartError"},
		{"release/allow.go", "%s is in the chart with the name of a release record", "ChartError"},
		{"record/sanitize.go", "a release of %d KiB is more than its record can hold, which is %d KiB: %s", "TooLarge"},
		{"record/driver.go", "the release record would be of %d KiB, and Kubernetes takes none of more than %d KiB, which is what the chart makes of this spec, packed: %s", "TooLarge"},
		{"guard/guard.go", "%s is outside of namespace %q: a release may only hold objects beside its custom resource", "ChartError"},
	} {
		source, err := os.ReadFile("../" + c.file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(source), strconv.Quote(c.format)) {
			t.Errorf("%s no longer has the error %q: adapt this test and causes", c.file, c.format)
		}
		text := verb.ReplaceAllStringFunc(strings.Replace(c.format, "%s is in the chart", `Service "x" in namespace "a" is in the chart`, 1), func(verb string) string {
			return map[string]string{"%q": `"x"`, "%d": "1", "%s": "label"}[verb]
		})
		if p := explain("Other", text); p.reason != c.reason {
			t.Errorf("%q has the reason %s, want %s", text, p.reason, c.reason)
		}
	}
}
