package status

import (
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// settle stores a Welcome as a stock operator has left it.
func (s *stage) settle(namespace, name, finalizer string) {
	s.Helper()
	welcome := object.Empty(welcomeKind)
	welcome.SetNamespace(namespace)
	welcome.SetName(name)
	welcome.SetUID(types.UID(namespace + name))
	welcome.SetFinalizers([]string{"theirs.example.com/own", finalizer})
	if err := s.server.Create(s.Context(), welcome); err != nil {
		s.Fatal(err)
	}
	welcome.Object["status"] = map[string]any{
		"conditions":      []any{map[string]any{"type": "Deployed", "status": "True"}},
		"deployedRelease": map[string]any{"name": name, "manifest": "what it has applied"},
	}
	if err := s.server.Status().Update(s.Context(), welcome); err != nil {
		s.Fatal(err)
	}
}

// takesOver asks whether a Welcome is served.
func (s *stage) takesOver(namespace, name string) bool {
	s.Helper()
	served, err := s.stocks.admit(s.Context(), s.find(namespace, name))
	if err != nil {
		s.Fatal(err)
	}
	return served
}

// later is as if so much time had passed since.
func (s *stocks) later(d time.Duration) {
	for _, m := range s.moves {
		m.asked, m.deleted = m.asked.Add(-d), m.deleted.Add(-d)
	}
	for namespace, there := range s.live {
		s.live[namespace] = stock{there.last.Add(-d), there.next.Add(-d)}
	}
}

func (s *stage) finalizers(name string, want ...string) {
	s.Helper()
	if got := s.find("team", name).GetFinalizers(); !slices.Equal(got, append([]string{"theirs.example.com/own"}, want...)) {
		s.Errorf("%s has %q", name, got)
	}
}

func TestStockOperatorThatIsGone(t *testing.T) {
	for name, its := range map[string]string{"operator-sdk": stockFinalizer, "helm-operator-plugins": Finalizer} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.state.Revision = 0
			s.settle("team", "old", its)
			if s.takesOver("team", "old") {
				t.Error("it is taken over at once")
			}
			s.finalizers("old", asking)
			if s.takesOver("team", "old") {
				t.Error("no answer is waited for")
			}
			s.stocks.later(stockPatience)
			if !s.takesOver("team", "old") {
				t.Error("it is not taken over")
			}
			if want := []string{"what it has applied"}; !slices.Equal(s.inherited, want) {
				t.Errorf("it inherits %q", s.inherited)
			}
			s.state.Revision = 1
			if !s.takesOver("team", "old") || s.forgotten > 0 {
				t.Error("it is given back because no status is written yet")
			}
			// The library then writes its finalizer.
			old := s.find("team", "old")
			old.SetFinalizers(append(old.GetFinalizers(), Finalizer))
			if err := s.Update(t.Context(), old); err != nil {
				t.Fatal(err)
			}
			s.finalizers("old", Finalizer)
		})
	}
}

