package status

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/internal/release"
)

// refuseWrites has a policy refuse what the operator writes of the custom resource, until lift is called, and
// counts that.
func (s *stage) refuseWrites() (tries *int, lift func()) {
	tries, refused := new(int), s.Client
	refuse := func() error {
		*tries++
		return apierrors.NewForbidden(schema.GroupResource{Resource: "welcomes"}, "hello", errors.New("not today"))
	}
	s.Client = interceptor.NewClient(s.server, interceptor.Funcs{
		SubResourceUpdate: func(context.Context, client.Client, string, client.Object, ...client.SubResourceUpdateOption) error {
			return refuse()
		},
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return refuse()
		},
	})
	return tries, func() { s.Client = refused }
}

// libraryWrites is how the library writes at the end of a reconcile: up to five times.
func libraryWrites(do func() error) (err error) {
	for range 5 {
		if err = do(); err == nil {
			return nil
		}
	}
	return err
}

// A policy that refuses to have a custom resource let go, or taken over, is told of, too.
func TestClaimIsRefused(t *testing.T) {
	s := newStage(t)
	s.report(s.read())
	s.refuseWrites()
	s.claims.Client = s.Client
	s.claims.serves = labels.Nothing()
	for range atOnce {
		if err := s.Get(t.Context(), client.ObjectKey{Namespace: "test", Name: "hello"}, object.Empty(welcomeKind)); !apierrors.IsForbidden(err) {
			t.Errorf("error is %v", err)
		}
	}
	var events []string
	for range len(s.events.(*record.FakeRecorder).Events) {
		events = append(events, <-s.events.(*record.FakeRecorder).Events)
	}
	if told := strings.Join(events, "\n"); strings.Count(told, WriteRefused) != 1 || !strings.Contains(told, "cannot write the status of this custom resource: let go of what is no longer selected") {
		t.Errorf("the events are\n%s", told)
	}
}

// What a policy refuses is written a few times a minute at most, however often something happens, and an event
// says who has to change what. It is written within a minute once the policy is lifted.
func TestWhatIsRefusedIsWrittenRarely(t *testing.T) {
	for what, do := range map[string]func(s *stage, welcome *unstructured.Unstructured) error{
		itsStatus: func(s *stage, welcome *unstructured.Unstructured) error {
			welcome.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Deployed", "status": "True"}}}
			return s.Reporter.Status().Update(s.Context(), welcome)
		},
		itsFinalizers: func(s *stage, welcome *unstructured.Unstructured) error {
			welcome.SetFinalizers([]string{Finalizer})
			return s.Update(s.Context(), welcome)
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				tries, lift := s.refuseWrites()
				minute := func() (err error) {
					*tries = 0
					for range 120 {
						welcome := s.read()
						if err = libraryWrites(func() error { return do(s, welcome) }); err == nil {
							return nil
						}
						time.Sleep(time.Second / 2)
					}
					return err
				}
				if err := minute(); !apierrors.IsForbidden(err) || !errors.Is(err, reconcile.TerminalError(nil)) || *tries > 11 {
					t.Errorf("%d tries in the first minute, and %v", *tries, err)
				}
				if err := minute(); *tries > 1 {
					t.Errorf("%d tries in the second minute, and %v", *tries, err)
				}
				if last := s.requeued[len(s.requeued)-1]; last <= 0 || last > lastLook {
					t.Errorf("it is tried again after %s", last)
				}
				told := s.events.(*record.FakeRecorder).Events
				if len(told) != 2 {
					t.Errorf("%d events", len(told))
				}
				if event := <-told; !strings.HasPrefix(event, "Warning WriteRefused") || !strings.Contains(event, what) || !strings.Contains(event, "not today") {
					t.Error(event)
				}
				lift()
				if err := minute(); err != nil {
					t.Error(err)
				}
				if len(s.refused.of) > 0 {
					t.Errorf("it is remembered: %v", s.refused.of)
				}
			})
		})
	}
}

// A conflict, or an API server that is busy, is no answer to what is refused: it counts on afterwards.
func TestRefusalsAmongConflicts(t *testing.T) {
	s := newStage(t)
	welcomes := schema.GroupResource{Resource: "welcomes"}
	for range atOnce {
		for _, err := range []error{apierrors.NewForbidden(welcomes, "hello", errors.New("not today")), apierrors.NewConflict(welcomes, "hello", nil), apierrors.NewTooManyRequests("later", 1)} {
			s.wrote(s.read(), itsStatus, err)
		}
	}
	if err := s.rests(s.read(), itsStatus); err == nil {
		t.Error("it is written on")
	}
	s.wrote(s.read(), itsStatus, nil)
	if err := s.rests(s.read(), itsStatus); err != nil {
		t.Errorf("after a write: %v", err)
	}
}

