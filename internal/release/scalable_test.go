package release

import (
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

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
