package release

import (
	"encoding/json"
	"fmt"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// inputs is everything that decides what a chart renders. Equal inputs render equal
// manifests, so a release whose record carries the digest of its inputs need not be rendered
// again to know that it is up to date.
type inputs struct {
	Chart        string         // digest of the chart's files
	Capabilities string         // digest of the cluster's version and APIs, empty if the chart does not ask for them
	Allow        object.Allow   // what is allowed beyond, for what it refuses is looked for when it changes
	Values       map[string]any // the custom resource's spec with overrides and the chart's defaults
}

// digest is a short name of the inputs; JSON sorts the keys of maps.
func (i inputs) digest() (string, error) {
	text, err := json.Marshal(i)
	if err != nil {
		return "", fmt.Errorf("digest the values of a release: %w", err)
	}
	return object.Digest(text), nil
}