func TestStockOperatorThatLives(t *testing.T) {
	s := newStage(t)
	s.state.Revision = 0
	for _, name := range []string{"a", "b"} {
		s.settle("team", name, stockFinalizer)
		s.takesOver("team", name)
		s.takesOver("team", name) // which the change brings
	}
	s.settle("other", "c", stockFinalizer)
	s.takesOver("other", "c")
	s.takesOver("other", "c")
	answer := func(name string) {
		obj := s.find("team", name)
		obj.SetFinalizers(append(obj.GetFinalizers(), stockFinalizer))
		if err := s.server.Update(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	answer("a")
	s.stocks.later(stockPatience - time.Second)
	if s.takesOver("team", "a") || s.forgotten != 1 {
		t.Error("who answers is not left alone")
	}
	s.finalizers("a", stockFinalizer)
	if <-s.stocks.events.(*record.FakeRecorder).Events; len(s.stocks.events.(*record.FakeRecorder).Events) > 0 {
		t.Error("it is told twice")
	}
	s.stocks.later(time.Second)
	if s.takesOver("team", "b") {
		t.Error("of an operator that lives, one that is slow is taken over")
	}
	if !s.takesOver("other", "c") {
		t.Error("it holds up another namespace")
	}
	if s.takesOver("team", "a"); s.find("team", "a").GetFinalizers()[1] != stockFinalizer {
		t.Error("it is asked again at once")
	}
	s.stocks.later(stockPeriod)
	s.takesOver("team", "a")
	s.finalizers("a", asking)
	s.takesOver("team", "a")
	s.stocks.later(stockPatience)
	if !s.takesOver("team", "a") || !s.takesOver("team", "b") {
		t.Error("it is not taken over, though its operator is gone")
	}
}

// Somebody starts a stock operator that was stopped: it writes a status over that of this one.
func TestStockOperatorThatIsStartedAgain(t *testing.T) {
	s := newStage(t)
	s.settle("team", "old", Finalizer)
	s.state.Revision = 1
	if s.takesOver("team", "old") || s.forgotten != 1 || len(s.requeued) != 1 {
		t.Error("it is not left alone at once")
	}
	s.finalizers("old", Finalizer)
	s.state.Revision = 0 // forgotten
	s.stocks.later(stockPeriod)
	s.takesOver("team", "old")
	s.finalizers("old", asking)
}

func TestDeletionOfWhatAStockOperatorHad(t *testing.T) {
	for name, its := range map[string]string{"operator-sdk": stockFinalizer, "helm-operator-plugins": Finalizer} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.settle("team", "old", its)
			if err := s.server.Delete(t.Context(), s.find("team", "old")); err != nil {
				t.Fatal(err)
			}
			old := object.Empty(welcomeKind)
			key := client.ObjectKey{Namespace: "team", Name: "old"}
			if err := s.Get(t.Context(), key, old); !apierrors.IsNotFound(err) || len(s.requeued) != 1 {
				t.Fatalf("a stock operator that may be at it is not waited for: %v, %v", err, s.requeued)
			}
			s.finalizers("old", its)
			s.stocks.later(stockPatience)
			old.SetUID("")
			if err := s.Get(t.Context(), key, old); err != nil || !slices.Contains(old.GetFinalizers(), Finalizer) {
				t.Fatalf("the library would not uninstall it: %v, %v", old.GetFinalizers(), err)
			}
			old.SetFinalizers(slices.DeleteFunc(old.GetFinalizers(), func(f string) bool { return f == Finalizer }))
			if err := s.Update(t.Context(), old); err != nil {
				t.Fatal(err)
			}
			s.finalizers("old")
		})
	}
}

// A stock operator that has answered may take its time with an uninstall. It does nothing for what lacks its finalizer.
func TestDeletionWhileAStockOperatorLives(t *testing.T) {
	s := newStage(t)
	s.state.Revision = 0
	for _, name := range []string{"a", "b"} {
		s.settle("team", name, stockFinalizer)
	}
	s.stocks.leave(s.find("team", "b"), time.Now())
	if err := s.server.Delete(t.Context(), s.find("team", "a")); err != nil {
		t.Fatal(err)
	}
	s.takesOver("team", "a")
	s.stocks.later(stockUninstall - time.Second)
	if s.takesOver("team", "a") {
		t.Error("its uninstall is not waited for")
	}
	s.stocks.leave(s.find("team", "b"), time.Now())
	s.stocks.later(2 * time.Second)
	if s.takesOver("team", "a") {
		t.Error("it has answered since, and is taken for gone")
	}
	s.stocks.later(stockUninstall)
	if !s.takesOver("team", "a") {
		t.Error("who deletes it waits for ever")
	}
	s.settle("third", "c", asking)
	if err := s.server.Delete(t.Context(), s.find("third", "c")); err != nil {
		t.Fatal(err)
	}
	if !s.takesOver("third", "c") {
		t.Error("what no stock operator would uninstall is left to it")
	}
}

