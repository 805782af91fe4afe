package object

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

// What a chart asks for by itself counts as the same at each revision and, where that is all of an annotation, at each time.
// What else an author has put there does not.
func TestSame(t *testing.T) {
	const (
		mark = "98765" // AnyRevision
		note = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, annotations: {example.com/key: \"KEY\"}}"
		role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: x, labels: {helm.sh/revision: \"KEY\"}}\nrules: [{verbs: [get], resourceNames: [x-KEY]}]"
	)
	now := time.Now().UTC()
	ask := func(object, key string) Ask {
		return asksOf(t, strings.ReplaceAll(object, "KEY", key))[0]
	}
	for name, c := range map[string]struct {
		object, own, judged string
		want                bool
	}{
		"the same":                         {note, "a", "a", true},
		"another":                          {note, "a", "b", false},
		"a number, and another":            {note, "1", "2", false},
		"a revision":                       {note, mark, "7", true},
		"a revision within":                {note, "r" + mark + "-" + mark, "r7-7", true},
		"two revisions":                    {note, "r" + mark + "-" + mark, "r7-8", false},
		"more than a revision":             {note, mark, "7; evil", false},
		"other than a revision":            {note, mark, "evil", false},
		"no revision":                      {note, mark, "", false},
		"one before the first":             {note, mark, "0", false},
		"a revision in a ClusterRole":      {role, mark, "7", true},
		"a revision beside a number":       {strings.Replace(role, "x-KEY", "x-7", 1), mark, "8", true},
		"the time":                         {note, now.String(), now.Add(-time.Minute).String(), true},
		"the time by the clock":            {note, time.Now().UTC().String(), time.Now().UTC().Add(-time.Minute).String(), true},
		"the time long ago":                {note, now.Format(time.RFC3339), "2001-01-01T00:00:00Z", true},
		"the time in seconds":              {note, now.Format("20060102150405"), "20010101000000", true},
		"the time in Unix's":               {note, timestamp(now), timestamp(now.Add(-time.Hour)), true},
		"the day":                          {note, now.Format(time.DateOnly), "2001-01-01", true},
		"a time to come":                   {note, now.Format(time.RFC3339), now.Add(time.Hour).Format(time.RFC3339), false},
		"a time that is not the clock":     {note, "2001-01-02T00:00:00Z", "2001-01-01T00:00:00Z", false},
		"a time that is written otherwise": {note, now.Format(time.RFC3339), "2001-01-01", false},
		"a time and more":                  {note, now.Format(time.RFC3339), "2001-01-01T00:00:00Z evil", false},
		"a time with more digits":          {note, now.Format(time.RFC3339), "2001-01-01T00:00:00.0000000000000001Z", false},
		"a number where the time is":       {note, timestamp(now), "0x1", false},
		"the time of a ClusterRole":        {role, now.Format(time.DateOnly), "2001-01-01", false},
	} {
		if got := ask(c.object, c.judged).Same(ask(c.object, c.own)); got != c.want {
			t.Errorf("%s: %q where the chart says %q: the same is %t", name, c.judged, c.own, got)
		}
	}
	if ask(note, "a").Same(asksOf(t, strings.ReplaceAll(strings.Replace(note, "ConfigMap", "Service", 1), "KEY", "a"))[0]) {
		t.Error("an annotation of another kind counts as the same")
	}
}

func timestamp(at time.Time) string { return strconv.FormatInt(at.Unix(), 10) }
