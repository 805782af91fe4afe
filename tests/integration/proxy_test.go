package integration

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"

	"k8s.io/client-go/rest"
)

// through makes login go through a proxy. handler makes that from a proxy that forwards to the API server.
func (s *scene) through(login *rest.Config, handler func(forward *httputil.ReverseProxy) http.Handler) {
	s.Helper()
	server, err := url.Parse(env.Admin.Host)
	s.must(err)
	transport, err := rest.TransportFor(rest.AnonymousClientConfig(env.Admin))
	s.must(err)
	proxy := httptest.NewUnstartedServer(handler(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(server) }, Transport: transport, FlushInterval: -1}))
	proxy.EnableHTTP2 = true
	proxy.StartTLS()
	s.Cleanup(func() { proxy.CloseClientConnections(); proxy.Close() })
	login.Host, login.CAData = proxy.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: proxy.Certificate().Raw})
}

// failing makes login go through a proxy that, where fails says so, answers like an API server that is being
// replaced.
func (s *scene) failing(login *rest.Config, fails *atomic.Pointer[func(method, path string) bool]) {
	s.Helper()
	s.through(login, func(forward *httputil.ReverseProxy) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if fail := fails.Load(); fail != nil && (*fail)(r.Method, r.URL.Path) {
				http.Error(w, "the API server is being replaced", http.StatusServiceUnavailable)
				return
			}
			forward.ServeHTTP(w, r)
		})
	})
}
