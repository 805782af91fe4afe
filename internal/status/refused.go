package status

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// WriteRefused is the reason of the event about a custom resource that cannot be written: nothing else tells of
// that but the log.
const WriteRefused = "WriteRefused"

// atOnce is how many writes of a custom resource may be refused before there is a pause: the library tries five
// times within a tenth of a second.
const atOnce = 5

// What of a custom resource is written. A write of one may fail where the other's does not.
const (
	itsStatus     = "the status"
	itsFinalizers = "the finalizers"
)

// refusals are the writes of custom resources that were refused last, by a policy, say. Each would be repeated
// five times by the library at each reconcile, and by the controller's retries.
type refusals struct {
	mu sync.Mutex
	of map[part]refusal
}

// part is what of which custom resource is written.
type part struct {
	of   client.ObjectKey
	what string
}

// refusal is what is remembered of a write that was refused some times in a row.
type refusal struct {
	uid   types.UID // another custom resource may have the name by now
	count int
	err   error
	until time.Time // when it may be tried again
}

// unwritten is an error of a write that has to precede a reconcile, with what was to be written.
type unwritten struct {
	error
	what string
}

func (u unwritten) Unwrap() error { return u.error }

// rests is the last refusal of a write that is not to be tried again yet, and has the custom resource reconciled when
// it is. The controller does not retry it by itself.
func (r *Reporter) rests(owner client.Object, what string) error {
	last := r.refused.get(owner, what)
	wait := time.Until(last.until)
	if wait <= 0 {
		return nil
	}
	r.releases.Requeue(owner, wait)
	return reconcile.TerminalError(last.err)
}

// wrote is told how a write has ended. What is refused for the fifth time rests for a while.
func (r *Reporter) wrote(owner client.Object, what string, err error) {
	key := part{client.ObjectKeyFromObject(owner), what}
	switch {
	case err == nil:
		r.refused.set(key, refusal{})
		return
	case !isRefusal(err): // nor does it say that it would not be refused
		return
	}
	now := refusal{uid: owner.GetUID(), count: r.refused.get(owner, what).count + 1, err: err}
	if over := now.count - atOnce; over >= 0 {
		wait := min(time.Second<<min(over, 10), lastLook)
		now.until = time.Now().Add(wait)
		r.releases.Requeue(owner, wait)
	}
	if now.count%atOnce == 0 {
		r.events.Event(owner, corev1.EventTypeWarning, WriteRefused, refusedBecause(what, err))
	}
	r.refused.set(key, now)
}

// altered is the type of a condition whose message admission has replaced as it was written, with another one than
// before. There would be no end of that: each write is an event of the custom resource, and the next reconcile finds
// another message than its own.
type altered string

func (a altered) Error() string {
	return fmt.Sprintf("a webhook or policy writes another message into condition %q", string(a))
}

// alteration is an error if the API server has stored another message than it was sent, and than it had before. With the
// same message each time, a write changes nothing and comes to an end. Messages of others' conditions are sent as they
// were. Where a CRD has no messages, none is stored.
func alteration(previous, sent, stored Status) error {
	for _, c := range sent.Conditions {
		was, is := previous.condition(c.Type).Message, stored.condition(c.Type).Message
		if is != "" && is != was && is != c.Message && c.Message != was {
			return altered(c.Type)
		}
	}
	return nil
}

// isRefusal is whether the API server has said no, or a webhook that it has to ask, which may also be away, or has stored
// something else. Where the API server itself does not answer, or is busy, nothing is refused: the status must not be
// late then.
func isRefusal(err error) bool {
	if _, is := errors.AsType[altered](err); is {
		return true
	}
	answer, answered := errors.AsType[*apierrors.StatusError](err)
	if !answered {
		return false
	}
	switch answer.ErrStatus.Code {
	case http.StatusNotFound, http.StatusConflict, http.StatusTooManyRequests, http.StatusUnauthorized, http.StatusRequestTimeout:
		return false
	}
	return answer.ErrStatus.Code < 500 || strings.Contains(err.Error(), `failed calling webhook "`)
}

func refusedBecause(what string, err error) string {
	advice := "The spec is not the cause: the policy, webhook or role that refuses this has to let the operator's ServiceAccount do so"
	if strings.Contains(err.Error(), "does not make, delete or change the spec of custom resources") { // config/policy
		advice = "This policy is the operator's own, and the operator has not changed more: have the webhook or policy that changes this custom resource " +
			"meanwhile leave what the operator's ServiceAccount writes alone"
	}
	if _, is := errors.AsType[altered](err); is {
		advice = "The spec is not the cause: have it leave alone what the operator's ServiceAccount writes. Until then, the status may be a minute late"
	}
	if isAboutSpec(err) {
		advice = "Correct the spec: its CRD has changed since it was written, or the policy or webhook that the message names refuses it"
	}
	return fmt.Sprintf("The operator cannot write %s of this custom resource: %v. %s", what, err, advice)
}

// isAboutSpec is whether a write is refused for what the spec has, which the operator does not change. Mostly the API
// server does not mind what was invalid before, but in a list it cannot always tell what was.
func isAboutSpec(err error) bool {
	return slices.ContainsFunc(object.Causes(err), func(cause metav1.StatusCause) bool {
		return cause.Field == "spec" || strings.HasPrefix(cause.Field, "spec.")
	})
}

// get is how a write of a custom resource was refused last, the zero value if it was not. A refusal is forgotten
// where the write was not tried again in time, because there was nothing to write.
func (r *refusals) get(owner client.Object, what string) refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.of[part{client.ObjectKeyFromObject(owner), what}]
	if last.uid != owner.GetUID() || !last.until.IsZero() && time.Since(last.until) > lastLook {
		return refusal{}
	}
	return last
}

// set remembers a refusal. The zero value is none.
func (r *refusals) set(key part, to refusal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if to.count == 0 {
		delete(r.of, key)
		return
	}
	r.of[key] = to
}

// gone is told that a custom resource is gone.
func (r *refusals) gone(of client.ObjectKey) {
	r.set(part{of, itsStatus}, refusal{})
	r.set(part{of, itsFinalizers}, refusal{})
}
