package release

import (
	"cmp"
	"strings"
	"time"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// AskReconcile is the annotation that has the operator reconcile a custom resource anew: what failed a moment
// ago is tried again, and a chart that asks the cluster is rendered. If its value begins with ForceReconcile,
// what was applied is also applied again. Each new value, of which MaxRequest bytes count, does that once.
const (
	AskReconcile   = "webapp.demo.welcome.domain/reconcile"
	ForceReconcile = "force"
)

// askPause is the least time from one answer to the next: whoever may annotate a custom resource can ask as
// often as they like.
const askPause = time.Minute

// Answer is what became of a reconcile that somebody has asked for.
type Answer struct {
	// Asked is the value of the annotation that asked for it. It is empty if nobody did since the operator started.
	Asked string
	// Generation of the custom resource that was reconciled.
	Generation int64
	// Done is what was changed, in words.
	Done []string
	// Rests are the objects that are left as others have changed them, for they would do so again.
	Rests []string
	// WaitFor is why an upgrade is put off, empty if it is not.
	WaitFor string
	// Err is why it failed, nil if it did not.
	Err error

	at time.Time
}

// String says what was done.
func (a Answer) String() string {
	none := "Nothing had to be changed"
	if len(a.Rests) > 0 {
		none = "Nothing was changed"
	}
	done := cmp.Or(strings.Join(object.Few(a.Done, 20), "; "), none)
	if len(a.Rests) > 0 {
		done += ". Left as others have changed it, for they do so again each time (DriftLoop): " + strings.Join(object.Few(a.Rests, 5), ", ")
	}
	if a.WaitFor != "" {
		done += ". " + Outdated + a.WaitFor
	}
	return done
}

// askedBy is what an annotation asks for, as far as it counts: the cache cuts it, an answer to a write does not.
func (a *actionClient) askedBy(annotation string) string {
	return object.Cut(a.owner.GetAnnotations()[annotation], MaxRequest)
}

// takeRequest takes up what the annotation AskReconcile asks for, unless that is done already or comes too soon
// after the last time. The request changes nothing about who may do what, and whose turn in a rollout it is.
func (a *actionClient) takeRequest() {
	asked := a.askedBy(AskReconcile)
	if asked == "" {
		return
	}
	last := a.state().Answer
	last.Asked = cmp.Or(last.Asked, textInStatus(a.owner, "reconciled"))
	if asked == last.Asked {
		return
	}
	if rest := time.Until(last.at.Add(askPause)); rest > 0 {
		a.schedule.after(a.owner, rest)
		return
	}
	a.request = asked
}

// forced is whether somebody has asked to have what was applied applied again.
func (a *actionClient) forced() bool { return strings.HasPrefix(a.request, ForceReconcile) }

// did notes what was done, for the answer. That stands in the status, and so is kept short.
func (a *actionClient) did(what string) {
	a.done = append(a.done, object.Cut(what, maxReport))
}

// answer reports, if somebody has asked for this reconcile, what has become of it.
func (a *actionClient) answer(err error) {
	if a.request == "" || a.ctx.Err() != nil { // the operator stops: the next one does it
		return
	}
	answer := Answer{Asked: a.request, Generation: a.owner.GetGeneration(), Done: a.done, Rests: a.fought, WaitFor: a.waitFor, Err: err, at: time.Now()}
	a.request = ""
	a.remember(func(n *note) { n.state.Answer = answer })
	if err == nil {
		a.tell(Reconciled, "As asked for (%s): %s", answer.Asked, answer)
	}
}

// ended is deferred by each step: it bounds the text of its error, marks one that is held back, and answers a
// request that the step itself has not answered. Whoever has asked would wait for ever otherwise.
func (a *actionClient) ended(err *error) {
	if *err == nil {
		return
	}
	*err = brief(*err)
	a.answer(*err)
	if a.scheduled {
		*err = scheduled{*err}
	}
}
