package policy

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	obj "demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/internal/operator"
)

// What the policy forbids, the API server is asked in tests/integration: TestPolicyBoundsTheOperatorsToken.

// A kind may have the pods that its entry allows, and no other kind may.
func TestPolicyForbidsNothingThatAnEntryAllows(t *testing.T) {
	var entries []operator.Entry
	if err := yaml.UnmarshalStrict([]byte("- {group: example.com, version: v1, kind: One, chart: x, allow: {pods: [secrets], kinds: [Three.example.com, Other.example.org]}}\n"+
		"- {group: example.com, version: v2, kind: Two, chart: x, allow: {pods: [secrets, host]}}\n"+
		"- {group: example.com, version: v1, kind: Three, chart: x}\n"+
		"- {group: example.com, version: v1, kind: Four, chart: x, secrets: true, allow: {pods: [serviceAccounts]}}\n"), &entries); err != nil {
		t.Fatal(err)
	}
	policy, _ := New(entries)
	rules := policy.Spec.Validations[1:] // after that about subresources, which is of no kind
	if want := `["One.example.com", "Two.example.com", "Three.example.com", "Four.example.com"]`; !strings.Contains(rules[1].Expression, want) {
		t.Errorf("the kinds are not %s in %s", want, rules[1].Expression)
	}
	for i, want := range map[int]string{
		0: `!variables.served || variables.untouched || request.kind.kind + "." + request.kind.group in ["Three.example.com"] && ("One.example.com" in variables.controllers || variables.keptFor == "One.example.com")`,
		2: `variables.controllers.exists(o, o in ["One.example.com", "Two.example.com", "Four.example.com"]) || variables.keptFor in ["One.example.com", "Two.example.com", "Four.example.com"] || (variables.resource == "/pods" || !has(variables.pod.imagePullSecrets)`,
		3: `variables.controllers.exists(o, o in ["Four.example.com"]) || variables.keptFor in ["Four.example.com"] || (!has(variables.pod.serviceAccountName)`,
		4: `variables.controllers.exists(o, o in ["Two.example.com"]) || variables.keptFor in ["Two.example.com"] || (!has(variables.pod.hostNetwork)`,
		5: `variables.resource != "/secrets" || variables.record || variables.controllers.exists(o, o in ["Four.example.com"]) || variables.keptFor in ["Four.example.com"] || false`,
	} {
		if !strings.HasPrefix(rules[i].Expression, want) {
			t.Errorf("%s: %s does not begin with %s", rules[i].Message, rules[i].Expression, want)
		}
	}
}

// What is given to a custom resource may be touched for kinds that may adopt, in its namespace, and for no
// others; nor does the policy mention it where there are none.
func TestPolicyOfWhatIsGiven(t *testing.T) {
	entry := func(kind string, adopt bool) operator.Entry {
		e := operator.Entry{Allow: obj.Allow{Adopt: adopt}}
		e.Group, e.Kind = "example.com", kind
		return e
	}
	if got := given([]operator.Entry{entry("One", false)}, "oldObject"); got != "" {
		t.Errorf("without a kind that may: %s", got)
	}
	got := given([]operator.Entry{entry("One", false), entry("Two", true)}, "oldObject")
	if want := `["Two.example.com"].exists(k, (has(oldObject.metadata.annotations) && "` + obj.AdoptFor + `" in `; !strings.HasPrefix(got, want) || !strings.HasSuffix(got, `.startsWith(k + "/" + request.namespace + "/"))`) {
		t.Errorf("it is %s, which does not begin with %s", got, want)
	}
}

// In no namespace, a name alone does not make an object the operator's.
func TestPolicyAsksForMarksInNoNamespace(t *testing.T) {
	entry := operator.Entry{Allow: obj.Allow{Cluster: []obj.ClusterKind{{Kind: "ClusterRole.rbac.authorization.k8s.io", Name: "{namespace}.{name}-*"}}}}
	entry.Group, entry.Kind = "example.com", "One"
	want := `request.kind.kind + "." + request.kind.group == "ClusterRole.rbac.authorization.k8s.io" && request.name.matches(r"^[-a-z0-9]+\.[-.a-z0-9]+-.*$") && ` +
		`(request.operation == "DELETE" || MARK == "One.example.com") && (request.operation == "CREATE" || variables.marked || variables.wasKeptFor == "One.example.com")`
	if got := inNoNamespace([]operator.Entry{entry}, "MARK"); got != want {
		t.Errorf("it is %s, not %s", got, want)
	}
}
