package status

import (
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// problem is a failed reconcile in the words of whoever has to solve it.
type problem struct {
	reason, message string
	// permanent is whether somebody has to act. The operator tries again all the same.
	permanent bool
}

// cause explains the errors that a pattern finds.
type cause struct {
	pattern *regexp.Regexp
	reason  string
	// message is what people read, with $1 for the first group of the pattern; empty for the error itself.
	message string
	// advice follows the message.
	advice string
	// passes is whether the cause may go away without anybody acting.
	passes bool
}

// causes are looked for in the text of an error, since Helm flattens the errors of the API server, and ours, into
// strings. The first match counts. TestCausesKnowOurErrors proves that the errors of our own packages meet their rows.
var causes = []cause{
	// What watches.yaml does not allow. First, because these errors quote what authors write.
	{
		pattern: regexp.MustCompile(`(?s)^.*?(not allowed: .* the operator's watches\.yaml allows .*)$`),
		reason:  "NotAllowed",
		message: "$1",
		advice: "Change the spec, or ask the platform team to allow it there (allow, overrideValues, secrets or " +
			"tests, for this kind).",
	},
	{
		pattern: regexp.MustCompile(`(?s)^.*?(not allowed: (?:to render the chart with this spec|a text in|a field of the spec|what the chart makes of this spec) .*)$`),
		reason:  "NotAllowed",
		message: "$1",
	},

	// Objects and names that belong to somebody else.
	{
		pattern: regexp.MustCompile(`is not controlled by this custom resource`),
		reason:  "ObjectInTheWay",
	},
	{
		pattern: regexp.MustCompile(`(?s)^.*?(\w+ "[^"]*" in namespace "[^"]+") exists and cannot be imported.*$`),
		reason:  "ObjectInTheWay",
		message: "$1 exists and is not controlled by this custom resource: delete or rename one of the two",
	},
	{
		pattern: regexp.MustCompile(`(?s)^.*?(\w+ "[^"]*") in namespace "" exists and cannot be imported.*$`),
		reason:  "ObjectInTheWay",
		message: "cluster-scoped $1 exists and is not controlled by this custom resource: delete or rename one of the two",
	},
	{
		pattern: regexp.MustCompile(`^release name "`),
		reason:  "ReleaseName",
	},

	// Objects that cannot be changed, or that the quota has no room for.
	{
		pattern: regexp.MustCompile(`cannot be changed to what the chart wants`),
		reason:  "Rejected",
	},
	{
		pattern: regexp.MustCompile(`exceeded quota`),
		reason:  "QuotaExceeded",
		advice:  "Raise the quota of the namespace, or ask for less.",
	},
	{
		pattern: regexp.MustCompile(`failed quota: \S+: must specify `),
		reason:  "Rejected",
		advice:  "Set that in the spec or the chart, or have a LimitRange of the namespace set it.",
	},

	// What goes on by itself.
	{
		pattern: regexp.MustCompile(`(?s)^.*?(not begun: at most .* may wait for hooks .*)$`),
		reason:  "WaitingForHooks",
		message: "$1",
		passes:  true,
	},
	{
		pattern: regexp.MustCompile(`(?s)^.*?(not begun: (?:another spec|the trial) .*)$`),
		reason:  "WaitingForTrial",
		message: "$1",
		passes:  true,
	},
	{
		pattern: regexp.MustCompile(`because it is being terminated`),
		reason:  "NamespaceTerminating",
		passes:  true,
	},

	// Rights that the operator lacks.
	{
		pattern: regexp.MustCompile(`the chart no longer makes .* which is to be deleted: .*User "[^"]*" cannot `),
		reason:  "Forbidden",
		advice:  "Give the operator's ServiceAccount this right back until that is done, as docs/upgrade.md says.",
	},
	{
		pattern: regexp.MustCompile(`is attempting to grant RBAC permissions not currently held`),
		reason:  "Forbidden",
		advice: "Give the operator's ServiceAccount these rights: make manifests (of an operator of your own: make " +
			"manifests INTO=DIR) adds those that the chart hands out by default, those on Secrets only with " +
			"secrets: true in watches.yaml, and none to give rights; then apply the result.",
	},
	{
		pattern: regexp.MustCompile(`User "[^"]*" cannot `),
		reason:  "Forbidden",
		advice: "Give the operator's ServiceAccount this right: make manifests (of an operator of your own: make " +
			"manifests INTO=DIR) adds it if a sample (config/samples, or DIR/samples) makes this object; then " +
			"apply the result.",
	},

	// Values that the schema or the chart refuses.
	{
		pattern: regexp.MustCompile(`^spec not found$`),
		reason:  "InvalidValues",
		message: "There is no spec",
		advice:  "Write spec: {}, or have the CRD do so (default: {}).",
	},
	{
		pattern: regexp.MustCompile(`don't meet the specifications of the schema`),
		reason:  "InvalidValues",
		advice:  "Correct the spec, or have the platform team correct what the operator's watches.yaml pins (overrideValues).",
	},
	// The functions fail and required of a chart. Where in a template they were called helps nobody to correct a spec.
	{
		pattern: regexp.MustCompile(`(?s)^.*execution error at \([^)]*\): (.*)$`),
		reason:  "InvalidValues",
		message: "$1",
		advice:  "Correct the spec.",
	},

	// Mistakes of the chart, or of what it makes of a spec.
	{
		pattern: regexp.MustCompile(`^chart \S+: charts/ lacks `),
		reason:  "ChartError",
		advice:  "Or disable it in the spec.",
	},
	{
		pattern: regexp.MustCompile(`(?s)^.*?(\w+ "[^"]*": (?:the value .* of the (?:label|annotation) .*|its name) is not a string)$`),
		reason:  "ChartError",
		message: "$1",
		advice:  "Quote it, in the chart or in the spec.",
	},

	// Before the patterns that follow, which what a webhook writes may meet too.
	{
		pattern: regexp.MustCompile(`sh\.helm\.release\.v1\.\S+ is forbidden: |release record \S+: ` + object.Denial),
		reason:  "Rejected",
		advice: "That is the record of a release. The spec is not the cause: the policy that refuses it has to let the " +
			"operator's ServiceAccount create, update and delete such records.",
	},
	{
		pattern: regexp.MustCompile(`the operator's ServiceAccount only makes, changes and deletes what a custom resource of its kinds controls`), // config/policy
		reason:  "Rejected",
		advice: "This policy is the operator's own. If it names the kind of this custom resource, another webhook or policy removes " +
			"the owner reference from the object: have it keep that. Otherwise renew it: make manifests images push deploy.",
	},
	{
		pattern: regexp.MustCompile(object.Denial),
		reason:  "Rejected",
		advice:  "Correct the spec or the chart, or the policy that refuses the object.",
	},

	// Mistakes of the chart, continued.
	{
		pattern: regexp.MustCompile(`(?s)^.*?(\S+): unable to [^:]*: Object 'Kind' is missing in (.*)$`),
		reason:  "ChartError",
		message: "$1 makes an object without a kind: $2",
		advice:  "Give it one, or take it out, in the chart or in the spec.",
	},
	{
		pattern: regexp.MustCompile(`(?s)^.*?YAML parse error on (\S+): .*cannot unmarshal (\w+) into Go value of type releaseutil\.SimpleHead$`),
		reason:  "ChartError",
		message: "$1 makes no object, but: $2",
		advice:  "Write one, with apiVersion, kind and metadata.name, or take it out, in the chart or in the spec.",
	},
	{
		pattern: regexp.MustCompile(`it is invalid: json: |cannot be handled as an? |cannot unmarshal .* into Go |Object 'Kind' is missing|type mismatch on `),
		reason:  "ChartError",
		advice:  "Write it as what is wanted there, in the chart or in the spec: a text in quotes, a number without.",
	},
	{
		pattern: regexp.MustCompile(`it failed: BadRequest; what else `),
		reason:  "ChartError",
		advice:  "Write data of a Secret in base64, and stringData as texts, in the chart or in the spec.",
	},
	{
		pattern: regexp.MustCompile(`(?s)^.*?(\w+ (?:"[^"]*" )?of the chart has no (?:name|apiVersion).*)$`),
		reason:  "ChartError",
		message: "$1",
		advice:  "Give it one, in the chart or in the spec.",
	},
	{
		pattern: regexp.MustCompile(`(?s)^.*?(\w+ of the chart is in another list, .*)$`),
		reason:  "ChartError",
		message: "$1",
		advice:  "Write its items into that one, in the chart or in the spec.",
	},
	{
		pattern: regexp.MustCompile(`(?s)^.*?((?:cluster-scoped )?\w+ "[^"]*"(?: in namespace "[^"]*")? is in the chart (?:twice, and not the same: .*|with the name of a release record))$`),
		reason:  "ChartError",
		message: "$1",
		advice:  "Give it another name, or take it out, in the chart or in the spec.",
	},
	{
		pattern: regexp.MustCompile(`(?s)^.*?((?:a release of|the release record would be of) \d+ KiB.*)$`),
		reason:  "TooLarge",
		message: "$1",
	},
	{
		pattern: regexp.MustCompile(`(?s)^.*?(\w+ "[^"]*": (?:.* is not a valid number|a field has a path .*))$`),
		reason:  "InvalidValues",
		message: "$1",
		advice:  "Correct the spec.",
	},
	{
		pattern: regexp.MustCompile(`(?s)^.*?no matches for (kind "[^"]*" in version "[^"]*").*?( \(to delete without hooks, [^)]*\))?$`),
		reason:  "ChartError",
		message: "The cluster does not know $1$2",
		advice:  "Install its CRD or, if the chart is older or newer than this Kubernetes, serve a version of it that is not, or switch off in the spec what makes it.",
	},
	{
		pattern: regexp.MustCompile(`(?s)^.*?(?:create|patch|look up) ((?:cluster-scoped )?\w+ "[^"]*")[^:]*: the server could not find the requested resource.*$`),
		reason:  "ChartError",
		message: "The cluster no longer serves the kind of $1",
		advice:  "Install its CRD, or switch off in the spec what makes it.",
	},
	{
		pattern: regexp.MustCompile(`(^|[^.])template: |parse error|error converting YAML|is outside of namespace`),
		reason:  "ChartError",
		advice:  "Correct the spec or, where a custom resource without one has this, too, the chart.",
	},

	// What the API server refuses, or cannot ask a webhook about.
	{
		pattern: regexp.MustCompile(`provided port is already allocated`),
		reason:  "Rejected",
		advice: "Another Service has it: take another port. If that is the Service of before, under another name, " +
			"take the port back with another edit, once this is deployed: deleted by hand, the Service is put " +
			"back.",
	},
	{
		pattern: regexp.MustCompile(`is forbidden: `),
		reason:  "Rejected",
		advice:  "Correct the spec or the chart, or the policy that refuses the object.",
	},
	{
		pattern: regexp.MustCompile(`is invalid: |field is immutable`),
		reason:  "Rejected",
		advice:  "Correct the spec or, where that does not set this field, the chart.",
	},
	{
		pattern: regexp.MustCompile(`failed calling webhook "`),
		reason:  ReasonWebhookFailed,
		advice: "The spec is not the cause: whoever runs this webhook has to bring it back, or to delete its " +
			"configuration (kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations).",
		passes: true,
	},

	// A failed hook. Last, for it may have failed for one of the causes above. Tests are hooks too, but a failed one
	// is no failure of the release.
	{
		pattern: regexp.MustCompile(`(?:pre|post)-\w+.*hook .* has not succeeded`),
		reason:  ReasonHookFailed,
		passes:  true,
	},
}

// failure finds in the conditions of one reconcile why it failed.
func failure(reported []metav1.Condition) (problem, bool) {
	for _, conditionType := range []string{releaseFailed, irreconcilable} {
		if c := meta.FindStatusCondition(reported, conditionType); c != nil && c.Status == metav1.ConditionTrue {
			return explain(c.Reason, c.Message), true
		}
	}
	return problem{}, false
}

// ReasonOf returns the reason that Ready has while an action fails with err, Other if it is
// none that this package knows.
func ReasonOf(err error) string { return explain("Other", err.Error()).reason }

func explain(libraryReason, message string) problem {
	for _, cause := range causes {
		if !cause.pattern.MatchString(message) {
			continue
		}
		if cause.message != "" { // charts begin what they say with an empty line, which is all that a table would show of it
			message = strings.TrimSpace(cause.pattern.ReplaceAllString(message, cause.message))
		}
		if cause.advice != "" {
			message = strings.TrimRight(message, ".\n ") + ". " + cause.advice // webhooks end what they say as they like
		}
		return problem{reason: cause.reason, message: message, permanent: !cause.passes}
	}
	return problem{reason: libraryReason, message: message}
}
