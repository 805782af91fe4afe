package release

import (
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
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

const (
	// A fight over an object begins when the same field had to be put back fightRepairs times within
	// fightWindow. It ends when the object has stayed as it is for that long.
	fightRepairs = 3
	fightWindow  = time.Minute
	// It also begins after so many repairs of different fields: a person edits one after the other, but not so
	// many.
	anyRepairs = 10
	// toldApart is how many fields of a repair are remembered.
	toldApart = 20
	// It also begins after so many deletions: people delete an object several times to see it come back.
	fightDeletions = 20
	// A fight is slow when the same field had to be put back slowRepairs times, each within slowGap of the one
	// before, as by a tool that applies its own version every few minutes. It is told, and repaired each time.
	slowRepairs = 5
	slowGap     = time.Hour
	// During a fight, the first pause before the next repair is firstPause. It doubles each time, up to
	// lastPause.
	firstPause = time.Minute
	lastPause  = 10 * time.Minute
	// Not a fight, but as expensive: others change fields that are theirs, so that the object is looked at, and
	// nothing is put back. After so many looks within fightWindow, there is only one in each fightWindow.
	quietLooks = 10
)

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

// fight is the recent history of an object that was put back, or looked at in vain.
type fight struct {
	changed []putBack     // the last times
	deleted []time.Time   // when it was created again the last times
	looked  []time.Time   // when it was looked at the last times, and nothing was put back
	last    time.Time     // of these
	put     time.Time     // when it was put back or created again last
	change  string        // what was put back, and who had written it
	pause   time.Duration // from the last repair or look to the next, 0 while there were few
	fought  bool          // whether the pause is due to repairs, not looks
	gone    bool          // whether it was also deleted so often that this is a fight
	lost    bool          // whether it was changed again
	scaled  bool          // whether the replicas were put back
	slow    time.Duration // how long the object has to stay as it is for a slow fight to be over, 0 if there is none
}

// putBack is a repair: when it was, and digests of the paths of its fields, which others may have made very
// long.
type putBack struct {
	at     time.Time
	fields []uint64
}

var paths = maphash.MakeSeed()

func (f *fight) repaired(now time.Time, change guard.Change) {
	f.last, f.put = now, now
	var again bool
	if change.Created {
		f.deleted = latest(append(f.deleted, now), fightDeletions)
		f.gone = f.gone || f.often(f.deleted, fightDeletions)
		again = f.gone
	} else {
		repair := putBack{at: now}
		for _, field := range change.Fields[:min(len(change.Fields), toldApart)] {
			repair.fields = append(repair.fields, maphash.String(paths, field))
		}
		f.changed = latest(append(f.changed, repair), anyRepairs)
		var times, same []time.Time
		for _, earlier := range f.changed {
			times = append(times, earlier.at)
			if slices.ContainsFunc(earlier.fields, func(field uint64) bool { return slices.Contains(repair.fields, field) }) {
				same = append(same, earlier.at)
			}
		}
		again = f.often(same, fightRepairs) || f.often(times, anyRepairs)
		f.slow = slowly(same)
	}
	if f.gone || !f.fought || !change.Created { // else it is over what was put back before
		f.change, f.scaled = describe(change), slices.Contains(change.Fields, "spec.replicas")
	}
	switch {
	case f.fought:
		f.pause = min(2*f.pause, lastPause)
	case again:
		f.pause, f.fought = firstPause, true
	}
	if f.fought {
		f.slow = 0
	}
}

// latest are the last of all, so many at most.
func latest[T any](all []T, most int) []T { return all[max(0, len(all)-most):] }

// often is whether the last most of times lie within the time that makes a fight.
func (f *fight) often(times []time.Time, most int) bool {
	within := fightWindow
	if f.pause > 0 { // repairs are that far apart
		within += time.Duration(most) * f.pause
	}
	return len(times) >= most && times[len(times)-1].Sub(times[len(times)-most]) < within
}

// slowly is how long a field has to stay as it is, which was put back at these times, for a slow fight over it to
// be over: twice as long as it has stayed at most between the last of them. It is 0 if there is no fight.
func slowly(times []time.Time) (quiet time.Duration) {
	if len(times) < slowRepairs {
		return 0
	}
	times = latest(times, slowRepairs)
	for i, at := range times[1:] {
		quiet = max(quiet, 2*at.Sub(times[i]))
	}
	if quiet > 2*slowGap {
		return 0
	}
	return quiet
}

// foundIntact notes a look at an object in which nothing had to be put back. Whatever else others write there,
// what was fought for has stayed.
func (f *fight) foundIntact(now time.Time) {
	if f.fought && now.Sub(f.put) >= fightWindow {
		*f = fight{}
	}
	f.looked = latest(append(f.looked, now), quietLooks)
	f.last = now
	if f.pause == 0 && len(f.looked) == quietLooks && now.Sub(f.looked[0]) < fightWindow {
		f.pause = fightWindow
	}
}

// rests is how long an object over which there is a fight is still to be left alone.
func (f *fight) rests(now time.Time) time.Duration { return f.last.Add(f.pause).Sub(now) }

// heals is for how long an object still has to stay as it is for the fight to be over.
func (f *fight) heals(now time.Time) time.Duration {
	return max(f.last.Add(fightWindow).Sub(now), f.put.Add(f.slow).Sub(now))
}

// tell sets what the custom resource says about fights.
func (d *drift) tell() {
	var lost []string
	rarely, advice := "", ""
	for name, f := range d.fights {
		switch {
		case f.lost:
			lost = append(lost, fmt.Sprintf("%s: %s, and put back; it has been changed again since", name, f.change))
			rarely = " The operator puts that back ever more rarely, up to 10 minutes apart."
		case f.slow > 0:
			lost = append(lost, fmt.Sprintf("%s: %s, and put back, again and again", name, f.change))
		default:
			continue
		}
		if f.scaled { // what its author can do, who cannot edit watches.yaml
			advice = " An autoscaler, or kubectl scale, has its way where the spec of the custom resource leaves the number of replicas out."
		}
	}
	d.told = Drift{}
	if len(lost) > 0 {
		slices.Sort(lost)
		d.told = Drift{Type: DriftLoop, Reason: DriftLoop, Message: strings.Join(lost, "; ") + "." + rarely +
			" End the other writer, or have the field ignored: driftDetection in watches.yaml." + advice}
	}
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
	resting = map[string]bool{}
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
		of(change.Object).repaired(now, change)
	}
	for _, name := range looked {
		if !slices.ContainsFunc(changes, func(change guard.Change) bool { return change.Object == name }) {
			of(name).foundIntact(now)
		}
	}
	maps.DeleteFunc(d.fights, func(name string, f *fight) bool {
		wait := f.heals(now)
		if resting[name] {
			return false
		}
		if wait > 0 {
			if f.pause > 0 || f.slow > 0 {
				a.schedule.after(a.owner, wait)
			}
			return false
		}
		if f.fought || f.slow > 0 || now.Sub(f.put) > slowGap {
			return true
		}
		*f = fight{changed: f.changed, put: f.put} // a slow one may be on its way
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

// describe says what others did to an object.
func describe(change guard.Change) string {
	if change.Created {
		return "it was deleted"
	}
	return fields(change) + " was changed" + writtenBy(change)
}

// fields lists the first few fields that others have changed: there may be thousands.
func fields(change guard.Change) string {
	return strings.Join(object.Few(change.Fields, 5), ", ")
}

// writtenBy names the field manager that has changed an object, if known.
func writtenBy(change guard.Change) string {
	if change.Writer == "" {
		return ""
	}
	return fmt.Sprintf(" by field manager %q", change.Writer)
}

// describe names a child as the guard does.
func (a *actionClient) describe(child object.Child) string {
	namespace := a.owner.GetNamespace()
	if inNoNamespace(schema.FromAPIVersionAndKind(child.APIVersion, child.Kind), a.clients.mapper) {
		namespace = ""
	}
	return object.Describe(child.Kind, namespace, child.Name)
}

// scalable is whether the custom resource leaves the replicas of a workload to whoever scales it: it sets none,
// or as many as the chart does by default. Only a rendering tells which value sets the replicas of which
// workload. So the chart is rendered with no spec and, where that makes no such workload or fails, with the
// spec without the values that equal its number of replicas.
func (a *actionClient) scalable(desired *unstructured.Unstructured) bool {
	if a.chart == nil {
		return false
	}
	wanted, set, _ := unstructured.NestedFieldNoCopy(desired.Object, "spec", "replicas")
	spec, _ := without(wanted, a.values).(map[string]any)
	for _, spec := range []map[string]any{{}, spec} {
		made, err := a.clients.capabilities.Made(a.clients.mapper, a.owner, a.chart, a.Overrides, spec)
		i := slices.IndexFunc(made, func(obj *unstructured.Unstructured) bool {
			return obj.GetKind() == desired.GetKind() && obj.GetName() == desired.GetName()
		})
		if err == nil && i >= 0 {
			usual, usuallySet, _ := unstructured.NestedFieldNoCopy(made[i].Object, "spec", "replicas")
			return set == usuallySet && fmt.Sprint(wanted) == fmt.Sprint(usual)
		}
	}
	return false
}

// without is a copy of value without what equals number, as a number or a text. It has no templates either:
// those of the spec were tried and are known to end, those of another one need not.
func without(number, value any) any {
	switch value := value.(type) {
	case map[string]any:
		rest := map[string]any{}
		for key, inner := range value {
			if inner = without(number, inner); inner != nil && !strings.Contains(key, "{{") {
				rest[key] = inner
			}
		}
		return rest
	case []any:
		rest := []any{}
		for _, inner := range value {
			if inner = without(number, inner); inner != nil {
				rest = append(rest, inner)
			}
		}
		return rest
	}
	if text := fmt.Sprint(value); text == fmt.Sprint(number) || strings.Contains(text, "{{") {
		return nil
	}
	return value
}
