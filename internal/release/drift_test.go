package release

import (
	"testing"
	"time"

	"demo.welcome.domain/welcome-operator/internal/guard"
	"demo.welcome.domain/welcome-operator/internal/object"
)

func TestDescribeChange(t *testing.T) {
	for want, change := range map[string]guard.Change{
		"it was deleted":                       {Created: true},
		"a, b was changed":                     {Fields: []string{"a", "b"}},
		`a was changed by field manager "x\n"`: {Fields: []string{"a"}, Writer: "x\n"},
		"a was changed by nobody besides the operator, say its managed fields (a webhook or policy leaves no trace there, and another installation of this operator has its name)": {Fields: []string{"a"}, Writer: object.Manager},
		"a, b, c, d, e, 2 more was changed": {Fields: []string{"a", "b", "c", "d", "e", "f", "g"}},
	} {
		if got := describe(change); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// An upgrade may have ended a slow fight. If it has not, the next repair tells of it again.
func TestUpgradeSettlesASlowFight(t *testing.T) {
	n, f, start := &note{}, &fight{}, time.Now()
	repair := func(minute int) {
		f.repaired(start.Add(time.Duration(minute)*time.Minute), guard.Change{Fields: []string{"port"}})
		d := drift{fights: map[string]*fight{"it": f}}
		d.tell()
		n.setDrift(d)
	}
	for i := range slowRepairs {
		repair(10 * i)
	}
	if n.drift.told.Type != DriftLoop {
		t.Errorf("it says %v", n.drift.told)
	}
	if n.settleSlowFights(); n.drift.told != (Drift{}) {
		t.Errorf("after an upgrade it says %v", n.drift.told)
	}
	if repair(60); n.drift.told.Type != DriftLoop {
		t.Errorf("after another repair it says %v", n.drift.told)
	}
}

// What is known of the drift of custom resources that are gone, or fare well, takes no memory.
func TestDriftIsForgotten(t *testing.T) {
	l := newLedger()
	l.write("calm", func(n *note) { n.setDrift(drift{fights: map[string]*fight{}}) })
	d := l.read("other").drifts()
	d.fights["it"] = &fight{lost: true, change: "it was deleted"}
	d.tell()
	l.write("other", func(n *note) { n.setDrift(d) })
	if got := l.state("other").Drift; got.Type != DriftLoop || l.read("calm").drift != nil {
		t.Errorf("%v, and of what fares well %v", got, l.read("calm").drift)
	}
	l.forget("other")
	if _, left := l.notes["other"]; left || l.state("other").Drift != (Drift{}) {
		t.Errorf("left are %v", l.notes)
	}
}
