package integration

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// lag is a connection to the API server on which the events of watches can be delayed, as by an API server
// that is behind.
type lag struct {
	mu   sync.Mutex
	held chan struct{} // closed when it goes on; nil if it is not held up
	what []string
}

// of makes login go through a proxy that delays it.
func (l *lag) of(s *scene, login *rest.Config) {
	s.Helper()
	s.through(login, func(forward *httputil.ReverseProxy) http.Handler {
		forward.ModifyResponse = func(response *http.Response) error {
			if response.Request.URL.Query().Get("watch") != "" {
				response.Body = &slowly{response.Body, l, response.Request.URL.Path, bufio.NewReader(response.Body)}
			}
			return nil
		}
		return forward
	})
}

func (l *lag) hold(what ...string) (letGo func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := make(chan struct{})
	l.held, l.what = held, what
	return sync.OnceFunc(func() { close(held) })
}

// slowly is a watch that is delayed.
type slowly struct {
	io.ReadCloser
	*lag
	path string
	body *bufio.Reader
}

// Read returns no more than one event of custom resources at once: these are lines of JSON.
func (s *slowly) Read(into []byte) (int, error) {
	_, err := s.body.Peek(1)
	s.mu.Lock()
	held, what := s.held, s.what
	s.mu.Unlock()
	for _, resource := range what {
		if strings.HasSuffix(s.path, "/"+resource) {
			<-held
		}
	}
	if err != nil {
		return 0, err
	}
	there, err := s.body.Peek(min(s.body.Buffered(), len(into)))
	if end := bytes.IndexByte(there, '\n'); end >= 0 {
		there = there[:end+1]
	}
	n := copy(into, there)
	_, _ = s.body.Discard(n) // it is there
	return n, err
}

// A leader whose caches are behind those of the one before brings back nothing older. It waits for them.
func TestLeaderThatIsBehind(t *testing.T) {
	for _, behind := range [][]string{{"welcomes"}, {"welcomes", "configmaps"}} {
		t.Run(strings.Join(behind, " and "), func(t *testing.T) {
			s := newScene(t)
			elect := s.installation("behind").settings
			first := s.ownOperator(elect)
			s.deploy("hello", kit.Greet("before"))
			s.settled(first)
			way := &lag{}
			elect.through = func(login *rest.Config) { way.of(s, login) }
			second := s.ownOperator(elect)
			letGo := way.hold(behind...)
			defer letGo()
			s.edit("hello", kit.Greet("after"))
			s.awaitGreeting("hello", "after")
			s.awaitDeployed("hello")
			s.settled(first)
			deployment := &appsv1.Deployment{}
			s.get(deployment, "hello")
			first.Stop()

			s.await("the second sees that it is behind", func() error { return says(second.Text(), []string{"the cache is behind"}) })
			s.unharmed(deployment)
			letRest := way.hold("welcomes") // all but the edit, which is under way
			defer letRest()
			letGo()
			s.await("the second waits for the status, too", func() error { return says(second.Text(), []string{"does not have the status"}) })
			s.must(s.hasRecords("hello", 2))
			letRest()
			s.edit("hello", kit.Greet("at last"))
			s.awaitGreeting("hello", "at last")
			s.awaitDeployed("hello")
			if err := s.hasRecords("hello", 3); err != nil {
				t.Errorf("%v\n%s", err, s.dump())
			}
		})
	}
}

// Nor does such a leader make anything for a Welcome that its predecessor has uninstalled.
func TestLeaderThatHasNotHeardOfADeletion(t *testing.T) {
	s := newScene(t)
	s.collectGarbage()
	elect := s.installation("behind").settings
	first := s.ownOperator(elect)
	welcome := s.deploy("hello")
	s.settled(first)
	way := &lag{}
	elect.through = func(login *rest.Config) { way.of(s, login) }
	second := s.ownOperator(elect)
	letGo := way.hold("welcomes")
	defer letGo()
	s.delete(welcome)
	s.must(s.hasRecords("hello", 0))
	first.Stop()

	s.await("the second sees that it is gone", func() error { return says(second.Text(), []string{"the custom resource was deleted"}) })
	s.must(s.isGone(&appsv1.Deployment{}, "hello"))
	letGo()
	s.must(s.hasRecords("hello", 0))
}

// Where such a leader does not have the records yet, they do not count as lost: the hooks of a deletion are run.
func TestLeaderThatHasNoRecordsYet(t *testing.T) {
	s := newScene(t)
	elect := s.installation("behind").settings
	elect.watches = watchesWithMore(t, hookOfDeletion)
	first := s.ownOperator(elect)
	way := &lag{}
	elect.through = func(login *rest.Config) { way.of(s, login) }
	second := s.ownOperator(elect)
	letGo := way.hold("configmaps")
	defer letGo()
	welcome := s.deploy("hello")
	s.settled(first)
	first.Stop()
	s.must(env.Client.Delete(ctx, welcome))

	s.await("the second sees that it is behind", func() error {
		return says(second.Text(), []string{"the cache is behind: it does not have release record"})
	})
	s.must(s.find(welcome, "hello"))
	letGo()
	s.awaitGone(welcome, "hello")
	s.get(&corev1.ConfigMap{}, "hello-bye")
}

