package release

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/record"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// What an annotation asks for is done once for each new value, and once a minute at most, whatever it is.
func TestHeed(t *testing.T) {
	events := record.NewFakeRecorder(10)
	kind := &Kind{clients: &Clients{ledger: newLedger(), events: events}, schedule: &schedule{}}
	owner := kit.Welcome("test", "hello")
	owner.SetUID("1")
	asks := func(value string) *actionClient {
		kit.Annotate(AskReconcile, value)(owner)
		a := &actionClient{Kind: kind, ctx: context.Background(), owner: owner}
		a.takeRequest()
		return a
	}
	is := func(what string, a *actionClient, asked string, forced bool) {
		t.Helper()
		if a.request != asked || a.forced() != forced {
			t.Errorf("%s: %q, forced: %t", what, a.request, a.forced())
		}
	}
	past := func(by time.Duration) {
		answer := kind.clients.ledger.state("1").Answer
		answer.at = answer.at.Add(-by)
		kind.clients.ledger.write("1", func(n *note) { n.state.Answer = answer })
	}
	is("nobody asks", asks(""), "", false)
	first := asks("force-1")
	is("the first", first, "force-1", true)
	first.done = []string{"one"}
	first.answer(nil)
	if answer := kind.clients.ledger.state("1").Answer; answer.Asked != "force-1" || answer.String() != "one" {
		t.Errorf("it answers %+v", answer)
	}
	past(time.Hour)
	is("the same again", asks("force-1"), "", false)
	second := asks("2")
	is("another", second, "2", false)
	second.answer(errors.New("in vain"))
	past(askPause - time.Second)
	is("too early", asks("3"), "", false)
	past(2 * time.Second)
	is("a minute later", asks("3"), "3", false)

	kind.clients.ledger.forget("1") // as after a restart
	if err := unstructured.SetNestedField(owner.Object, "3", "status", "reconciled"); err != nil {
		t.Fatal(err)
	}
	is("after a restart", asks("3"), "", false)
	is("another after a restart", asks("4"), "4", false)
	is("one that the cache does not show", asks(strings.Repeat("x", 5000)), strings.Repeat("x", MaxRequest), false)
}

func TestAnswer(t *testing.T) {
	for want, answer := range map[string]Answer{
		"Nothing had to be changed":          {},
		"a; b":                               {Done: []string{"a", "b"}},
		strings.Repeat("a; ", 20) + "5 more": {Done: strings.Split(strings.Repeat("a", 25), "")},
		"Nothing had to be changed. The chart is not up to date: others first":                                          {WaitFor: "others first"},
		"Nothing was changed. Left as others have changed it, for they do so again each time (DriftLoop): Deployment a": {Rests: []string{"Deployment a"}},
		"b. Left as others have changed it, for they do so again each time (DriftLoop): Deployment a, Service a":        {Done: []string{"b"}, Rests: []string{"Deployment a", "Service a"}},
	} {
		if got := answer.String(); got != want {
			t.Errorf("got %q, not %q", got, want)
		}
	}
}
