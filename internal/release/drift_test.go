package release

import (
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"demo.welcome.domain/welcome-operator/internal/guard"
	"demo.welcome.domain/welcome-operator/internal/object"
)

func TestDescribeChange(t *testing.T) {
	for want, change := range map[string]guard.Change{
		"it was deleted":                       {Created: true},
		"a, b was changed":                     {Fields: []string{"a", "b"}},
		`a was changed by field manager "x\n"`: {Fields: []string{"a"}, Writer: "x\n"},
		"a was changed by nobody besides the operator, say its managed fields (a webhook or policy leaves no trace there)": {Fields: []string{"a"}, Writer: object.Manager},
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

// The replicas of a workload are whose who scales it, unless the custom resource sets them: also of one that
// only an option makes. Where another number is wanted than before, that is set or the chart's new default.
func TestScalable(t *testing.T) {
	workload := func(name, replicas string) string {
		return "\n---\n{apiVersion: apps/v1, kind: Deployment, metadata: {name: " + name + "}, spec: {replicas: " + replicas + "}}"
	}
	c := &chart.Chart{
		Metadata: &chart.Metadata{APIVersion: "v2", Name: "c", Version: "1.0.0"},
		Values:   map[string]any{"replicas": 1, "shards": 1, "text": "", "worker": map[string]any{"enabled": false, "replicas": 2}},
		Templates: []*chart.File{{Name: "templates/all.yaml", Data: []byte(workload("main", "{{ .Values.replicas }}") +
			"{{ if .Values.worker.enabled }}" + workload("worker", "{{ .Values.worker.replicas }}") + "{{ end }}{{ tpl .Values.text . }}" +
			"{{ range until (int .Values.shards) }}" + workload("shard-{{ . }}", "1") + "{{ end }}")}},
	}
	cluster := &Capabilities{}
	cluster.current.Store(&capabilities{Capabilities: chartutil.DefaultCapabilities.Copy()})
	kind := &Kind{clients: &Clients{capabilities: cluster, mapper: meta.NewDefaultRESTMapper(nil), ledger: newLedger()}}
	of := func(replicas int64) map[string]any { return map[string]any{"enabled": true, "replicas": replicas} }
	for name, test := range map[string]struct {
		spec            map[string]any
		workload        string
		replicas        int64
		another, edited bool
		want            bool
	}{
		"by default":                          {nil, "main", 1, false, true, true},
		"set":                                 {map[string]any{"replicas": int64(5)}, "main", 5, false, true, false},
		"set as by default":                   {map[string]any{"replicas": int64(1)}, "main", 1, false, true, true},
		"by an option":                        {map[string]any{"worker": map[string]any{"enabled": true}}, "worker", 2, false, true, true},
		"by an option, and set":               {map[string]any{"worker": of(5)}, "worker", 5, false, true, false},
		"by an option, set as by default":     {map[string]any{"worker": of(2)}, "worker", 2, false, true, true},
		"by an option, beside a template":     {map[string]any{"worker": of(2), "text": "{{ range until 99 }}{{ else }}{{ end }}"}, "worker", 2, false, true, true},
		"one of as many as the spec says":     {map[string]any{"shards": int64(3)}, "shard-2", 1, false, true, true},
		"nobody can say how it is by default": {map[string]any{"text": strings.TrimSpace(workload("third", "{{ 3 }}"))}, "third", 3, false, true, false},
		"a new default":                       {map[string]any{}, "main", 1, true, true, true},
		"a new default, beside another value": {map[string]any{"shards": int64(3)}, "main", 1, true, true, true},
		"set to the default":                  {map[string]any{"replicas": int64(1)}, "main", 1, true, true, false},
		"a new default as was set":            {map[string]any{"replicas": int64(1)}, "main", 1, true, false, true},
		"another number":                      {map[string]any{"replicas": int64(5)}, "main", 5, true, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			owner := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "a", "namespace": "b"}, "spec": test.spec,
				"status": map[string]any{"release": map[string]any{"generation": int64(1)}}}}
			if owner.SetGeneration(1); test.edited {
				owner.SetGeneration(2)
			}
			a := &actionClient{Kind: kind, owner: owner, desired: desired{chart: c, values: test.spec}}
			desired := &unstructured.Unstructured{Object: map[string]any{"kind": "Deployment", "metadata": map[string]any{"name": test.workload}, "spec": map[string]any{"replicas": test.replicas}}}
			if got := a.scalable(desired, test.another); got != test.want {
				t.Errorf("it is %t", got)
			}
		})
	}
}
