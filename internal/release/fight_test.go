package release

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"demo.welcome.domain/welcome-operator/internal/guard"
)

func TestFight(t *testing.T) {
	start := time.Now()
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	for name, c := range map[string]struct {
		repairs []int
		deleted bool
		want    time.Duration
	}{
		"twice":                         {[]int{0, 1}, false, 0},
		"three times in a minute":       {[]int{0, 1, 2}, false, time.Minute},
		"three times in more":           {[]int{0, 30, 61}, false, 0},
		"the last three in a minute":    {[]int{0, 50, 70, 100}, false, time.Minute},
		"and again":                     {[]int{0, 1, 2, 62}, false, 2 * time.Minute},
		"and again, for hours":          {[]int{0, 1, 2, 62, 182, 422, 902, 1502, 2102}, false, 10 * time.Minute},
		"deleted again and again":       {slices.Repeat([]int{1}, fightDeletions-1), true, 0},
		"deleted for ever":              {slices.Repeat([]int{1}, fightDeletions), true, time.Minute},
		"of long ago, and a minute now": {[]int{0, 3600, 3601, 3602}, false, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fight{}
			for _, second := range c.repairs {
				f.repaired(at(second), guard.Change{Created: c.deleted, Fields: []string{"spec"}})
			}
			if f.pause != c.want || len(f.changed) > anyRepairs || len(f.deleted) > fightDeletions {
				t.Errorf("it rests for %s after %v", f.pause, c.repairs)
			}
		})
	}
}

// Edits of different fields are no fight, unless there are more of them than people make. What is remembered
// of them is bounded.
func TestFightIsOverAField(t *testing.T) {
	all := make([]string, 10*toldApart)
	for i := range all {
		all[i] = fmt.Sprint("label-", i)
	}
	for name, c := range map[string]struct {
		repairs [][]string
		fought  bool
	}{
		"others each time":          {[][]string{{"a"}, {"b"}, {"c", "d"}, {"e"}}, false},
		"one of them":               {[][]string{{"a"}, {"b", "x"}, {"c"}, {"x"}, {"d", "x"}}, true},
		"one of them, twice":        {[][]string{{"a"}, {"b", "x"}, {"c"}, {"x"}, {"d"}}, false},
		"in turns":                  {[][]string{{"a"}, {"b"}, {"a"}, {"b"}}, false},
		"in turns for long":         {[][]string{{"a"}, {"b"}, {"a"}, {"b"}, {"a"}}, true},
		"ever others":               {slices.Collect(slices.Chunk(all[:anyRepairs], 1)), true},
		"ever others, but one less": {slices.Collect(slices.Chunk(all[:anyRepairs-1], 1)), false},
		"very many":                 {[][]string{all, all, all}, true},
	} {
		t.Run(name, func(t *testing.T) {
			f, start := &fight{}, time.Now()
			for i, fields := range c.repairs {
				f.repaired(start.Add(time.Duration(i)*time.Second), guard.Change{Fields: fields})
			}
			if f.fought != c.fought {
				t.Errorf("a fight: %t", f.fought)
			}
			for _, repair := range f.changed {
				if len(repair.fields) > toldApart {
					t.Errorf("it remembers %d fields", len(repair.fields))
				}
			}
		})
	}
}

// A fight that is slow is told after so many repairs of one field, and is over when that has stayed as it is for twice
// as long as before.
func TestSlowFight(t *testing.T) {
	for name, c := range map[string]struct {
		minutes []int
		fields  []string // "port" if there are none
		want    time.Duration
	}{
		"once less":          {[]int{0, 10, 20, 30}, nil, 0},
		"every ten minutes":  {[]int{0, 10, 20, 30, 40}, nil, 20 * time.Minute},
		"now and then":       {[]int{0, 10, 20, 50, 60}, nil, time.Hour},
		"some hours apart":   {[]int{0, 58, 121, 180, 242}, nil, 126 * time.Minute},
		"once too long":      {[]int{0, 10, 20, 141, 151}, nil, 0},
		"after a day":        {[]int{0, 1440, 1450, 1460, 1470, 1480}, nil, 20 * time.Minute},
		"other fields":       {[]int{0, 10, 20, 30, 40}, []string{"a", "b", "c", "d", "e"}, 0},
		"another field, too": {[]int{0, 10, 20, 30, 40, 41}, []string{"a", "a", "a", "a", "a", "b"}, 20 * time.Minute},
		"fast in the end":    {[]int{0, 10, 20, 30, 30, 30}, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f, start := &fight{}, time.Now()
			for i, minute := range c.minutes {
				field := "port"
				if c.fields != nil {
					field = c.fields[i]
				}
				f.repaired(start.Add(time.Duration(minute)*time.Minute), guard.Change{Fields: []string{field}})
			}
			f.repaired(start.Add(time.Duration(c.minutes[len(c.minutes)-1])*time.Minute), guard.Change{Created: true})
			over := "port was changed"
			if c.fields != nil {
				over = c.fields[0] + " was changed"
			}
			if f.slow != c.want || c.want > 0 && f.change != over {
				t.Errorf("a slow fight over %q, over after %s, want %q and %s", f.change, f.slow, over, c.want)
			}
		})
	}
}

