package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"demo.welcome.domain/welcome-operator/internal/release"
)

// A change that would be refused is told apart from one that cannot be known now, or that the caller may not ask about.
func TestFail(t *testing.T) {
	group := schema.GroupResource{Resource: "welcomes"}
	for name, c := range map[string]struct {
		err                      error
		refused, unknown, failed bool
	}{
		"invalid":                {err: apierrors.NewInvalid(schema.GroupKind{Kind: "Welcome"}, "hello", nil), refused: true},
		"denied by a webhook":    {err: apierrors.NewForbidden(group, "hello", errors.New("it is full")), refused: true},
		"the chart fails":        {err: errors.New("execution error"), refused: true},
		"no right":               {err: apierrors.NewForbidden(group, "hello", errors.New(`User "a" cannot patch resource`)), unknown: true},
		"a webhook is away":      {err: apierrors.NewInternalError(errors.New("failed calling webhook")), unknown: true},
		"503":                    {err: apierrors.NewServiceUnavailable("away"), unknown: true},
		"429":                    {err: apierrors.NewTooManyRequests("busy", 1), unknown: true},
		"504":                    {err: apierrors.NewTimeoutError("slow", 1), unknown: true},
		"500, ask again":         {err: apierrors.NewServerTimeout(group, "patch", 1), unknown: true},
		"in an action":           {err: release.ErrInTheMiddle, unknown: true},
		"no answer":              {err: context.DeadlineExceeded, failed: true},
		"it would change things": {err: errNoDryRun, failed: true},
	} {
		r := result{name: objectOf("Welcome", "hello", map[string]any{})}
		r.fail(fmt.Errorf("ask: %w", c.err))
		if r.refused != nil != c.refused || r.unknown != nil != c.unknown || r.failed != nil != c.failed {
			t.Errorf("%s: refused %v, unknown %v, failed %v", name, r.refused, r.unknown, r.failed)
		}
	}
}

// Of a custom resource with an object that the caller may not ask about, what changes in the others is told all the same.
func TestPartlyUnknown(t *testing.T) {
	changes := []change{{kind: schema.GroupKind{Kind: "Service"}, action: isChanged, text: "-port: 80\n+port: 81\n", alike: "port"}}
	noRight := errors.New(`deployments.apps "hello" is forbidden: User "a" cannot patch resource`)
	for name, c := range map[string]struct {
		result result
		code   int
		says   []string
	}{
		"unknown":        {result{unknown: noRight}, 2, []string{"1 Welcome (team-a/hello): unknown:\n  deployments.apps", "0 of 1 Welcome change; 1 unknown\n"}},
		"partly unknown": {result{unknown: noRight, changes: changes}, 1, []string{"1 Welcome (team-a/hello): Service changes\n", "+port: 81", "1 Welcome (team-a/hello): unknown:\n  deployments.apps", "1 of 1 Welcome changes; 1 Service changes, 1 partly unknown\n"}},
		"refused":        {result{refused: noRight, changes: changes}, 1, []string{"0 of 1 Welcome change; 1 would be refused: "}},
	} {
		t.Run(name, func(t *testing.T) {
			streams, _, out, _ := genericiooptions.NewTestIOStreams()
			c.result.name = objectOf("Welcome", "hello", map[string]any{})
			err := newCluster(streams).tellResults([]result{c.result})
			if exit, ok := errors.AsType[*exitError](err); !ok || exit.code != c.code {
				t.Errorf("it ends with %v", err)
			}
			for _, part := range c.says {
				if !strings.Contains(out.String(), part) {
					t.Errorf("it does not say %q:\n%s", part, out)
				}
			}
		})
	}
}
