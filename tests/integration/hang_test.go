package integration

import (
	"fmt"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// Where a kind of children cannot be listed, or that does not end, custom resources that have some are
// installed, edited and repaired all the same, and what happens to those children is seen later.
func TestKindThatIsNotListed(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]http.HandlerFunc{
		"but refused": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "the server is currently unable to handle the request", http.StatusServiceUnavailable)
		},
		"and not answered": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			own := settings{namespaces: []string{s.namespace}}
			first := s.ownOperator(own)
			s.deploy("hello")
			first.Stop()
			var fails atomic.Bool
			fails.Store(true)
			own.through = func(login *rest.Config) {
				s.through(login, func(forward *httputil.ReverseProxy) http.Handler {
					return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						if fails.Load() && r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/services") {
							answer(w, r)
							return
						}
						forward.ServeHTTP(w, r)
					})
				})
			}
			operator := s.ownOperator(own)
			s.edit("hello", kit.Greet("meanwhile"))
			s.awaitGreeting("hello", "meanwhile")
			s.awaitDeployed("hello")
			s.deploy("new")
			deployment := &appsv1.Deployment{}
			s.get(deployment, "hello")
			s.must(env.Client.Delete(ctx, deployment))
			s.awaitExists(&appsv1.Deployment{}, "hello")
			s.must(says(operator.Text(), []string{"Not watching a kind of objects", `"kind":"Service"`}))

			// It is looked at once a minute.
			s.deleteService("hello")
			s.awaitExists(&corev1.Service{}, "hello")
			fails.Store(false)
			s.awaitWithin(3*time.Minute, "Services are watched again", func() error {
				s.deleteService("hello")
				start := time.Now()
				s.awaitExists(&corev1.Service{}, "hello")
				if took := time.Since(start); took > 5*time.Second {
					return fmt.Errorf("a deleted one is back after %s", took)
				}
				return nil
			})
		})
	}
}
