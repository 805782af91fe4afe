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
	Allow  object.Allow   // what is allowed beyond, for what it refuses is looked for when it changes
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

// exact is a value with those numbers written as templates print them that JSON writes as others which they
// print otherwise: a default of 10485760 is a float64, and becomes 1.048576e+07, which a custom resource that
// says 10485760 is to mend.
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
