package release

import (
	"fmt"
	"strings"
	"time"
)

const (
	// A release may get so many revisions within this time, though neither its custom resource nor its chart was
	// edited. The next one waits until what the chart asks the cluster has not changed for as long.
	mostRevisions = 3
	brakeWindow   = 10 * time.Minute
)

// churn counts the upgrades of a release that nobody has edited, and what has caused them.
type churn struct {
	generation int64
	chart      string
	revisions  []time.Time
	looked     time.Time // when the chart's lookups were last repeated
	// seen are the last surroundings, since since; changed is what differed from those before.
	seen    surroundings
	found   map[string]string
	since   time.Time
	changed []string
}

// upgraded counts a revision.
func (c *churn) upgraded(now time.Time, generation int64, chart string) {
	if c.generation != generation || c.chart != chart {
		c.generation, c.chart, c.revisions = generation, chart, nil
		return // somebody edited the one or the other
	}
	c.revisions = append(c.revisions, now)
	c.revisions = c.revisions[max(0, len(c.revisions)-mostRevisions):]
}

// notice remembers the surroundings of a rendering.
func (c *churn) notice(now time.Time, seen surroundings, found map[string]string) {
	if c.seen == seen {
		return
	}
	if now.Sub(c.since) >= brakeWindow {
		c.revisions = nil // it had settled
	}
	c.changed = differences(c.found, found)
	if c.seen.Capabilities != seen.Capabilities {
		c.changed = append(c.changed, "the cluster's version or APIs")
	}
	c.seen, c.found, c.since = seen, found, now
}

// holds is why there is no further revision for now, empty if there may be one.
func (c *churn) holds(now time.Time, generation int64, chart string) string {
	settled := now.Sub(c.since) >= brakeWindow
	if c.generation != generation || c.chart != chart || settled || len(c.revisions) < mostRevisions || c.revisions[mostRevisions-1].Sub(c.revisions[0]) >= brakeWindow {
		return ""
	}
	return fmt.Sprintf("%d revisions within %s, although neither the custom resource nor its chart was edited: what the chart asks the cluster for keeps changing (%s), "+
		"and there is no further revision until that stays the same for %[2]s. Keep that the same, or remove the lookup or .Capabilities from the chart; what was applied goes on running", mostRevisions, brakeWindow, strings.Join(c.changed, ", "))
}

// braked is holds for the release of the owner, empty if its chart asks the cluster nothing.
func (a *actionClient) braked() string {
	if a.asks == (questions{}) {
		return ""
	}
	return a.churn().holds(time.Now(), a.owner.GetGeneration(), a.source.digest)
}

// churn is that of the owner, whose chart asks the cluster, for its reconcile to read and write.
func (a *actionClient) churn() (c *churn) {
	a.remember(func(n *note) {
		if n.churn == nil {
			n.churn = &churn{}
		}
		c = n.churn
	})
	return c
}
