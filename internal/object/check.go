package object

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/release"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// endless finds quantities that take seconds to minutes, and up to gigabytes, to be parsed:
// resource.ParseQuantity writes all of their digits out. Short ones with a large exponent it does not, so that
// the API server stores them, until they are added or compared.
var endless = regexp.MustCompile(`^[+-]?[0-9.]+[eE]-[0-9]{5,}$|^[+-]?[0-9.]{18,}[eE]\+?[0-9]{5,}$`)

// exponent matches quantities that must not be added or compared, because that takes too long.
var exponent = regexp.MustCompile(`[eE][+-]?[0-9]{3,}$`)

// maxQuantity bounds the text of a quantity.
const maxQuantity = 64

// quantityOf is the approximate value of a quantity; false if it is not valid, or too long to handle.
func quantityOf(text string) (float64, bool) {
	if len(text) > maxQuantity || exponent.MatchString(text) {
		return 0, false
	}
	quantity, err := resource.ParseQuantity(text)
	return quantity.AsApproximateFloat64(), err == nil
}

// MaxPath bounds how long the path of a field may be, in a spec and in an object of a chart. Who names fields by
// their paths has those of all levels at once, or makes one for each of ten thousands of fields: of half a megabyte
// that is nested thousands of levels deep, or below one long name, these would be gigabytes.
const MaxPath = 2048

// LongestPath is how long the longest path of a field in a value is, as in .a.b[].
func LongestPath(value any) (longest int) {
	switch value := value.(type) {
	case map[string]any:
		for key, element := range value {
			longest = max(longest, 1+len(key)+LongestPath(element))
		}
	case []any:
		for _, element := range value {
			longest = max(longest, 2+LongestPath(element))
		}
	}
	return longest
}

// Check is why an object must not be made as a chart has it, or nil: because the API server would refuse it, or
// because nobody should have to read it.
func Check(o *unstructured.Unstructured) error {
	if name := field(o.Object["metadata"], "name"); name != nil && o.GetName() == "" && name != "" {
		return fmt.Errorf("%s \"%v\": its name is not a string", o.GetKind(), name)
	}
	if _, isList := o.Object["items"]; isList {
		return fmt.Errorf("%s of the chart is in another list, where Helm reads none", o.GetKind())
	}
	if o.GetName() == "" && (!IsHook(o) || !isLeft(o)) {
		return fmt.Errorf("%s of the chart has no name (generateName: %q): a release knows its objects by their names, and which of its hooks to delete", o.GetKind(), o.GetGenerateName())
	}
	if o.GetAPIVersion() == "" { // Helm finds a kind of the core all the same, and asks for it where there is nothing
		return fmt.Errorf("%s %q of the chart has no apiVersion", o.GetKind(), o.GetName())
	}
	for _, in := range []string{"labels", "annotations"} {
		texts := fields(field(o.Object["metadata"], in))
		for _, key := range slices.Sorted(maps.Keys(texts)) { // always the same of several, or each attempt would tell of another one
			switch value := texts[key].(type) {
			case string, nil:
			default: // with one of these, GetLabels or GetAnnotations has none
				return fmt.Errorf("%s %q: the value %v of the %s %s is not a string", o.GetKind(), o.GetName(), value, strings.TrimSuffix(in, "s"), key)
			}
		}
	}
	if length := LongestPath(o.Object); length > MaxPath {
		return fmt.Errorf("%s %q: a field has a path (as .a.b[]) of %d characters, and may have one of %d", o.GetKind(), o.GetName(), length, MaxPath)
	}
	if kind := o.GetKind(); kind == "ConfigMap" || kind == "Secret" {
		return nil // what is in their data is no quantity, and perhaps nobody's to see
	}
	if text := endlessIn(o.Object); text != "" {
		return fmt.Errorf("%s %q: %.40s is not a valid number", o.GetKind(), o.GetName(), text)
	}
	return nil
}

// isLeft is whether Helm leaves a hook in the cluster after it has succeeded, and does not delete it before
// the next run either.
func isLeft(hook *unstructured.Unstructured) bool {
	return strings.TrimSpace(hook.GetAnnotations()[release.HookDeleteAnnotation]) == release.HookFailed.String()
}

// endlessIn is an endless quantity in a value, empty if there is none.
func endlessIn(value any) string {
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) { // of several the same each time
			if text := endlessIn(value[key]); text != "" {
				return text
			}
		}
	case []any:
		for _, inner := range value {
			if text := endlessIn(inner); text != "" {
				return text
			}
		}
	case string:
		if endless.MatchString(value) {
			return value
		}
	}
	return ""
}
