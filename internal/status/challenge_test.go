package status

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"demo.welcome.domain/welcome-operator/internal/release"
)

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
