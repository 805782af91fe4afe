package object

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Denial matches what the API server says of a webhook or policy that denies a request. A policy without its kind is a
// MutatingAdmissionPolicy that fails.
const Denial = `(?:admission webhook "[^"]*"|(?:ValidatingAdmissionPolicy|policy) (?:'[^']*'(?: with binding '[^']*')?|"[^"]*")) denied`

// harmless matches those answers of the API server about Secrets that quote nothing of the object.
var harmless = regexp.MustCompile(`^secrets "[^"]*" (not found|already exists)$|User "[^"]*" cannot \w+ resource "secrets" in API group ""( in the namespace "[^"]*"| at the cluster scope)?|` +
	`exceeded quota: .*|unable to create new content in namespace \S+ because it is being terminated|failed calling webhook "[^"]*"|` + Denial)

// Discreet is err without what the API server's answer may quote of a Secret: it, a webhook or a policy may
// have put a value into the text.
func Discreet(err error) error {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return err // the API server was not reached
	}
	status := answer.Status()
	words := harmless.FindString(status.Message)
	var fields []string
	for _, cause := range Causes(err) {
		if cause.Field != "" { // else a policy calls it invalid
			fields = append(fields, fmt.Sprintf("%s (%s)", cause.Field, strings.TrimPrefix(string(cause.Type), "FieldValue")))
		}
	}
	if apierrors.IsInvalid(err) && len(fields) > 0 {
		words = strings.Join(fields, ", ")
	}
	verb := "failed"
	switch {
	case apierrors.IsInvalid(err):
		verb = "is invalid"
	case apierrors.IsForbidden(err):
		verb = "is forbidden"
	}
	return discreet{reworded{fmt.Sprintf("it %s: %s; what else the API server says is not told, for it may quote the Secret", verb, cmp.Or(words, string(status.Reason))), err}}
}

// quoted matches an object that the API server quotes before it says what is wrong with it, and a pod that it
// prints at the end.
var quoted = regexp.MustCompile(`(?s)^Invalid value: "?(?:[\w.\[\]*&]*\{.*\}|\[.*\])"?: |\n.*PodSpec\{.*$`)

// Why is what the API server says about a field, without a quoted object.
func Why(cause metav1.StatusCause) string { return quoted.ReplaceAllString(cause.Message, "") }

// Unquoted is err without the objects that the API server quotes, such as a pod template or the result of a
// patch. They may have a value of a Secret, and they bury the reason.
func Unquoted(err error) error {
	var causes []string
	quotes := false
	for _, cause := range Causes(err) {
		why := Why(cause)
		quotes = quotes || why != cause.Message
		if cause.Field != "patch" {
			why = cause.Field + ": " + why
		}
		causes = append(causes, why)
	}
	if !quotes || !apierrors.IsInvalid(err) {
		return err
	}
	return reworded{"it is invalid: " + strings.Join(causes, "; "), err}
}

// rendering splits an error of a rendering into where it occurred and why. parsing matches the part before
// the reason in an error about the rendered text.
var (
	rendering = regexp.MustCompile(`(?s)^(.*?error calling tpl: |.*executing "[^"]*" at <[^>]*>: )(.*)$`)
	parsing   = regexp.MustCompile(`(?s)^(.*?(?:[^.]yaml: line \d+: |[^.]yaml: |Object '\w+' is missing in |json: |json parse error: |unable to decode "": (?:Object '\w+' is missing in )?))`)
	// plainCause matches reasons that quote no value.
	plainCause = regexp.MustCompile(`^(error calling lookup|nil pointer evaluating|can't evaluate field|wrong type for value|map has no entry for key|no template|undefined variable)\b`)
)

// DiscreetRendering is an error of a rendering without values that it may quote. What the chart itself says,
// by fail and required, stays.
func DiscreetRendering(err error) error {
	text, where := err.Error(), ""
	if found := rendering.FindStringSubmatch(text); found != nil && !plainCause.MatchString(found[2]) {
		where = found[1]
	} else if found := parsing.FindStringSubmatch(text); found != nil {
		where = found[1]
	}
	if where == "" || strings.Contains(text, "execution error at (") {
		return err
	}
	return discreet{reworded{where + "what is not told here, for it may quote a Secret (helm template tells it)", err}}
}

// Reworded is err with another text. It still is the same error for errors.Is and errors.As.
func Reworded(words string, err error) error { return reworded{words, err} }

type reworded struct {
	words string
	error
}

func (r reworded) Error() string { return r.words }

// Unwrap returns the original error.
func (r reworded) Unwrap() error { return r.error }

// discreet marks an error that quotes no Secret.
type discreet struct{ reworded }

// IsDiscreet is whether an error is known to quote no Secret.
func IsDiscreet(err error) bool { return errors.As(err, &discreet{}) }
