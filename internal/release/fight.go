package release

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"demo.welcome.domain/welcome-operator/internal/guard"
)

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
	// before, as by a tool that applies its own version every few minutes. It is told, and repaired each time. So it is
	// when the object was created again that often; of deletions, only those fightWindow apart count, for people.
	slowRepairs = 5
	slowGap     = 2 * time.Hour // intervals of an hour are a little longer now and then
	// During a fight, the first pause before the next repair is firstPause. It doubles each time, up to
	// lastPause.
	firstPause = time.Minute
	lastPause  = 10 * time.Minute
	// Not a fight, but as expensive: others change fields that are theirs, so that the object is looked at, and
	// nothing is put back. After so many looks within fightWindow, there is only one in each fightWindow.
	quietLooks = 10
)

// fight is the recent history of an object that was put back, or looked at in vain.
type fight struct {
	changed []putBack     // the last times
	deleted []time.Time   // when it was created again the last times
	apart   []time.Time   // likewise, at least fightWindow apart
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
	var again, besides bool // besides is whether there is a fight, and that is over something else
	if change.Created {
		f.deleted = latest(append(f.deleted, now), fightDeletions)
		if len(f.apart) == 0 || now.Sub(f.apart[len(f.apart)-1]) >= fightWindow {
			f.apart = latest(append(f.apart, now), slowRepairs)
		}
		f.gone = f.gone || f.often(f.deleted, fightDeletions)
		if quiet := slowFight(f.apart); quiet > 0 && !f.fought {
			f.slow = quiet
		} else {
			besides = !f.gone && (f.fought || f.slow > 0)
		}
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
		if quiet := slowFight(same); quiet > 0 {
			f.slow = quiet
		} else {
			besides = f.slow > 0 && !again
		}
	}
	if !besides {
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

// slowFight is for a field that was put back at these times: how long nobody must change it for a slow fight over
// it to be over. That is twice the longest time between the last of these, or 0 if there is no fight.
func slowFight(times []time.Time) (quiet time.Duration) {
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

// forgets is whether nothing of a fight that has healed has to be remembered. Otherwise, it keeps what may be the
// beginning of a slow fight.
func (f *fight) forgets(now time.Time) bool {
	if f.fought || f.slow > 0 || now.Sub(f.put) > slowGap {
		return true
	}
	*f = fight{changed: f.changed, apart: f.apart, put: f.put}
	return false
}

// tell sets what the custom resource says about fights.
func (d *drift) tell() {
	var lost []string
	rarely, advice, audit := "", "", ""
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
		if f.change == wasDeleted { // nothing in the cluster keeps that
			audit = " The audit log of the API server says who deletes it."
		}
		if f.scaled { // what its author can do, who cannot edit watches.yaml
			advice = " An autoscaler, or kubectl scale, has its way where the spec of the custom resource leaves the number of replicas out."
		}
	}
	d.told = Drift{}
	if len(lost) > 0 {
		slices.Sort(lost)
		d.told = Drift{Type: DriftLoop, Reason: DriftLoop, Message: strings.Join(lost, "; ") + "." + rarely +
			" End the other writer, or have the field ignored: driftDetection in watches.yaml." + audit + advice}
	}
}
