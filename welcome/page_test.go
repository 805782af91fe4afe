package main

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// request sends one request to the server that greets g.
func request(t *testing.T, g greeting, method, path string, header http.Header) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(method, path, nil)
	maps.Copy(r.Header, header)
	w := httptest.NewRecorder()
	newTestServer(t, g).http.Handler.ServeHTTP(w, r)
	return w
}

func TestRoutes(t *testing.T) {
	for _, test := range []struct {
		method, path string
		status       int
		contentType  string
	}{
		{"GET", "/hello/", 200, "text/html; charset=utf-8"},
		{"HEAD", "/hello/", 200, "text/html; charset=utf-8"},
		{"GET", "/hello/style.css", 200, "text/css; charset=utf-8"},
		{"GET", "/hello/emblem.svg", 200, "image/svg+xml"},
		{"GET", "/healthz", 200, "text/plain; charset=utf-8"},
		{"GET", "/readyz", 200, "text/plain; charset=utf-8"},
		{"GET", "/", 302, "text/html; charset=utf-8"},
		{"GET", "/hello", 307, "text/html; charset=utf-8"},
		{"GET", "/hello/page.html", 404, "text/plain; charset=utf-8"},
		{"GET", "/hello/../etc/passwd", 307, "text/html; charset=utf-8"}, // to the clean path, which is not found
		{"GET", "/etc/passwd", 404, "text/plain; charset=utf-8"},
		{"GET", "/favicon.ico", 404, "text/plain; charset=utf-8"},
		{"POST", "/nothing", 404, "text/plain; charset=utf-8"},
		{"POST", "/", 405, "text/plain; charset=utf-8"},
		{"POST", "/hello/", 405, "text/plain; charset=utf-8"},
		{"DELETE", "/hello/style.css", 405, "text/plain; charset=utf-8"},
		{"PUT", "/healthz", 405, "text/plain; charset=utf-8"},
		{"OPTIONS", "/readyz", 405, "text/plain; charset=utf-8"},
	} {
		t.Run(test.method+" "+test.path, func(t *testing.T) {
			w := request(t, greeting{Name: "myfriends"}, test.method, test.path, nil)
			if w.Code != test.status {
				t.Errorf("status %d, want %d", w.Code, test.status)
			}
			if got := w.Header().Get("Content-Type"); got != test.contentType {
				t.Errorf("Content-Type %q, want %q", got, test.contentType)
			}
			if got := w.Header().Get("Allow"); test.status == 405 && got != "GET, HEAD" {
				t.Errorf("Allow %q, want what is allowed instead", got)
			}
		})
	}
}

func TestRootRedirectsToTheGreeting(t *testing.T) {
	for _, path := range []string{"/", "/hello"} {
		if got := request(t, greeting{Name: "myfriends"}, "GET", path, nil).Header().Get("Location"); got != "/hello/" {
			t.Errorf("%s redirects to %q, want /hello/", path, got)
		}
	}
}

func TestPageGreets(t *testing.T) {
	for name, want := range map[string]string{
		"myfriends":                 "myfriends",
		"<script>alert(1)</script>": "&lt;script&gt;alert(1)&lt;/script&gt;",
		`"it's"`:                    "&#34;it&#39;s&#34;",
		"</title><b>":               "&lt;/title&gt;&lt;b&gt;",
		"a & b &amp; c":             "a &amp; b &amp;amp; c",
		"{{.Pod}} {{printf `x`}}":   "{{.Pod}} {{printf `x`}}",
		"🎉👩‍👩‍👧‍👦 日本語 أصدقائي": "🎉👩‍👩‍👧‍👦 日本語 أصدقائي",
	} {
		t.Run(name, func(t *testing.T) {
			body := request(t, greeting{Name: name, Pod: "pod-0"}, "GET", "/hello/", nil).Body.String()
			inBody := "\nHello " + want + "\n</h1>\n<h2>This is an operator demo</h2>"
			if strings.Contains(name, "أ") {
				inBody = "\nHello <bdi>" + want + "</bdi>\n</h1>"
			}
			for _, part := range []string{"<title>Hello " + want + "</title>", inBody} {
				if !strings.Contains(body, part) {
					t.Errorf("no %s in:\n%s", part, body)
				}
			}
		})
	}
}

func TestPageShowsPodAndNamespace(t *testing.T) {
	body := request(t, greeting{Name: "x", Pod: "pod-0", Namespace: "demo"}, "GET", "/hello/", nil).Body.String()
	for _, part := range []string{"<dt>Pod</dt><dd>pod-0</dd>", "<dt>Namespace</dt><dd>demo</dd>"} {
		if !strings.Contains(body, part) {
			t.Errorf("no %s in:\n%s", part, body)
		}
	}
	if body := request(t, greeting{Name: "x"}, "GET", "/hello/", nil).Body.String(); strings.Contains(body, "<footer>") {
		t.Errorf("a footer with nothing to say:\n%s", body)
	}
}

func TestLongNamesAreSetSmaller(t *testing.T) {
	for size, name := range map[string]string{
		"large":  strings.Repeat("é", 24), // characters count, not bytes
		"medium": strings.Repeat("é", 25),
		"small":  strings.Repeat("é", 81),
	} {
		if got := (greeting{Name: name}).Size(); got != size {
			t.Errorf("%s is set %s, want %s", name, got, size)
		}
	}
}

func TestEditedGreetingShowsAtOnce(t *testing.T) {
	for _, path := range []string{"/hello/", "/hello/style.css", "/hello/emblem.svg"} {
		first := request(t, greeting{Name: "myfriends"}, "GET", path, nil)
		if got := first.Header().Get("Cache-Control"); got != "no-cache" {
			t.Errorf("%s: Cache-Control is %q, so a browser may show an old copy without asking", path, got)
		}
		seen := http.Header{"If-None-Match": {first.Header().Get("ETag")}}
		if again := request(t, greeting{Name: "myfriends"}, "GET", path, seen); again.Code != http.StatusNotModified || again.Body.Len() > 0 {
			t.Errorf("%s: unchanged, but answered %d with %d bytes", path, again.Code, again.Body.Len())
		}
	}
	seen := http.Header{"If-None-Match": {request(t, greeting{Name: "myfriends"}, "GET", "/hello/", nil).Header().Get("ETag")}}
	edited := request(t, greeting{Name: "everyone"}, "GET", "/hello/", seen)
	if edited.Code != http.StatusOK || !strings.Contains(edited.Body.String(), "Hello everyone") {
		t.Errorf("the edited page is not sent: %d", edited.Code)
	}
}
