package release

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"demo.welcome.domain/welcome-operator/internal/guard"
	"demo.welcome.domain/welcome-operator/internal/object"
)

// DriftDetection is what is done about objects that others have changed.
type DriftDetection struct {
	Mode    DriftMode
	Ignored object.Ignored
}

// DriftMode is a word of Flux's HelmRelease.
type DriftMode string

const (
	// DriftEnabled repairs.
	DriftEnabled DriftMode = "enabled"
	// DriftWarn tells of a drift, and repairs nothing.
	DriftWarn DriftMode = "warn"
	// DriftDisabled does not look.
	DriftDisabled DriftMode = "disabled"
)

// Drift is told as a condition of the custom resource, and as an event with its reason.
type Drift struct{ Type, Reason, Message string }

// Drifted is the type of Drift where nothing is repaired. DriftLoop is the other one.
const Drifted = "Drifted"

// drift of the objects of one custom resource.
type drift struct {
	fights   map[string]*fight // by the object in words
	compared string            // what the objects were like when they were compared last
	told     Drift
	// While the wanted inputs fail, what was applied last is repaired: how often in a row that has changed
	// nothing or failed, and when it may be tried next.
	tries   int
	nextTry time.Time
}

// drifts is a copy for the reconcile of this custom resource to work on. setDrift stores it, for others to
// read.
func (n note) drifts() drift {
	if n.drift != nil {
		return *n.drift
	}
	return drift{fights: map[string]*fight{}}
}

func (n *note) setDrift(d drift) {
	if n.drift = &d; len(d.fights) == 0 && d.told == (Drift{}) && d.compared == "" && d.tries == 0 {
		n.drift = nil
	}
}

// settleSlowFights no longer tells of slow fights, for an upgrade may have ended them: the spec may say now what others
// have fought for. Else the next repair tells of them again.
func (n *note) settleSlowFights() {
	d, told := n.drifts(), false
	for _, f := range d.fights {
		told, f.slow = told || f.slow > 0, 0
	}
	if told {
		d.tell()
		n.setDrift(d)
	}
}

// correct handles drift as the mode of the kind says.
func (a *actionClient) correct() error {
	d := a.remembered().drifts()
	before := d.told
	d.tries, d.nextTry = 0, time.Time{}
	var err error
	asEdited := a.forced() || a.isUnfinished() // whatever is done about a drift
	switch mode := a.DriftDetection.Mode; {
	case mode == DriftWarn && !asEdited:
		err = a.compareObjects(&d)
	case mode == DriftDisabled && !asEdited:
		if a.provenChildren() == nil { // without known children, there is nothing to compare with the cache
			err = a.compareObjects(&d)
		}
		d = drift{}
	default:
		err = a.repairRested(&d)
		d.tell()
	}
	if d.told != before && d.told != (Drift{}) {
		a.warn(d.told.Reason, d.told.Message)
	}
	a.remember(func(n *note) { n.setDrift(d) })
	return err
}

// findDrifted finds the known objects that are not as they were applied. due is whether any of them is to be
// looked at, shown are those of them that the cache has, and resting those left alone for now, since others
// would only change them again. A deleted object rests only if it was deleted again and again: whoever fought for
// its fields has perhaps ended that so, and people miss it.
func (a *actionClient) findDrifted(d *drift, now time.Time, children []object.Child) (due bool, shown []string, resting map[string]bool) {
	resting, a.fought = map[string]bool{}, nil
	for _, child := range children {
		if a.intact(child) {
			continue
		}
		name := a.describe(child)
		cached, err := a.cachedChild(child)
		f := d.fights[name]
		rests := f != nil && f.pause > 0 && f.rests(now) > 0
		if rests && f.fought && (err == nil || f.gone || !a.isGone(child)) || rests && err == nil && !a.forced() {
			f.lost, resting[name] = f.fought, true
			a.resting = append(a.resting, child)
			if is := child.Kind + " " + child.Name; f.fought && !slices.Contains(a.fought, is) {
				a.fought = append(a.fought, is)
			}
			a.schedule.after(a.owner, f.rests(now))
			continue
		}
		due = true
		// Else it is not known whether it has changed.
		if err == nil && object.Owned(cached, a.owner, []types.UID{child.UID}) {
			shown = append(shown, name)
		}
	}
	return due, shown, resting
}

