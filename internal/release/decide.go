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
	// needsUpgrade: the release was made from other inputs, or did not succeed, or the chart is known to render
	// something else by now.
	needsUpgrade verdict = "upgrade"
	// isUnchanged: the release was made from these inputs. Its objects may have drifted.
	isUnchanged verdict = "unchanged"
	// needsRender: only a rendering tells, since the chart asks the cluster, which may answer something else by
	// now, or something else is allowed, or nothing proves that the record is the operator's.
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
	// alike is whether these differ in nothing that is known to make another rendering.
	alike bool
	// proven is whether it is certain that the release was made from recorded, and not only what the record says.
	proven bool
	// outdated is whether these inputs are known to render something else than what was applied.
	outdated bool
	// asks is whether what the chart asks the cluster has, or may have, another answer.
	asks bool
	// failed is the digest of the inputs that failed last. They are left alone until until.
	failed     string
	until, now time.Time
}

// decide has no side effects and asks nobody.
func decide(o observation) verdict {
	switch {
	case o.failed == o.wanted && o.now.Before(o.until):
		return mustWait
	case o.status == "":
		return needsInstall
	case o.status != release.StatusDeployed || o.outdated:
		return needsUpgrade
	case !o.proven:
		return needsRender // that the record has other inputs is a claim as well
	case o.recorded != o.wanted && !o.alike:
		return needsUpgrade
	case o.recorded != o.wanted || o.asks:
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
