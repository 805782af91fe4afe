package status

import (
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// problem is a failed reconcile in the words of whoever has to solve it.
type problem struct {
	reason, message string
	// permanent is whether somebody has to act. The operator tries again all the same.
	permanent bool
}

// causes are told by their text: Helm joins the errors of the API server to strings. The
// first match counts. What people read is message, with $1 for the match's first group, or
// else the error itself; advice follows it.
var causes = []struct {
	pattern         *regexp.Regexp
	reason          string
	message, advice string
	permanent       bool
}{
	// First, for it quotes what authors write.
	{regexp.MustCompile(`(?s)^.*?(not allowed: .* the operator's watches\.yaml allows .*)$`), "NotAllowed", "$1", "Change the spec, or ask the platform team to allow it there (allow, overrideValues, secrets or tests, for this kind).", true},
	{regexp.MustCompile(`(?s)^.*?(not allowed: (?:to render the chart with this spec|a text in|what the chart makes of this spec) .*)$`), "NotAllowed", "$1", "", true},
	{regexp.MustCompile(`is not controlled by this custom resource`), "ObjectInTheWay", "", "", true},
	{regexp.MustCompile(`(?s)^.*?(\w+ "[^"]*" in namespace "[^"]+") exists and cannot be imported.*$`), "ObjectInTheWay",
		"$1 exists and is not controlled by this custom resource: delete or rename one of the two", "", true},
	{regexp.MustCompile(`(?s)^.*?(\w+ "[^"]*") in namespace "" exists and cannot be imported.*$`), "ObjectInTheWay",
		"cluster-scoped $1 exists and is not controlled by this custom resource: delete or rename one of the two", "", true},
	{regexp.MustCompile(`^release name "`), "ReleaseName", "", "", true},
	{regexp.MustCompile(`cannot be changed to what the chart wants`), "Rejected", "", "", true},
	{regexp.MustCompile(`exceeded quota`), "QuotaExceeded", "", "Raise the quota of the namespace, or ask for less.", true},
	{regexp.MustCompile(`(?s)^.*?(not begun: at most .* may wait for hooks .*)$`), "WaitingForHooks", "$1", "", false},
	{regexp.MustCompile(`(?s)^.*?(not begun: (?:another spec|the trial) .*)$`), "WaitingForTrial", "$1", "", false},
	{regexp.MustCompile(`because it is being terminated`), "NamespaceTerminating", "", "", false},
	{regexp.MustCompile(`the chart no longer makes .* which is to be deleted: .*User "[^"]*" cannot `), "Forbidden", "",
		"Give the operator's ServiceAccount this right back until that is done, as docs/upgrade.md says.", true},
	{regexp.MustCompile(`is attempting to grant RBAC permissions not currently held`), "Forbidden", "",
		"Give the operator's ServiceAccount these rights: make manifests (of an operator of your own: make manifests INTO=DIR) adds those that the chart hands out by default, those on Secrets only with secrets: true in watches.yaml, and none to give rights; then apply the result.", true},
	{regexp.MustCompile(`User "[^"]*" cannot `), "Forbidden", "",
		"Give the operator's ServiceAccount this right: make manifests (of an operator of your own: make manifests INTO=DIR) adds it if a sample (config/samples, or DIR/samples) makes this object; then apply the result.", true},
	{regexp.MustCompile(`^spec not found$`), "InvalidValues", "There is no spec", "Write spec: {}, or have the CRD do so (default: {}).", true},
	{regexp.MustCompile(`don't meet the specifications of the schema`), "InvalidValues", "", "Correct the spec, or have the platform team correct what the operator's watches.yaml pins (overrideValues).", true},
	// What a chart refuses with its functions fail and required. Where in a template it does
	// helps nobody to correct a spec.
	{regexp.MustCompile(`(?s)^.*execution error at \([^)]*\): (.*)$`), "InvalidValues", "$1", "Correct the spec.", true},
	{regexp.MustCompile(`^chart \S+: charts/ lacks `), "ChartError", "", "Or disable it in the spec.", true},
	{regexp.MustCompile(`(?s)^.*?(\w+ "[^"]*": (?:the value .* of the (?:label|annotation) .*|its name) is not a string)$`), "ChartError", "$1", "Quote it, in the chart or in the spec.", true},
	{regexp.MustCompile(`admission webhook "[^"]*" denied`), "Rejected", "", "Correct the spec, or the policy that refuses the object.", true},
	{regexp.MustCompile(`(?s)^.*?(\S+): unable to [^:]*: Object 'Kind' is missing in (.*)$`), "ChartError", "$1 makes an object without a kind: $2", "Give it one, or take it out, in the chart or in the spec.", true},
	{regexp.MustCompile(`(?s)^.*?YAML parse error on (\S+): .*cannot unmarshal (\w+) into Go value of type releaseutil\.SimpleHead$`), "ChartError", "$1 makes no object, but: $2", "Write one, with apiVersion, kind and metadata.name, or take it out, in the chart or in the spec.", true},
	{regexp.MustCompile(`it is invalid: json: |cannot be handled as an? |cannot unmarshal .* into Go |Object 'Kind' is missing|type mismatch on `), "ChartError", "",
		"Write it as what is wanted there, in the chart or in the spec: a text in quotes, a number without.", true},
	{regexp.MustCompile(`it failed: BadRequest; what else `), "ChartError", "", "Write data of a Secret in base64, and stringData as texts, in the chart or in the spec.", true},
	{regexp.MustCompile(`(?s)^.*?(\w+ (?:"[^"]*" )?of the chart has no (?:name|apiVersion).*)$`), "ChartError", "$1", "Give it one, in the chart or in the spec.", true},
	{regexp.MustCompile(`(?s)^.*?(\w+ of the chart is in another list, .*)$`), "ChartError", "$1", "Write its items into that one, in the chart or in the spec.", true},
	{regexp.MustCompile(`(?s)^.*?((?:cluster-scoped )?\w+ "[^"]*"(?: in namespace "[^"]*")? is in the chart (?:twice, and not the same: .*|with the name of a release record))$`), "ChartError", "$1", "Give it another name, or take it out, in the chart or in the spec.", true},
	{regexp.MustCompile(`(?s)^.*?((?:a release of|the release record would be of) \d+ KiB.*)$`), "TooLarge", "$1", "", true},
	{regexp.MustCompile(`(?s)^.*?(\w+ "[^"]*": .* is not a valid number)$`), "InvalidValues", "$1", "Correct the spec.", true},
	{regexp.MustCompile(`(?s)^.*?no matches for (kind "[^"]*" in version "[^"]*").*$`), "ChartError", "The cluster does not know $1", "Install its CRD, or switch off in the spec what makes it.", true},
	{regexp.MustCompile(`(?s)^.*?(?:create|patch|look up) ((?:cluster-scoped )?\w+ "[^"]*")[^:]*: the server could not find the requested resource.*$`), "ChartError", "The cluster no longer serves the kind of $1",
		"Install its CRD, or switch off in the spec what makes it.", true},
	{regexp.MustCompile(`(^|[^.])template: |parse error|error converting YAML|is outside of namespace`), "ChartError", "", "Correct the chart: the spec is not the cause.", true},
	{regexp.MustCompile(`provided port is already allocated`), "Rejected", "", "Another Service has it: take another port. If that is the Service of before, under another name, take the port back with another edit, once this is deployed: deleted by hand, the Service is put back.", true},
	{regexp.MustCompile(`is invalid: |is forbidden: |field is immutable`), "Rejected", "", "Correct the spec, or the policy that refuses the object.", true},
	{regexp.MustCompile(`failed calling webhook "`), ReasonWebhookFailed, "", "The spec is not the cause: whoever runs this webhook has to bring it back, or to delete its configuration (kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations).", false},
	// Last, for the hook may have failed for one of those. It may succeed the next time. A test that fails is no failure of the release.
	{regexp.MustCompile(`(?:pre|post)-\w+.*hook .* has not succeeded`), ReasonHookFailed, "", "", false},
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
			message += ". " + cause.advice
		}
		return problem{reason: cause.reason, message: message, permanent: cause.permanent}
	}
	return problem{reason: libraryReason, message: message}
}
