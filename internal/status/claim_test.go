package status

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

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

// Events are kept for an hour, and who looks at them wants to know whether two operators run now: it is said
// again and again, of one custom resource.
func TestStandsBackIsToldAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		there := s.rival("there/lease")
		for n := range 3 {
			s.claim(fmt.Sprintf("team-%d", n), "theirs")
			s.admits(s.claims, fmt.Sprintf("team-%d", n), "theirs")
		}
		for began := time.Now(); time.Since(began) < 2*TellPeriod+TellPeriod/2; time.Sleep(lookPeriod) {
			s.claims.ask(t.Context(), time.Now())
			for n := range 3 {
				there.notice(s.find(fmt.Sprintf("team-%d", n), "theirs"))
			}
			there.answer(t.Context())
		}
		if events := len(s.claims.events.(*record.FakeRecorder).Events); events != 3+2 {
			t.Errorf("%d events", events)
		}
	})
}

// However many custom resources it had, they are claimed within a minute, with one question in each namespace.
func TestClaimOfAnOperatorThatIsGone(t *testing.T) {
	s := newStage(t)
	const namespaces, each = 20, 5
	for n := range namespaces {
		for i := range each {
			namespace, name := fmt.Sprintf("team-%d", n), fmt.Sprintf("theirs-%d", i)
			s.claim(namespace, name)
			s.admits(s.claims, namespace, name)
		}
	}
	s.writes = 0
	now, second, taken := time.Now(), 0, 0
	for ; second < 60 && taken < namespaces*each; second += 2 {
		s.claims.ask(t.Context(), now.Add(time.Duration(second)*time.Second))
		taken = 0
		for n := range namespaces {
			for i := range each {
				if s.admits(s.claims, fmt.Sprintf("team-%d", n), fmt.Sprintf("theirs-%d", i)) {
					taken++
				}
			}
		}
	}
	t.Logf("taken over after %d s", second)
	if taken != namespaces*each || second < int(patience/time.Second) {
		t.Errorf("%d of %d are taken over after %d s", taken, namespaces*each, second)
	}
	if s.writes != namespaces+namespaces*each {
		t.Errorf("%d writes for %d custom resources in %d namespaces", s.writes, namespaces*each, namespaces)
	}
	s.claims.ask(t.Context(), now.Add(time.Hour))
	if len(s.claims.others) > 0 {
		t.Errorf("remembered: %v", s.claims.others)
	}
}

// Where a policy refuses to have a custom resource of an operator that is gone taken over, the log says so, and the
// others are taken over.
func TestClaimThatIsRefused(t *testing.T) {
	s := newStage(t)
	told := 0
	s.claims.log = funcr.New(func(_, line string) {
		if strings.Contains(line, "Could not take over") && strings.Contains(line, "there/lease") && strings.Contains(line, "not today") {
			told++
		}
	}, funcr.Options{})
	s.claims.Client = interceptor.NewClient(s.server, interceptor.Funcs{
		SubResourceUpdate: func(ctx context.Context, c client.Client, subresource string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
			if obj.GetName() == "refused" && release.ClaimedBy(obj.(*unstructured.Unstructured)) == s.claims.self {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "welcomes"}, obj.GetName(), errors.New("not today"))
			}
			return c.SubResource(subresource).Update(ctx, obj, opts...)
		},
	})
	s.claim("team", "refused")
	s.admits(s.claims, "team", "refused")
	now, second := time.Now(), 0
	s.claims.ask(t.Context(), now)
	s.claim("team", "theirs")
	for ; !s.admits(s.claims, "team", "theirs"); second += 2 { // it is asked about sooner or later
		if second > 3600 {
			t.Fatal("one that is refused keeps the other one from being taken over")
		}
		s.claims.ask(t.Context(), now.Add(time.Duration(second)*time.Second))
	}
	if tries := second/int(patience/time.Second) + 1; told == 0 || told > tries {
		t.Errorf("in %d s, the log has told it %d times", second, told)
	}
}

// Whoever asks in many namespaces, and needs long for each, gives the last one as long to answer as the first.
func TestSlowQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		for n := range 10 {
			s.claim(fmt.Sprintf("team-%d", n), "theirs")
			s.admits(s.claims, fmt.Sprintf("team-%d", n), "theirs")
		}
		s.slow = 3 * time.Second
		s.claims.ask(t.Context(), time.Now())
		time.Sleep(suspicion)
		s.claims.ask(t.Context(), time.Now())
		s.claims.ask(t.Context(), time.Now())
		gone := 0
		for _, there := range s.claims.others {
			if there.gone {
				gone++
			}
		}
		if gone > 2 { // the first ones
			t.Errorf("%d of %d places count as gone half a minute after the first question", gone, len(s.claims.others))
		}
	})
}

// That it no longer answers in one namespace does not take away what it has in another one.
func TestClaimInANamespaceThatIsNoLongerWatched(t *testing.T) {
	s := newStage(t)
	for _, namespace := range []string{"watched", "unwatched"} {
		s.claim(namespace, "theirs")
		s.admits(s.claims, namespace, "theirs")
	}
	there, now := s.rival("there/lease"), time.Now()
	for second := 0; second < 120; second += 2 {
		s.claims.ask(t.Context(), now.Add(time.Duration(second)*time.Second))
		there.notice(s.find("watched", "theirs"))
		there.answer(t.Context())
	}
	if !s.admits(s.claims, "unwatched", "theirs") || s.admits(s.claims, "watched", "theirs") {
		t.Errorf("claimed: unwatched by %s, watched by %s", release.ClaimedBy(s.find("unwatched", "theirs")), release.ClaimedBy(s.find("watched", "theirs")))
	}
}

// An answer that this operator has not heard of yet, because it stood still itself, counts all the same.
func TestClaimAnsweredUnheard(t *testing.T) {
	s := newStage(t)
	s.claim("team", "theirs")
	s.admits(s.claims, "team", "theirs")
	there, now := s.rival("there/lease"), time.Now()
	s.claims.ask(t.Context(), now)
	stale := s.find("team", "theirs")
	there.notice(stale)
	there.answer(t.Context())
	s.claims.Client = interceptor.NewClient(s.server, interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
			stale.DeepCopyInto(obj.(*unstructured.Unstructured))
			return nil
		},
	})
	s.claims.ask(t.Context(), now.Add(time.Hour))
	s.claims.Client = s.server
	if operator := release.ClaimedBy(s.find("team", "theirs")); operator != "there/lease" {
		t.Errorf("it was taken over by %s", operator)
	}
	s.claims.ask(t.Context(), now.Add(time.Hour+lookPeriod))
	if s.admits(s.claims, "team", "theirs") {
		t.Error("the other operator counts as gone")
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
