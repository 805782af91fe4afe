package release

import (
	"encoding/json"
	"fmt"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// inputs is what decides about an upgrade: a release whose record carries the digest of its inputs need not be rendered again to know
// that it is up to date. What chance, time or the number of the revision have put into it stays as it was applied.
type inputs struct {
	Chart  string         // digest of the chart's files
	Allow  object.Allow   // what is allowed beyond, for what it refuses is looked for when it changes
	Values map[string]any // the custom resource's spec with overrides and the chart's defaults
}

// text is all of the inputs; JSON sorts the keys of maps.
func (i inputs) text() (string, error) {
	text, err := json.Marshal(i)
	if err != nil {
		return "", fmt.Errorf("digest the values of a release: %w", err)
	}
	return string(text), nil
}