const hookOfDeletion = `
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-bye
  annotations: {helm.sh/hook: pre-delete}`

// Nor does such a leader run the hooks of a deletion again.
func TestLeaderThatHasNotHeardOfHooks(t *testing.T) {
	for event, group := range map[string]string{"pre-delete": "apps", "post-delete": ""} {
		t.Run(event, func(t *testing.T) {
			s := newScene(t)
			elect := s.installation("behind").settings
			elect.watches = watchesWithMore(t, strings.ReplaceAll(hookOfDeletion, "pre-delete", event))
			first := s.ownOperator(elect)
			welcome := s.deploy("hello")
			s.settled(first)
			way := &lag{}
			elect.through = func(login *rest.Config) { way.of(s, login) }
			second := s.ownOperator(elect)
			letRecords := way.hold("configmaps")
			defer letRecords()
			resource, next := "deployments", client.Object(&appsv1.Deployment{ObjectMeta: objectMeta(s.namespace, "hello")})
			if group == "" {
				resource, next = "configmaps", &corev1.ConfigMap{ObjectMeta: objectMeta(s.namespace, "sh.helm.release.v1.hello.v1")}
			}
			asked, letGo := s.hold(admissionregistrationv1.Delete, group, resource, func(probe context.Context) error {
				return env.Client.Delete(probe, next, client.DryRunAll)
			})
			s.must(env.Client.Delete(ctx, welcome))
			asked() // by the first, after its hook
			hook := &corev1.ConfigMap{}
			s.get(hook, "hello-bye")
			s.killWaiting(first)
			s.await("the second sees that it is behind", func() error { return says(second.Text(), []string{"the cache is behind"}) })
			s.unharmed(hook)
			letGo()
			letRecords()
			s.awaitGone(welcome, "hello")
			s.unharmed(hook)
		})
	}
}

// What the garbage collector deletes with its Welcome is not made again, for it to delete that, too, and so
// on, by an operator that does not hear of Welcomes any more.
func TestDeafOperatorAndGarbageCollector(t *testing.T) {
	for name, remove := range map[string]func(s *scene){
		"is being deleted": func(s *scene) {
			_, err := s.kubectl("", "delete", "welcome", "hello", "--cascade=foreground", "--wait=false")
			s.must(err)
		},
		"was deleted": func(s *scene) { s.forceOff("hello") },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.collectGarbage()
			way := &lag{}
			operator := s.ownOperator(settings{namespaces: []string{s.namespace}, through: func(login *rest.Config) { way.of(s, login) }})
			welcome := s.deploy("hello")
			s.settled(operator)
			letGo := way.hold("welcomes")
			defer letGo()
			remove(s)
			s.await("it sees that", func() error { return says(operator.Text(), []string{"the custom resource " + name}) })
			if made := operator.metric(t, "welcome_operator_release_actions_total", `action="install"`); made != 1 {
				t.Errorf("there were %v installations", made)
			}
			letGo()
			s.awaitGone(welcome, "hello")
			s.awaitGone(&appsv1.Deployment{}, "hello") // not before: one put back just as the collector is done with what was there stays until its owner goes
			s.awaitGone(&corev1.Service{}, "hello")
			s.await("its records are gone", func() error { return s.hasRecords("hello", 0) })
		})
	}
}

// A record that is there, and that the cache does not show yet, does not pass for somebody else's: who follows the
// advice then would delete it.
func TestRecordThatTheCacheDoesNotShow(t *testing.T) {
	s := newScene(t)
	way := &lag{}
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}, through: func(login *rest.Config) { way.of(s, login) }})
	s.deploy("hello", kit.Greet("before"))
	s.settled(operator)
	letGo := way.hold("configmaps")
	defer letGo()
	s.edit("hello", kit.Greet("after"))
	s.awaitCondition("hello", "Ready", "False", "the cache is behind", "sh.helm.release.v1.hello.v2")
	if events, err := s.kubectl("", "get", "events"); err != nil || strings.Contains(events, "ObjectInTheWay") {
		t.Errorf("%v\n%s", err, events)
	}
	letGo()
	s.awaitGreeting("hello", "after")
	s.awaitDeployed("hello")
}

// Who forges the generation in a record does not stop the operator.
func TestForgedGeneration(t *testing.T) {
	s := newScene(t)
	operator := s.operator()
	s.deploy("hello", kit.Greet("before"))
	s.settled(operator)
	for _, record := range s.records("hello") {
		record.Annotations["webapp.demo.welcome.domain/generation"] = "999999"
		s.must(env.Client.Update(ctx, &record))
	}
	s.edit("hello", kit.Greet("after"))
	s.awaitGreeting("hello", "after")
	s.awaitDeployed("hello")
	if generation := s.records("hello")[1].Annotations["webapp.demo.welcome.domain/generation"]; generation != fmt.Sprint(s.welcome("hello").GetGeneration()) {
		t.Errorf("the record says that it was made from generation %s", generation)
	}
}
