package release

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// inputs is what decides about an upgrade: a release whose record carries the digest of its inputs need not be
// rendered again to know that it is up to date. What chance, time or the number of the revision have put into
// it stays as it was applied.
type inputs struct {
	Chart  string         // digest of the chart's files
	Allow  object.Allow   // what watches.yaml allows: when that changes, the rendering is judged again
	Values map[string]any // the custom resource's spec with overrides and the chart's defaults
}

// text is all of the inputs; JSON sorts the keys of maps.
func (i inputs) text() (string, error) {
	i.Values, _ = exact(i.Values).(map[string]any)
	text, err := json.Marshal(i)
	if err != nil {
		return "", fmt.Errorf("digest the values of a release: %w", err)
	}
	return string(text), nil
}

// exact replaces large whole numbers by what templates print for them. JSON writes the float64 10485760 like
// the integer, though templates print it as 1.048576e+07. A custom resource that sets the integer to mend a
// default in the chart must have other inputs than before.
func exact(value any) any {
	switch value := value.(type) {
	case map[string]any:
		made := make(map[string]any, len(value))
		for key, element := range value {
			made[key] = exact(element)
		}
		return made
	case []any:
		made := make([]any, len(value))
		for n, element := range value {
			made[n] = exact(element)
		}
		return made
	case float64:
		if text := fmt.Sprint(value); value == math.Trunc(value) && strings.Contains(text, "e") {
			return json.Number(text)
		}
	}
	return value
}