// A CRD may keep the conditions, and drop the rest.
func TestStatusOfWhichTheCRDKeepsAPart(t *testing.T) {
	for name, again := range map[string]bool{"since it was written": false, "since this operator was started": true} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.dropped = []string{"observedGeneration", "operator", "release"}
			s.report(s.read())
			if again {
				s.stocks = newStocks(s.server, s, s.events)
			}
			if stored := s.find("test", "hello"); !hasStockStatus(stored) {
				t.Fatalf("the test has another status: %v", stored.Object["status"])
			}
			s.requeued = nil
			for range 3 {
				if !s.takesOver("test", "hello") || s.forgotten > 0 || len(s.requeued) > 0 {
					t.Fatal("what this operator has written is taken for a stock operator's")
				}
			}
		})
	}
}

// Who writes the finalizer of a stock operator begins anew with nothing: no failure is forgotten, and nothing inherited.
func TestFinalizerOfWhatThisOperatorServes(t *testing.T) {
	s := newStage(t)
	s.report(s.read())
	write := func(finalizers ...string) {
		t.Helper()
		obj := s.find("test", "hello")
		obj.SetFinalizers(finalizers)
		if err := s.server.Update(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	write(Finalizer, stockFinalizer, asking)
	s.takesOver("test", "hello")
	write(Finalizer, asking)
	s.takesOver("test", "hello")
	write(asking)
	s.takesOver("test", "hello")
	s.stocks.later(stockPatience)
	s.stocks.later(stockPatience)
	if !s.takesOver("test", "hello") {
		t.Error("it is not served any more")
	}
	if s.forgotten > 0 || len(s.inherited) > 0 {
		t.Errorf("forgotten %d times, inherited %q", s.forgotten, s.inherited)
	}
}

func TestMovesOfWhatIsGone(t *testing.T) {
	s := newStage(t)
	s.state.Revision = 0
	s.settle("team", "old", stockFinalizer)
	s.takesOver("team", "old")
	s.takesOver("team", "old")
	if len(s.stocks.moves) != 1 {
		t.Fatalf("%d moves", len(s.stocks.moves))
	}
	obj := s.find("team", "old")
	obj.SetFinalizers(nil)
	if err := s.server.Update(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
	if err := s.server.Delete(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
	if err := s.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); !apierrors.IsNotFound(err) || len(s.stocks.moves) > 0 {
		t.Errorf("%v; %d moves", err, len(s.stocks.moves))
	}
}

func TestIsStock(t *testing.T) {
	condition := []any{map[string]any{"type": "Deployed", "status": "True"}}
	for name, test := range map[string]struct {
		finalizers []string
		status     map[string]any
		want       bool
	}{
		"new":                    {nil, nil, false},
		"new, with the CRD's":    {nil, map[string]any{"observedGeneration": int64(-1)}, false},
		"begun by us":            {[]string{Finalizer}, nil, false},
		"ours":                   {[]string{Finalizer}, map[string]any{"conditions": condition, "observedGeneration": int64(1), "operator": "here/lease"}, false},
		"of version 0.1.0":       {[]string{Finalizer}, map[string]any{"conditions": condition, "observedGeneration": int64(1)}, false},
		"claimed":                {[]string{Finalizer}, map[string]any{"operator": "here/lease"}, false},
		"operator-sdk":           {[]string{stockFinalizer}, nil, true},
		"being asked":            {[]string{asking}, nil, true},
		"helm-operator-plugins":  {[]string{Finalizer}, map[string]any{"conditions": condition}, true},
		"written over, not ours": {[]string{Finalizer}, map[string]any{"conditions": condition, "deployedRelease": map[string]any{}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			obj := &unstructured.Unstructured{Object: map[string]any{}}
			obj.SetFinalizers(test.finalizers)
			if test.status != nil {
				obj.Object["status"] = test.status
			}
			if got := isStock(obj); got != test.want {
				t.Errorf("%v", got)
			}
		})
	}
}
