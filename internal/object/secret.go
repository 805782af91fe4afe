package object

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Secret is the kind of Secrets.
var Secret = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}

// IsSecret is whether an object is a Secret.
func IsSecret(o *unstructured.Unstructured) bool {
	return o.GroupVersionKind().GroupKind() == Secret.GroupKind()
}

// withData has a Secret say in data what it says in stringData, as the API server does when it stores it.
func withData(secret *unstructured.Unstructured) {
	texts, _, _ := unstructured.NestedMap(secret.Object, "stringData")
	if data, ok := secret.Object["data"].(map[string]any); len(texts) > 0 && (ok || secret.Object["data"] == nil) {
		all := both(data, nil)
		for key, text := range texts {
			all[key] = base64.StdEncoding.EncodeToString([]byte(fmt.Sprint(text)))
		}
		secret.Object["data"] = all
	}
	delete(secret.Object, "stringData")
}

// Quietly is ctx for requests about Secrets: if much is to be logged, client-go logs all of what is sent and answered.
func Quietly(ctx context.Context) context.Context { return logr.NewContext(ctx, logr.Discard()) }

// harmless is what may be told of what the API server says about a request: it quotes nothing of the object.
var harmless = regexp.MustCompile(`^secrets "[^"]*" (not found|already exists)$|User "[^"]*" cannot \w+ resource "secrets" in API group ""( in the namespace "[^"]*"| at the cluster scope)?|` +
	`exceeded quota: .*|unable to create new content in namespace \S+ because it is being terminated|failed calling webhook "[^"]*"|admission webhook "[^"]*" denied|ValidatingAdmissionPolicy '[^']*' with binding '[^']*' denied`)

// Discreet is err without what it may quote of a Secret that the API server was asked about: itself, a webhook
// or a policy may have put a value into it.
func Discreet(err error) error {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return err // of the way there
	}
	status := answer.Status()
	words := harmless.FindString(status.Message)
	if apierrors.IsInvalid(err) && status.Details != nil {
		var fields []string
		for _, cause := range status.Details.Causes {
			fields = append(fields, fmt.Sprintf("%s (%s)", cause.Field, strings.TrimPrefix(string(cause.Type), "FieldValue")))
		}
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

// quoted finds an object that the API server quotes before it says what is wrong with it, and the pod that it
// shows behind that.
var quoted = regexp.MustCompile(`(?s)^Invalid value: "?(?:[\w.\[\]*&]*\{.*\}|\[.*\])"?: |\n.*PodSpec\{.*$`)

// Why is what the API server says of a field, without an object that it quotes.
func Why(cause metav1.StatusCause) string { return quoted.ReplaceAllString(cause.Message, "") }

// Unquoted is err without the objects that the API server quotes, a pod template or all that a patch would have
// made: they may have a value of a Secret, and hide why.
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

// rendering finds what an error of a rendering says of where it is, and then why; parsing the same of an error
// about what was rendered.
var (
	rendering = regexp.MustCompile(`(?s)^(.*?error calling tpl: |.*executing "[^"]*" at <[^>]*>: )(.*)$`)
	parsing   = regexp.MustCompile(`(?s)^(.*?(?:[^.]yaml: line \d+: |[^.]yaml: |Object '\w+' is missing in |json: |json parse error: |unable to decode "": (?:Object '\w+' is missing in )?))`)
	// plainCause is a reason that quotes no value.
	plainCause = regexp.MustCompile(`^(error calling lookup|nil pointer evaluating|can't evaluate field|wrong type for value|map has no entry for key|no template|undefined variable)\b`)
)

// DiscreetRendering is err, of a rendering, without what it may quote of the values in it. What the chart
// itself says, by fail and required, is the chart's.
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

// Reworded is an error in other words.
func Reworded(words string, err error) error { return reworded{words, err} }

type reworded struct {
	words string
	error
}

func (r reworded) Error() string { return r.words }

// Unwrap tells whoever asks which error it is.
func (r reworded) Unwrap() error { return r.error }

// discreet is one that says no more than it may.
type discreet struct{ reworded }

// IsDiscreet is whether an error says no more than it may.
func IsDiscreet(err error) bool { return errors.As(err, &discreet{}) }