// A deletion goes on without a status that is refused.
func TestRefusedStatusHoldsUpNoDeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		_, _ = s.refuseWrites()
		end := func() error {
			welcome := s.read()
			welcome.SetDeletionTimestamp(&metav1.Time{Time: time.Now()})
			welcome.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Deployed", "status": "False"}}}
			return libraryWrites(func() error { return s.Reporter.Status().Update(t.Context(), welcome) })
		}
		if err := end(); err == nil {
			t.Error("what has failed for a moment is not tried again")
		}
		if err := end(); err != nil {
			t.Error(err)
		}
	})
}

// Where the finalizer of what is deleted stays, each reconcile ends with two reports that differ. The status says why,
// and is not written at each.
func TestFinalizerStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.state = release.State{}
		_, lift := s.refuseWrites()
		for range 2 {
			welcome := s.read()
			welcome.SetDeletionTimestamp(&metav1.Time{Time: time.Now()})
			if err := libraryWrites(func() error { return s.Update(t.Context(), welcome) }); err == nil {
				t.Fatal("it is not refused")
			}
			time.Sleep(time.Second)
		}
		lift()
		for range 5 {
			for _, deployed := range []map[string]any{
				{"type": "Deployed", "status": "False", "reason": "UninstallSuccessful"},
				{"type": "Deployed", "status": "False"},
			} {
				welcome := s.read()
				welcome.SetDeletionTimestamp(&metav1.Time{Time: time.Now()})
				s.reportCondition(welcome, deployed)
			}
		}
		if ready := s.stored().condition(Ready); s.writes != 1 || ready.Reason != WriteRefused || !strings.Contains(ready.Message, "not today") {
			t.Errorf("%d writes: %+v", s.writes, ready)
		}
	})
}

// A refusal counts neither for a later one nor for another custom resource of that name.
func TestRefusalIsForgotten(t *testing.T) {
	for name, later := range map[string]func(welcome *unstructured.Unstructured){
		"an hour later":           func(*unstructured.Unstructured) { time.Sleep(time.Hour) },
		"of another of that name": func(welcome *unstructured.Unstructured) { welcome.SetUID("another") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				tries, _ := s.refuseWrites()
				welcome := s.read()
				for range 2 {
					*tries = 0
					_ = libraryWrites(func() error { return s.Update(t.Context(), welcome) }) // it is refused
					if *tries != atOnce {
						t.Errorf("%d tries", *tries)
					}
					later(welcome)
				}
			})
		})
	}
}

// An API server that is away or busy has refused nothing: what it could not be told is written as soon as it is back.
func TestIsRefusal(t *testing.T) {
	welcomes := schema.GroupResource{Resource: "welcomes"}
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{errors.New("connection refused"), false},
		{apierrors.NewConflict(welcomes, "hello", nil), false},
		{apierrors.NewNotFound(welcomes, "hello"), false},
		{apierrors.NewTooManyRequests("later", 1), false},
		{apierrors.NewServiceUnavailable("starting"), false},
		{apierrors.NewInternalError(errors.New("etcdserver: request timed out")), false},
		{apierrors.NewInternalError(errors.New(`failed calling webhook "no.example.com": no endpoints`)), true},
		{fmt.Errorf("write: %w", apierrors.NewForbidden(welcomes, "hello", errors.New("not today"))), true},
		{apierrors.NewInvalid(schema.GroupKind{Kind: "Welcome"}, "hello", nil), true},
		{alteration(said("Ready", "at 1"), said("Ready", "ours"), said("Ready", "at 2")), true},
		{alteration(said("Ready", "theirs"), said("Ready", "ours"), said("Ready", "theirs")), false},
		{alteration(said("Ready", "ours", "Theirs", "at 1"), said("Ready", "new", "Theirs", "at 1"), said("Ready", "new", "Theirs", "at 2")), false},
		{alteration(said("Ready", "ours"), said("Ready", "new"), said("Ready", "")), false},
	} {
		if got := isRefusal(c.err); got != c.want {
			t.Errorf("%v: %v", c.err, got)
		}
	}
}

// said is a status with these conditions and their messages.
func said(pairs ...string) (s Status) {
	for pair := range slices.Chunk(pairs, 2) {
		s.Conditions = append(s.Conditions, metav1.Condition{Type: pair[0], Message: pair[1]})
	}
	return s
}