// updateFights notes what a repair has done to the objects that were looked at, and drops the fights that are
// over.
func (a *actionClient) updateFights(d *drift, now time.Time, looked []string, changes []guard.Change, resting map[string]bool) {
	of := func(name string) *fight {
		if d.fights[name] == nil {
			d.fights[name] = &fight{}
		}
		return d.fights[name]
	}
	for _, change := range changes {
		if !a.runsAgain(change) {
			of(change.Object).repaired(now, change)
		}
	}
	for _, name := range looked {
		if !slices.ContainsFunc(changes, func(change guard.Change) bool { return change.Object == name }) {
			of(name).foundIntact(now)
		}
	}
	maps.DeleteFunc(d.fights, func(name string, f *fight) bool {
		switch wait := f.heals(now); {
		case resting[name]:
		case wait <= 0:
			return f.forgets(now)
		case f.pause > 0 || f.slow > 0:
			a.schedule.after(a.owner, wait)
		}
		return false
	})
}

// repairRested repairs what has drifted and is not resting.
func (a *actionClient) repairRested(d *drift) error {
	now := time.Now()
	due, shown, resting := a.findDrifted(d, now, a.provenChildren())
	var changes []guard.Change
	var err error
	if due || a.provenChildren() == nil || a.forced() {
		changes, err = a.repair()
	} else if len(resting) == 0 && a.waitFor == "" {
		logf.FromContext(a.ctx).V(1).Info("Nothing to do: the record has the same inputs, and the objects are as they were applied",
			"record", a.current.Name, "inputs", a.wanted, "objects", len(a.current.Children))
	}
	if err != nil {
		shown = nil // what came of them is not known
	}
	a.updateFights(d, now, shown, changes, resting)
	return err
}

// compareObjects finds out what a repair would change, and reports that as drift.
func (a *actionClient) compareObjects(d *drift) error {
	now, children := time.Now(), a.provenChildren()
	_, shown, resting := a.findDrifted(d, now, children)
	seen, known := a.wanted, children != nil
	drifted := !known
	for _, child := range children {
		cached, err := a.cachedChild(child)
		if object.IsUncached(err) {
			known = false
		}
		if !a.intact(child) {
			drifted = true
			seen += " " + a.describe(child) + string(cached.GetUID()) + object.CachedFingerprint(cached)
		}
	}
	if !drifted {
		d.compared, d.told = "", Drift{}
	}
	if !drifted || known && (d.compared == seen || len(resting) > 0) {
		a.updateFights(d, now, nil, nil, resting)
		return nil
	}
	a.resting = nil // else resting objects would count as intact
	op, err := a.begin(nil, false)
	if err != nil {
		return err
	}
	defer op.end()
	manifest, err := a.restorable(op)
	if err != nil || manifest == "" {
		return err
	}
	changes, missing := op.guard.Compare(manifest)
	if missing != nil {
		missing = fmt.Errorf("look for drift: %w", missing)
		if !object.Each(missing, guard.IsUnknown) {
			return missing
		}
	}
	if children == nil {
		a.current.Children = op.guard.Children()
	} else {
		a.current.Children = object.WithScaled(children, op.guard.Children())
	}
	a.updateFights(d, now, shown, nil, resting)
	d.compared, d.told = seen, Drift{}
	if len(changes) > 0 {
		words := make([]string, len(changes))
		for i, change := range changes {
			words[i] = change.Object + ": " + describe(change)
		}
		d.told = Drift{Type: Drifted, Reason: DriftDetected, Message: strings.Join(words, "; ") + ". The operator leaves it so: driftDetection in watches.yaml."}
	}
	return missing
}

const wasDeleted = "it was deleted"

// describe says what others did to an object.
func describe(change guard.Change) string {
	if change.Created {
		return wasDeleted
	}
	return fields(change) + " was changed" + writtenBy(change)
}

// fields lists the first few fields that others have changed: there may be thousands.
func fields(change guard.Change) string {
	return strings.Join(object.Few(change.Fields, 5), ", ")
}

// writtenBy names the field manager that has changed an object, if known. What admission changes, in whosever request,
// goes on as written by who wrote it before.
func writtenBy(change guard.Change) string {
	switch change.Writer {
	case "":
		return ""
	case object.Manager:
		return " by nobody besides the operator, say its managed fields (a webhook or policy leaves no trace there, and another installation of this operator has its name)"
	}
	return fmt.Sprintf(" by field manager %q", change.Writer)
}
