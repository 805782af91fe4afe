package release

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/release"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"

	"demo.welcome.domain/welcome-operator/internal/guard"
	"demo.welcome.domain/welcome-operator/internal/object"
)

// conclude stores how an action has ended, and reports what it has done.
func (a *actionClient) conclude(op *operation, done string, rel *release.Release, err error) (*release.Release, error) {
	var created *corev1.ConfigMap
	if err == nil {
		created, err = op.store.Created(a.ctx)
	}
	if err != nil {
		err = a.worded(op, err)
		a.failed(err)
		return nil, a.failure().err
	}
	children := op.guard.Children()
	a.applied = children
	stamp := op.stamp()
	stamp.Children = children
	a.current = &stamp
	a.current.Name, a.current.Revision, a.current.Status, a.current.Created = created.Name, rel.Version, rel.Info.Status, created.CreationTimestamp.Time
	a.noticed(op)
	if done == Upgraded && a.asks != (questions{}) {
		a.churn().upgraded(time.Now(), a.owner.GetGeneration(), a.source.digest)
	}
	a.remember(func(n *note) {
		n.outdated = ""
		n.settleSlowFights()
	})
	what := fmt.Sprintf("Revision %d from chart %s %s: %s", rel.Version, a.chart.Name(), a.chart.Metadata.Version, object.List(children))
	if adopted := op.guard.Adopted; len(adopted) > 0 {
		what += "; taken over: " + object.List(adopted)
	}
	anew := func(child object.Child) bool { return slices.ContainsFunc(children, child.SameInAnyVersion) }
	if deleted := slices.DeleteFunc(op.guard.Deleted, anew); len(deleted) > 0 {
		what += "; deleted: " + object.List(deleted)
	}
	a.did(what)
	a.succeeded(a.key.Proof(rel.Manifest))
	a.tell(done, "%s", what)
	return a.bareRelease(), a.watch(children)
}

// worded is the error of an action in the words that people read.
func (a *actionClient) worded(op *operation, err error) error {
	if op.refused != nil {
		return op.refused // without what Helm wraps around it
	}
	return a.told(withoutStack(err))
}

// told is err as it may be shown: for a kind that may have Secrets, without the values that an error of a
// rendering quotes.
func (k *Kind) told(err error) error {
	if err == nil || !k.Secrets {
		return err
	}
	return object.DiscreetRendering(err)
}

// withoutStack hides the stack traces of Helm's errors, which would be logged with every one.
func withoutStack(err error) error { return fmt.Errorf("%w", err) }

// maxError bounds the text of an error, in bytes: it may quote a megabyte of what others have written, is kept
// in memory, and is logged again and again until somebody has removed its cause.
const maxError = 8 << 10

// brief bounds the text of an error, and keeps its type as far as anything asks for it. It keeps the beginning
// and the end, where what matters may stand.
func brief(err error) error {
	if err == nil || len(err.Error()) <= maxError {
		return err
	}
	text := err.Error()
	short := errors.New(object.Cut(text, maxError/2) + " … " + strings.ToValidUTF8(text[len(text)-maxError/2:], ""))
	switch blocking := guard.Blocking(err); {
	case len(blocking) > 0:
		return &guard.Unchangeable{Err: short, Objects: blocking}
	case errors.As(err, &notAllowed{}):
		return notAllowed{short}
	case errors.As(err, &noPlace{}):
		return noPlace{short}
	case refusesField(err):
		return apierrors.NewBadRequest(short.Error())
	}
	return short
}

func (a *actionClient) succeeded(manifestDigest string) {
	a.remember(func(n *note) {
		children, applied := a.applied, a.applied
		if applied == nil {
			children, applied = a.current.Children, n.state.applied
		}
		n.failure, n.inherited, n.acted = failure{}, nil, true
		n.state = State{
			applied:      applied,
			Name:         a.current.Release(),
			Revision:     a.current.Revision,
			Status:       a.current.Status,
			Chart:        a.chart.Name(),
			ChartVersion: a.chart.Metadata.Version,
			PagePath:     pagePath(a.chart),
			LastApplied:  a.current.Created,
			Generation:   a.owner.GetGeneration(),
			Digest:       manifestDigest,
			Record:       a.current.Proof(),
			Inputs:       inputsOf(a.current),
			Children:     children,
			Tests:        n.state.Tests,
			Answer:       n.state.Answer,
		}
	})
	if period := a.period(); period > 0 {
		a.schedule.after(a.owner, wait.Jitter(period, jitter))
	}
	a.answer(nil)
}

// failed schedules the next attempt, after a delay that grows with each failure of the same inputs. What is
// refused counts as no failure of the rollout.
func (a *actionClient) failed(err error) {
	err = brief(err)
	blocking := guard.Blocking(err)
	if away := a.away(blocking); len(away) > 0 {
		blocking = append(blocking, away...)
		err = fmt.Errorf("%w. Deleted, and made again with the rest: %s", err, object.Cut(object.List(away), maxReport))
	}
	switch {
	case errors.As(err, &notAllowed{}):
		a.LeaveRollout(a.owner)
	case errors.As(err, &noPlace{}):
		a.wake(a.rollout.notBegun(a.owner))
	default:
		a.observed(broken)
	}
	last := lastRetry
	if a.rolledOut { // pods are replaced at each attempt
		last = lastRollout
	}
	var delay time.Duration
	a.remember(func(n *note) {
		if n.failure.inputs != a.wanted {
			n.failure = failure{inputs: a.wanted}
		}
		n.failure.blocking = blocking
		n.failure.count++
		delay = retryDelay(n.failure.count, last)
		n.failure.err, n.failure.until = err, time.Now().Add(delay)
		n.state.Err, n.acted = err, true
	})
	a.schedule.after(a.owner, delay)
	a.answer(err)
}

// away are the objects that somebody has deleted since an attempt from the same inputs has failed because of them, other
// than those of this one. They stay away until an attempt succeeds, or something else is wanted.
func (a *actionClient) away(blocking []object.Child) (away []object.Child) {
	before := a.failure()
	if before.inputs != a.wanted {
		return nil
	}
	for _, child := range before.blocking {
		if !slices.ContainsFunc(blocking, child.Same) && a.isGone(child) {
			away = append(away, child)
		}
	}
	return away
}