// Who deletes an object every few minutes, or every few seconds and not fast enough for a fight, is told of, too. People
// who delete it several times in a row, to see it come back, are not.
func TestSlowDeletions(t *testing.T) {
	for name, c := range map[string]struct {
		every, apart, want time.Duration
		times              int
	}{
		"once less":                    {every: 10 * time.Minute, times: 4},
		"every ten minutes":            {every: 10 * time.Minute, times: 5, want: 20 * time.Minute},
		"every hour":                   {every: time.Hour, times: 5, want: 2 * time.Hour},
		"every three hours":            {every: 3 * time.Hour, times: 10},
		"every ten seconds":            {every: 10 * time.Second, times: 25, want: 2 * time.Minute},
		"to see it come back":          {every: 5 * time.Second, times: 10},
		"to see it come back, again":   {every: 5 * time.Second, times: 15},
		"every ten minutes, forgotten": {every: 10 * time.Minute, apart: 5 * time.Minute, times: 5, want: 20 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			f, start := &fight{}, time.Now()
			for i := range c.times {
				at := start.Add(time.Duration(i) * c.every)
				f.repaired(at, guard.Change{Created: true})
				if c.apart > 0 && i < c.times-1 && f.forgets(at.Add(c.apart)) {
					t.Fatal("it was forgotten")
				}
			}
			if f.slow != c.want || f.fought || f.change != "it was deleted" {
				t.Errorf("a slow fight over %q, over after %s, want %s; a fast one: %t", f.change, f.slow, c.want, f.fought)
			}
		})
	}
}

// A deletion in a fight over a field is not what the fight is over, until there are too many.
func TestDeletionsInAFight(t *testing.T) {
	start := time.Now()
	f := &fight{}
	for range fightRepairs {
		f.repaired(start, guard.Change{Fields: []string{"spec"}})
	}
	for i := range fightDeletions {
		if f.gone || f.change != "spec was changed" {
			t.Errorf("after %d deletions it is over %q; deletions: %t", i, f.change, f.gone)
		}
		f.repaired(start.Add(time.Second), guard.Change{Created: true})
	}
	if !f.gone || f.change != "it was deleted" {
		t.Errorf("after many deletions it is over %q; deletions: %t", f.change, f.gone)
	}
}

// Looks at which nothing is put back are bounded, too, and are no fight.
func TestLooksRest(t *testing.T) {
	start := time.Now()
	f := &fight{}
	f.repaired(start, guard.Change{})
	for i := range quietLooks {
		if f.pause != 0 {
			t.Errorf("it rests for %s after %d looks", f.pause, i)
		}
		f.foundIntact(start.Add(time.Duration(i) * time.Second))
	}
	if f.pause != fightWindow || f.fought {
		t.Errorf("after %d looks it rests for %s; a fight: %t", quietLooks, f.pause, f.fought)
	}
	f.foundIntact(start.Add(time.Hour))
	if f.pause != fightWindow || len(f.looked) != quietLooks {
		t.Errorf("after another one it rests for %s; it remembers %d", f.pause, len(f.looked))
	}
}

// A fight is over when what was put back stays as it is, also where others write something else there all the time.
func TestFightAmongWorkThatStaysIsOver(t *testing.T) {
	start := time.Now()
	f := &fight{}
	for i := range fightRepairs {
		f.repaired(start.Add(time.Duration(i)*time.Second), guard.Change{Fields: []string{"spec"}})
	}
	f.foundIntact(start.Add(30 * time.Second))
	if !f.fought {
		t.Error("half a minute later, it is over")
	}
	f.foundIntact(start.Add(2 * fightWindow))
	if f.fought || f.pause > 0 || f.lost {
		t.Errorf("it is not over after %s: %+v", 2*fightWindow, f)
	}
}
