package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// newWelcome is a Welcome whose name has a number.
func newWelcome(number int, edits ...kit.Edit) *unstructured.Unstructured {
	return kit.Welcome(namespace, nameOf(number), edits...)
}

func nameOf(number int) string { return fmt.Sprintf("welcome-%02d", number) }

// people write Welcomes. A write that is not answered, they repeat later.
type people struct{ created, edited, deleted atomic.Int32 }

func (p *people) counts() string {
	return fmt.Sprintf("created %d Welcomes, edited them %d times and deleted %d", p.created.Load(), p.edited.Load(), p.deleted.Load())
}

// startPeople has several people write until ctx ends. At the end, all Welcomes but the deleted ones must exist.
func (w *world) startPeople(ctx context.Context) *people {
	p := &people{}
	for number := range welcomes {
		if err := w.Client.Create(ctx, newWelcome(number)); err == nil {
			p.created.Add(1)
		}
	}
	for person := range 4 {
		choice := source(uint64(1 + person))
		go repeat(ctx, choice, 300*time.Millisecond, func() { w.act(ctx, p, choice) })
	}
	return p
}

func (w *world) act(ctx context.Context, p *people, choice *rand.Rand) {
	welcome := newWelcome(choice.IntN(welcomes))
	greeting, guarded, die := fmt.Sprintf("friend %d", choice.IntN(1000)), choice.IntN(3) == 0, choice.IntN(10)
	if err := w.Client.Get(ctx, client.ObjectKeyFromObject(welcome), welcome); client.IgnoreNotFound(err) != nil || welcome.GetDeletionTimestamp() != nil {
		return
	}
	exists := welcome.GetUID() != ""
	kit.Greet(greeting)(welcome)
	kit.Set("networkPolicy.enabled", guarded)(welcome)
	switch {
	case !exists:
		if w.Client.Create(ctx, welcome) == nil {
			p.created.Add(1)
		}
	case die == 0:
		if w.Client.Delete(ctx, welcome) == nil {
			p.deleted.Add(1)
		}
	default:
		if w.Client.Update(ctx, welcome) == nil {
			p.edited.Add(1)
		}
	}
}

// meddlers are other writers of the operator's objects. It must repair what they change, and fight with nobody.
type meddlers struct{ annotated, drifted, removed atomic.Int32 }

func (m *meddlers) counts() string {
	return fmt.Sprintf("annotated Welcomes %d times, changed %d Deployments and removed %d Services", m.annotated.Load(), m.drifted.Load(), m.removed.Load())
}

func (w *world) startMeddlers(ctx context.Context) *meddlers {
	m := &meddlers{}
	patch := func(object client.Object, kind types.PatchType, text string, count *atomic.Int32) {
		if w.Client.Patch(ctx, object, client.RawPatch(kind, []byte(text))) == nil {
			count.Add(1)
		}
	}
	annotate, drift, remove := source(11), source(12), source(13)
	go repeat(ctx, annotate, 60*time.Millisecond, func() {
		patch(newWelcome(annotate.IntN(welcomes)), types.MergePatchType,
			fmt.Sprintf(`{"metadata":{"annotations":{"example.com/poke":"%d"}}}`, annotate.IntN(1000)), &m.annotated)
	})
	go repeat(ctx, drift, 300*time.Millisecond, func() {
		patch(newDeployment(nameOf(drift.IntN(welcomes))), types.StrategicMergePatchType,
			`{"spec":{"template":{"spec":{"containers":[{"name":"welcome","env":[{"name":"NAME","value":"an intruder"}]}]}}}}`, &m.drifted)
	})
	go repeat(ctx, remove, time.Second, func() {
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: nameOf(remove.IntN(welcomes))}}
		if w.Client.Delete(ctx, service) == nil {
			m.removed.Add(1)
		}
	})
	return m
}

// repeat calls do until ctx ends, with pauses of a random length up to twice the mean.
func repeat(ctx context.Context, choice *rand.Rand, mean time.Duration, do func()) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(choice.Int64N(int64(2 * mean)))):
			do()
		}
	}
}
