package release

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"demo.welcome.domain/welcome-operator/internal/object"
)

func annotated(annotations map[string]string) *unstructured.Unstructured {
	owner := &unstructured.Unstructured{Object: map[string]any{}}
	owner.SetAnnotations(annotations)
	return owner
}

func TestIgnoredAnnotations(t *testing.T) {
	all := object.Allow{Options: []string{object.OptionDisableHooks, object.OptionReconcilePeriod}}
	for name, test := range map[string]struct {
		annotation, value string
		allow             object.Allow
		recreate          object.Kinds
		want              string // empty: it has an effect, or asks for none
	}{
		"hooks":                     {installDisableHooks, "true", object.Allow{}, nil, "allow: {options: [disable-hooks]}"},
		"hooks, off":                {installDisableHooks, "false", object.Allow{}, nil, ""},
		"hooks, no word":            {installDisableHooks, "perhaps", object.Allow{}, nil, ""},
		"hooks, allowed":            {upgradeDisableHooks, "true", all, nil, ""},
		"a period":                  {reconcilePeriod, "1m", object.Allow{}, nil, "allow: {options: [reconcile-period]}"},
		"a period, allowed":         {reconcilePeriod, "1m", all, nil, ""},
		"no period":                 {reconcilePeriod, "a while", all, nil, "no duration"},
		"a period of the past":      {reconcilePeriod, "-1m", all, nil, "no duration"},
		"a short period":            {reconcilePeriod, "1s", all, nil, "10s is the shortest"},
		"force":                     {upgradeForce, "true", all, nil, "recreate"},
		"force, with recreate":      {upgradeForce, "true", all, object.Kinds{"Job"}, ""},
		"a rollback by force":       {rollbackForce, "true", all, nil, "recreate"},
		"a rollback without force":  {rollbackForce, "false", all, nil, ""},
		"to wait":                   {uninstallWait, "true", all, nil, "--cascade=foreground"},
		"descriptions":              {installDescription, "why", object.Allow{}, nil, ""},
		"description of a deletion": {uninstallDescription, "why", all, nil, "no record"},
		"without":                   {WithoutHooks, "true", object.Allow{}, nil, ""},
		"a pause":                   {Pause, "T", object.Allow{}, nil, ""},
		"no pause":                  {Pause, "FALSE", object.Allow{}, nil, ""},
		"a pause, no word":          {Pause, "yes", object.Allow{}, nil, "neither true nor false"},
	} {
		t.Run(name, func(t *testing.T) {
			kind := &Kind{KindOptions: KindOptions{Allow: test.allow, Recreate: test.recreate}}
			got := kind.ignored(annotated(map[string]string{test.annotation: test.value}))
			if (got == "") != (test.want == "") || !strings.Contains(got, test.want) || got != "" && !strings.Contains(got, test.annotation) {
				t.Errorf("%q", got)
			}
		})
	}
	if got := (&Kind{}).ignored(annotated(map[string]string{upgradeForce: "true", uninstallWait: "1"})); strings.Count(got, "; ") != 1 {
		t.Errorf("two are told as %q", got)
	}
}

func TestPeriod(t *testing.T) {
	for value, want := range map[string]time.Duration{"": time.Hour, "24h": 24 * time.Hour, "1ms": minPeriod, "0": 0, "-1s": time.Hour, "soon": time.Hour} {
		for _, allowed := range []bool{true, false} {
			kind := &Kind{KindOptions: KindOptions{Period: time.Hour}}
			want := want
			if allowed {
				kind.Allow.Options = []string{object.OptionReconcilePeriod}
			} else {
				want = time.Hour
			}
			a := &actionClient{Kind: kind, owner: annotated(map[string]string{reconcilePeriod: value})}
			if got := a.period(); got != want {
				t.Errorf("%q is %s, allowed: %v", value, got, allowed)
			}
		}
	}
}
