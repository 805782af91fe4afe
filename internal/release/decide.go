package release

import (
	"time"

	"helm.sh/helm/v3/pkg/release"
)

// verdict is what has to be done about a release.
type verdict string

const (
	// needsInstall: there is no release.
	needsInstall verdict = "install"
	// needsUpgrade: the release was made from other inputs, or did not succeed.
	needsUpgrade verdict = "upgrade"
	// isUnchanged: the release was made from these inputs. Its objects may have drifted.
	isUnchanged verdict = "unchanged"
	// needsRender: only a rendering tells, since the chart's output depends on more than its inputs, or nothing proves
	// that the record is the operator's.
	needsRender verdict = "render"
	// mustWait: these inputs failed a short while ago.
	mustWait verdict = "wait"
)

// observation is everything that a verdict depends on.
type observation struct {
	// status of the newest record, empty if there is none.
	status release.Status
	// recorded and wanted are digests of inputs.
	recorded, wanted string
	// proven is whether the record is known to be the operator's.
	proven bool
	// pure is whether equal inputs render equal manifests.
	pure bool
	// failed is the digest of the inputs that failed last, until when to leave them alone.
	failed string
	until  time.Time
	now    time.Time
}

// decide has no side effects and asks nobody.
func decide(o observation) verdict {
	switch {
	case o.failed == o.wanted && o.now.Before(o.until):
		return mustWait
	case o.status == "":
		return needsInstall
	case o.status != release.StatusDeployed || o.recorded != o.wanted:
		return needsUpgrade
	case !o.pure || !o.proven:
		return needsRender
	default:
		return isUnchanged
	}
}

// orphaned is whether a record was left in the middle of an action. Who holds the lease is
// the only writer, so at the start of a reconcile nobody is working on such a release.
func orphaned(status release.Status) bool {
	return status != release.StatusDeployed && status != release.StatusFailed && status != release.StatusSuperseded
}
