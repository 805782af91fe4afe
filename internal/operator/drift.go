package operator

import (
	"cmp"
	"fmt"

	"demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/internal/release"
)

// driftDetection is what an entry of the watches file says of drift, in the words of Flux's HelmRelease. Other
// than there, drift is repaired where nothing is said.
type driftDetection struct {
	Mode   release.DriftMode   `json:"mode"`
	Ignore []object.IgnoreRule `json:"ignore,omitempty"`

	ignored object.Ignored
}

func (d *driftDetection) parse() error {
	d.Mode = cmp.Or(d.Mode, release.DriftEnabled)
	switch d.Mode {
	case release.DriftEnabled, release.DriftWarn, release.DriftDisabled:
	default:
		return fmt.Errorf("mode must be %s, %s or %s, not %q", release.DriftEnabled, release.DriftWarn, release.DriftDisabled, d.Mode)
	}
	var err error
	d.ignored, err = object.NewIgnored(d.Ignore)
	return err
}
