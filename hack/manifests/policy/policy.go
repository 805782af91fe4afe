// Package policy makes the ValidatingAdmissionPolicy that bounds an operator's ServiceAccount, from its watches.yaml.
package policy

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	obj "demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/internal/operator"
)

// Account is the operator's ServiceAccount, as in system:serviceaccount:NAMESPACE:NAME:, before kustomize gives it
// its final names: config/default replaces the parts.
const Account = "system:serviceaccount:system:controller-manager:"

// New is the policy for an operator that serves these entries, with its binding.
func New(entries []operator.Entry) (*admissionregistrationv1.ValidatingAdmissionPolicy, *admissionregistrationv1.ValidatingAdmissionPolicyBinding) {
	meta := metav1.ObjectMeta{Name: "controller-manager"} // before kustomize gives them their final names
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "ValidatingAdmissionPolicy"},
		ObjectMeta: meta,
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: new(admissionregistrationv1.Fail),
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*/*"}}, // subresources, too
				},
			}}},
			MatchConditions: []admissionregistrationv1.MatchCondition{
				{Name: "operator", Expression: `"` + Account + `" == request.userInfo.username + ":"`},
				{Name: "no-status", Expression: `!(has(request.subResource) && request.subResource == "status" && ` + served(entries) + `)`},
				{Name: "no-event-or-lease", Expression: `!(request.resource.group + "/" + request.resource.resource in ["/events", "events.k8s.io/events", "coordination.k8s.io/leases", "operators.coreos.com/operatorconditions"])`},
			},
			Variables:   variables(entries),
			Validations: validations(entries),
		},
	}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: policy.APIVersion, Kind: policy.Kind + "Binding"},
		ObjectMeta: meta,
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName:        policy.Name,
			ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}
	return policy, binding
}

// variables are what the rules are about.
func variables(entries []operator.Entry) []admissionregistrationv1.Variable {
	controllers := func(of, absent string) string {
		return fmt.Sprintf(`%s || !has(%s.metadata.ownerReferences) ? [] : %[2]s.metadata.ownerReferences.filter(o, has(o.controller) && o.controller).map(o, o.kind + "." + o.apiVersion.split("/")[0])`, absent, of)
	}
	list := func(field, of string) string {
		return fmt.Sprintf(`has(%s.%s) ? %[1]s.%[2]s : []`, of, field)
	}
	label, value, _ := strings.Cut(obj.ManagedBy().String(), "=")
	marked := func(of string) string {
		return fmt.Sprintf(`has(%s.metadata.labels) && %[1]s.metadata.labels.exists(l, l == %[2]q && %[1]s.metadata.labels[l] == %[3]q)`, of, label, value)
	}
	labelled := func(of string) string {
		return fmt.Sprintf(`has(%s.metadata.labels) && %q in %[1]s.metadata.labels`, of, obj.Published)
	}
	givenBack := "" // what was taken over, and nothing came of: it counts as kept
	if given := given(entries, "object"); given != "" {
		givenBack = `request.operation == "UPDATE" && variables.after.size() == 0 && ` + given + ` ? ` + annotation("object", obj.AdoptFor) + `.split("/")[0] : `
	}
	return []admissionregistrationv1.Variable{
		{Name: "resource", Expression: `request.resource.group + "/" + request.resource.resource`},
		{Name: "subject", Expression: `request.operation == "CREATE" ? object : oldObject`},
		{Name: "marked", Expression: marked("variables.subject")},
		{Name: "before", Expression: controllers("oldObject", `request.operation == "CREATE"`)},
		{Name: "after", Expression: controllers("object", `request.operation == "DELETE"`)},
		{Name: "controllers", Expression: `request.operation == "DELETE" ? variables.before : variables.after`},
		// What outlives its custom resource has no controller, and says instead for which kind it is. That is
		// no wider a bound than that on others: whoever may name a controller may name one that there is not.
		// Only that no garbage collector removes it, and that this account cannot delete it in one request,
		// is different.
		{Name: "keptFor", Expression: givenBack + `request.operation == "DELETE" || variables.after.size() > 0 || !(` + marked("object") + `) || ` +
			annotation("object", obj.Policy) + `.trim().lowerAscii() != "` + obj.Keep + `" ? "" : ` + annotation("object", obj.CustomResource)},
		// What a stock operator has kept, or made in no namespace, says so by another annotation, and has no label.
		{Name: "wasKeptFor", Expression: `request.operation == "CREATE" ? "" : ` + annotation("oldObject", obj.CustomResource) + ` != "" ? ` + annotation("oldObject", obj.CustomResource) + ` : ` + annotation("oldObject", obj.StockOwnerKind)},
		{Name: "served", Expression: served(entries)},
		{Name: "marks", Expression: marks("object", `request.operation == "DELETE"`)},
		{Name: "marksBefore", Expression: marks("oldObject", `request.operation == "CREATE"`)},
		// With a mark, it could be taken for one that a chart has made, and with an owner, be collected as garbage. Other
		// labels and annotations, and the spec of what is being deleted, may differ: a webhook may change them in the
		// operator's write of the finalizers.
		{Name: "untouched", Expression: `variables.served && request.operation == "UPDATE" && (has(oldObject.metadata.deletionTimestamp) || ` + equal("spec") + `) && ` + equal("metadata.ownerReferences") +
			` && variables.marks.all(m, m in variables.marksBefore) && variables.marksBefore.all(m, m in variables.marks)`},
		{Name: "inNoNamespace", Expression: inNoNamespace(entries, annotation("object", obj.CustomResource))},
		// A record that lost its owner is the operator's all the same: kubectl delete --cascade=orphan takes the owner away.
		{Name: "record", Expression: `variables.resource in ` + records(entries) + ` && request.name.startsWith("sh.helm.release.v1.") && variables.marked`},
		// What the operator was started with, in its own namespace. It makes and changes no other ConfigMap
		// there. It is called as the lease is, to which a shard adds its name: with another
		// --leader-election-id, that name belongs here.
		{Name: "published", Expression: `variables.resource == "/configmaps" && (request.name == "` + operator.LeaderElectionID + `" || request.name.startsWith("` + operator.LeaderElectionID + `-")) && request.operation != "DELETE" && request.userInfo.username.startsWith("system:serviceaccount:" + request.namespace + ":") && ` +
			labelled("object") + ` && (request.operation == "CREATE" || ` + labelled("oldObject") + `)`},
		{Name: "pod", Expression: `request.operation == "DELETE" ? dyn({}) :
variables.resource == "/pods" ? object.spec :
variables.resource == "/podtemplates" ? object.template.spec :
variables.resource == "batch/cronjobs" ? object.spec.jobTemplate.spec.template.spec :
variables.resource in ["apps/deployments", "apps/statefulsets", "apps/daemonsets", "apps/replicasets", "batch/jobs", "/replicationcontrollers"] ? object.spec.template.spec :
dyn({})`},
		{Name: "volumes", Expression: list("volumes", "variables.pod")},
		{Name: "containers", Expression: "(" + list("containers", "variables.pod") + ") + (" + list("initContainers", "variables.pod") + ")"},
	}
}

// equal is in CEL whether a field is as before.
func equal(field string) string {
	return fmt.Sprintf("has(object.%[1]s) == has(oldObject.%[1]s) && (!has(object.%[1]s) || object.%[1]s == oldObject.%[1]s)", field)
}

// marks is in CEL a list of the labels and annotations of an object that mean something to operators and to Helm.
func marks(of, absent string) string {
	in := func(field string) string {
		return fmt.Sprintf(`(has(%s.metadata.%s) ? %[1]s.metadata.%[2]s.filter(k, k.matches(r"^(webapp\.demo\.welcome\.domain|(meta\.)?helm\.sh|helm\.sdk\.operatorframework\.io|operator-sdk)/")).map(k, "%[2]s " + k + "=" + %[1]s.metadata.%[2]s[k]) : [])`, of, field)
	}
	return absent + " ? [] : " + in("labels") + " + " + in("annotations")
}

// given is in CEL whether an object is given to a custom resource of its namespace by the annotation for
// that, of a kind that may adopt; "" where there is none.
func given(entries []operator.Entry, of string) string {
	adopters := kindsOf(entries, func(e operator.Entry) bool { return e.Allow.Adopt })
	if adopters == "[]" {
		return ""
	}
	return fmt.Sprintf(`%s.exists(k, %s.startsWith(k + "/" + request.namespace + "/"))`, adopters, annotation(of, obj.AdoptFor))
}

// annotation is in CEL the value of an annotation, "" without one.
func annotation(of, key string) string {
	return fmt.Sprintf(`(has(%s.metadata.annotations) && %[2]q in %[1]s.metadata.annotations ? %[1]s.metadata.annotations[%[2]q] : "")`, of, key)
}

func validations(entries []operator.Entry) []admissionregistrationv1.Validation {
	taken := "" // what nobody owns is taken over where it says so itself
	if given := given(entries, "oldObject"); given != "" {
		taken = " || " + given
	}
	kinds := kindsOf(entries, func(operator.Entry) bool { return true })
	// unless the kind that controls the object, or that it is kept for, is one that may.
	unless := func(may func(operator.Entry) bool, expression string) string {
		those := kindsOf(entries, may)
		if those == "[]" {
			return expression
		}
		return fmt.Sprintf("variables.controllers.exists(o, o in %s) || variables.keptFor in %[1]s || %s", those, expression)
	}
	rule := func(message string, expression ...string) admissionregistrationv1.Validation {
		return admissionregistrationv1.Validation{Message: message, Expression: strings.Join(expression, " &&\n")}
	}
	pods := func(word, message string, expression ...string) admissionregistrationv1.Validation {
		v := rule(message+": only a kind that has "+word+" in allow.pods of watches.yaml may (make manifests images push deploy)", expression...)
		// Who may make Secrets has them made for pods: what the token can read anyway, its pods may. To a bare pod, the API
		// server adds the token of its ServiceAccount and the Secrets with which that pulls images, as to those of a
		// Deployment, which are somebody else's to make.
		v.Expression = unless(func(e operator.Entry) bool {
			return slices.Contains(e.Allow.Pods, word) || word == obj.PodSecrets && e.Secrets
		}, v.Expression)
		return v
	}
	return []admissionregistrationv1.Validation{
		// What a chart's roles hand out, the operator has to have: to run commands in pods, and to make
		// tokens of ServiceAccounts, too.
		rule("the operator's ServiceAccount uses no subresource but the status of its custom resources", `!has(request.subResource) || request.subResource == ""`),
		rule("the operator's ServiceAccount does not make, delete or change the spec of custom resources, but of kinds in allow.kinds of that whose chart makes them (make manifests images push deploy)",
			`!variables.served || variables.untouched`+madeByCharts(entries)),
		rule("the operator's ServiceAccount only makes, changes and deletes what a custom resource of its kinds controls",
			`(variables.untouched || variables.record || variables.published || variables.inNoNamespace || request.operation == "DELETE" || variables.after.exists(o, o in `+kinds+`) || variables.keptFor in `+kinds+`)`,
			// What a backup restored has the label, and no owner, as what is kept, which may have lost the
			// label. It is never deleted.
			`(variables.untouched || variables.record || variables.published || variables.inNoNamespace || request.operation == "CREATE" || variables.before.exists(o, o in `+kinds+`) || request.operation == "UPDATE" && variables.before.size() == 0 && (variables.marked || variables.wasKeptFor in `+kinds+taken+`))`),
		pods(obj.PodSecrets, "pods use no Secret",
			`(variables.resource == "/pods" || !has(variables.pod.imagePullSecrets) || variables.pod.imagePullSecrets.size() == 0)`,
			`variables.volumes.all(v, !has(v.secret) && (!has(v.projected) || !has(v.projected.sources) || v.projected.sources.all(s, !has(s.secret))))`,
			`variables.containers.all(c, (!has(c.envFrom) || c.envFrom.all(e, !has(e.secretRef))) && (!has(c.env) || c.env.all(e, !has(e.valueFrom) || !has(e.valueFrom.secretKeyRef))))`),
		pods(obj.PodServiceAccounts, "pods have no ServiceAccount",
			`(!has(variables.pod.serviceAccountName) || variables.pod.serviceAccountName in ["", "default"])`,
			`(!has(variables.pod.serviceAccount) || variables.pod.serviceAccount in ["", "default"])`,
			`variables.volumes.all(v, variables.resource == "/pods" && v.name.startsWith("kube-api-access-") || !has(v.projected) || !has(v.projected.sources) || v.projected.sources.all(s, !has(s.serviceAccountToken)))`),
		pods(obj.PodHost, "pods have nothing of their node, and no volumes but those that everybody may have",
			`(!has(variables.pod.hostNetwork) || !variables.pod.hostNetwork)`,
			`(!has(variables.pod.hostPID) || !variables.pod.hostPID)`,
			`(!has(variables.pod.hostIPC) || !variables.pod.hostIPC)`,
			`variables.volumes.all(v, has(v.configMap) || has(v.downwardAPI) || has(v.emptyDir) || has(v.ephemeral) || has(v.image) || has(v.persistentVolumeClaim) || has(v.projected) || has(v.secret))`,
			`variables.containers.all(c, !has(c.ports) || c.ports.all(p, !has(p.hostPort) || p.hostPort == 0))`,
			`variables.containers.all(c, !has(c.securityContext) || (!has(c.securityContext.privileged) || !c.securityContext.privileged) && (!has(c.securityContext.capabilities) || !has(c.securityContext.capabilities.add) || c.securityContext.capabilities.add.all(a, a == "NET_BIND_SERVICE")))`),
		rule("the operator's ServiceAccount makes, changes and deletes Secrets only for a kind that has secrets: true in watches.yaml (make manifests images push deploy)",
			`variables.resource != "/secrets" || variables.record || `+unless(func(e operator.Entry) bool { return e.Secrets }, "false")),
		// Kubernetes fills or obeys such Secrets: who may make and read them has the token of any
		// ServiceAccount, or adds a node to the cluster.
		rule("Secrets are no tokens: only a kind that has serviceAccounts in allow.pods of watches.yaml may have those of ServiceAccounts (make manifests images push deploy)",
			`(variables.resource != "/secrets" || request.operation == "DELETE" || !has(object.type) || object.type != "bootstrap.kubernetes.io/token")`,
			`(variables.resource != "/secrets" || request.operation == "DELETE" || !has(object.type) || object.type != "kubernetes.io/service-account-token" || `+
				unless(func(e operator.Entry) bool { return e.Secrets && slices.Contains(e.Allow.Pods, obj.PodServiceAccounts) }, "false")+`)`),
		// A controller or a mark is no bound there: it may be of a custom resource that there is not, in whatever namespace.
		rule("in no namespace, the operator's ServiceAccount makes, changes and deletes only what allow.cluster of watches.yaml has (make manifests images push deploy)",
			`has(request.namespace) && request.namespace != "" || variables.inNoNamespace`),
	}
}

// madeByCharts has, as further alternatives in CEL, that a custom resource of a served kind is one that the chart of
// another makes.
func madeByCharts(entries []operator.Entry) (others string) {
	for _, entry := range entries {
		made := kindsOf(entries, func(e operator.Entry) bool { return slices.Contains(entry.Allow.Kinds, e.GroupKind().String()) })
		if made != "[]" {
			others += fmt.Sprintf(` || request.kind.kind + "." + request.kind.group in %s && (%q in variables.controllers || variables.keptFor == %[2]q)`, made, entry.GroupKind())
		}
	}
	return others
}

// inNoNamespace is in CEL whether an object is cluster-scoped and of an entry that allows it: by its kind,
// its name, which others may have for theirs, too, and its marks. One of the two has to be there before, so
// that the operator can put back the other. Where it says no, nothing cluster-scoped is made, for it has no
// controller.
func inNoNamespace(entries []operator.Entry, mark string) string {
	parts := []string{}
	for _, entry := range entries {
		for _, kind := range entry.Allow.Cluster {
			// What is not of the name itself is quoted; namespaces have no dots, names may.
			name := strings.NewReplacer(regexp.QuoteMeta("{namespace}"), `[-a-z0-9]+`, regexp.QuoteMeta("{name}"), `[-.a-z0-9]+`, regexp.QuoteMeta("*"), `.*`).Replace(regexp.QuoteMeta(kind.Name))
			parts = append(parts, fmt.Sprintf(`request.kind.kind + "." + request.kind.group == %q && request.name.matches(r"^%s$") && (request.operation == "DELETE" || %s == %[4]q) && (request.operation == "CREATE" || variables.marked || variables.wasKeptFor == %[4]q)`,
				kind.Kind, name, mark, entry.GroupKind().String()))
		}
	}
	if slices.ContainsFunc(entries, func(e operator.Entry) bool { return e.CRDs }) {
		parts = append(parts, `variables.resource == "apiextensions.k8s.io/customresourcedefinitions" && request.operation == "CREATE"`)
	}
	if len(parts) == 0 {
		return "false"
	}
	return strings.Join(parts, " ||\n")
}

// served is in CEL whether a request is about a custom resource of a served kind.
func served(entries []operator.Entry) string {
	return `request.kind.kind + "." + request.kind.group in ` + kindsOf(entries, func(operator.Entry) bool { return true })
}

// records is a CEL list of the kinds that release records have.
func records(entries []operator.Entry) string {
	if slices.ContainsFunc(entries, func(e operator.Entry) bool { return e.Secrets }) {
		return `["/configmaps", "/secrets"]`
	}
	return `["/configmaps"]`
}

// kindsOf is a CEL list of the kinds of some entries, each with its group.
func kindsOf(entries []operator.Entry, which func(operator.Entry) bool) string {
	var all []string
	for _, entry := range entries {
		if which(entry) {
			all = append(all, strconv.Quote(entry.GroupKind().String()))
		}
	}
	return "[" + strings.Join(all, ", ") + "]"
}
