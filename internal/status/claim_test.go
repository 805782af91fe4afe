package status

import (
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/internal/release"
)

// rival is another operator on the same API server.
func (s *stage) rival(name string) *claims {
	return &claims{
		Client: s.server, kind: welcomeKind, self: name, serves: labels.Everything(), releases: s, events: record.NewFakeRecorder(1000), log: logr.Discard(),
		others: map[place]*other{}, free: map[types.UID]time.Time{}, questions: map[client.ObjectKey]bool{}, told: map[string]time.Time{}, asked: make(chan struct{}, 1),
	}
}

// claim has a Welcome claimed by the operator there/lease.
func (s *stage) claim(namespace, name string) {
	s.Helper()
	welcome := object.Empty(welcomeKind)
	welcome.SetNamespace(namespace)
	welcome.SetName(name)
	welcome.SetUID(types.UID(namespace + name))
	if err := s.server.Create(s.Context(), welcome); err != nil {
		s.Fatal(err)
	}
	welcome.Object["status"] = map[string]any{"operator": "there/lease"}
	if err := s.server.Status().Update(s.Context(), welcome); err != nil {
		s.Fatal(err)
	}
}

func (s *stage) find(namespace, name string) *unstructured.Unstructured {
	s.Helper()
	welcome := object.Empty(welcomeKind)
	if err := s.server.Get(s.Context(), client.ObjectKey{Namespace: namespace, Name: name}, welcome); err != nil {
		s.Fatal(err)
	}
	return welcome
}

func (s *stage) admits(c *claims, namespace, name string) bool {
	s.Helper()
	admitted, err := c.admit(s.Context(), s.find(namespace, name))
	if err != nil {
		s.Fatal(err)
	}
	return admitted
}

func TestClaimOfAnOperatorThatLives(t *testing.T) {
	s := newStage(t)
	s.claim("team", "theirs")
	there := s.rival("there/lease")
	if s.admits(s.claims, "team", "theirs") || s.forgotten != 1 {
		t.Error("what another operator has claimed is not left to it")
	}
	if !s.admits(there, "team", "theirs") {
		t.Error("the operator that has claimed it does not serve it")
	}
	event := <-s.claims.events.(*record.FakeRecorder).Events
	if !strings.Contains(event, "here/lease") || !strings.Contains(event, "there/lease") {
		t.Errorf("the event does not name both: %s", event)
	}
	s.writes = 0
	now := time.Now()
	for second := 0; second < 60; second += 2 {
		s.claims.ask(t.Context(), now.Add(time.Duration(second)*time.Second))
		there.notice(s.find("team", "theirs"))
		there.answer(t.Context())
		s.admits(s.claims, "team", "theirs")
	}
	if s.writes != 12 {
		t.Errorf("%d questions and answers in a minute", s.writes)
	}
	if theirs := s.find("team", "theirs"); release.ClaimedBy(theirs) != "there/lease" || challenger(theirs) != "" {
		t.Errorf("its status is %v", theirs.Object["status"])
	}
	if extra := len(s.claims.events.(*record.FakeRecorder).Events); extra > 0 {
		t.Errorf("%d more events", extra)
	}
}

// What an operator no longer serves, because of another label, it lets go when it is done with it. Until then it answers.
func TestClaimOfWhatIsNoLongerSelected(t *testing.T) {
	s := newStage(t)
	s.claim("team", "theirs")
	there := s.rival("there/lease")
	there.serves = labels.SelectorFromSet(labels.Set{"stage": "production"})
	s.admits(s.claims, "team", "theirs")
	s.claims.ask(t.Context(), time.Now())
	there.notice(s.find("team", "theirs"))
	there.answer(t.Context())
	if s.admits(s.claims, "team", "theirs") || challenger(s.find("team", "theirs")) != "" {
		t.Errorf("before it was let go, its status is %v", s.find("team", "theirs").Object["status"])
	}
	if s.admits(there, "team", "theirs") {
		t.Error("it is served by an operator that does not select it")
	}
	if !wasLetGo(s.find("team", "theirs")) {
		t.Errorf("it was not let go: %v", s.find("team", "theirs").Object["status"])
	}
	s.recorder = "there/lease" // as its record has it for good
	if !s.admits(s.claims, "team", "theirs") || release.ClaimedBy(s.find("team", "theirs")) != "here/lease" {
		t.Errorf("its status is %v", s.find("team", "theirs").Object["status"])
	}
}

// Of two that select what was let go, one gets it.
func TestClaimOfWhatTwoSelect(t *testing.T) {
	s := newStage(t)
	s.claim("team", "theirs")
	first := s.rival("there/lease")
	first.serves = labels.Nothing()
	s.admits(first, "team", "theirs")
	free := s.find("team", "theirs")
	second := s.rival("elsewhere/lease")
	for i, c := range []*claims{second, s.claims} {
		if admitted, err := c.admit(t.Context(), free.DeepCopy()); err != nil || admitted != (i == 0) {
			t.Errorf("%s serves it: %v, %v", c.self, admitted, err)
		}
	}
}

// A label that has just changed makes no operator with a selector say that another one is in its way.
func TestClaimThatMayBeLetGo(t *testing.T) {
	s := newStage(t)
	s.claim("team", "theirs")
	c := s.rival("b/lease")
	other, err := labels.Parse("shard notin (a)")
	if err != nil {
		t.Fatal(err)
	}
	c.serves = other
	events := c.events.(*record.FakeRecorder).Events
	if s.admits(c, "team", "theirs") || len(events) > 0 {
		t.Error("it complains at once")
	}
	if s.admits(c, "team", "theirs") || len(s.requeued) != 2 {
		t.Errorf("an event meanwhile is the last that it looks at: it comes again after %s", s.requeued)
	}
	for uid := range c.free {
		c.free[uid] = time.Now().Add(-headStart)
	}
	if s.admits(c, "team", "theirs") || len(events) != 1 {
		t.Error("it never says that both select it")
	}
}

// While an installation has no status yet, its record tells who makes it.
func TestClaimByARecord(t *testing.T) {
	s := newStage(t)
	s.recorder = "there/lease"
	if s.admits(s.claims, "test", "hello") {
		t.Error("what another operator installs is not left to it")
	}
	s.report(s.find("test", "hello"))
	if s.writes != 0 {
		t.Error("its status is written")
	}
	there := s.rival("there/lease")
	s.claims.ask(t.Context(), time.Now())
	there.notice(s.find("test", "hello"))
	there.answer(t.Context())
	if operator := release.ClaimedBy(s.find("test", "hello")); operator != "there/lease" {
		t.Errorf("claimed by %q", operator)
	}
}

// Where another operator lives, what nobody has claimed is left to it for a moment.
func TestClaimOfWhatIsNew(t *testing.T) {
	s := newStage(t)
	if !s.admits(s.claims, "test", "hello") {
		t.Error("alone, it hesitates")
	}
	s.claim("test", "theirs")
	s.admits(s.claims, "test", "theirs")
	if s.admits(s.claims, "test", "hello") {
		t.Error("it does not let the other one begin")
	}
	for uid := range s.claims.free {
		s.claims.free[uid] = time.Now().Add(-headStart)
	}
	if !s.admits(s.claims, "test", "hello") {
		t.Error("nobody serves it")
	}
}
