package main

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

var (
	//go:embed page.html
	pageHTML string
	//go:embed style.css
	styleCSS []byte
	//go:embed emblem.svg
	emblemSVG []byte

	pageTemplate = template.Must(template.New("page.html").Parse(pageHTML))
)

// greeting is what the page shows.
type greeting struct {
	Name      string // who is greeted; any text, escaped by html/template
	Pod       string // the pod that answers; empty: not shown
	Namespace string // the namespace of the pod; empty: not shown
}

// Size is the CSS class of the heading: long names are set smaller, so that they don't fill the screen.
func (g greeting) Size() string {
	switch n := utf8.RuneCountInString(g.Name); {
	case n > 80:
		return "small"
	case n > 24:
		return "medium"
	default:
		return "large"
	}
}

// rightToLeft are the Unicode blocks of right-to-left scripts, and the marks that change the direction of
// text.
var rightToLeft = &unicode.RangeTable{
	R16: []unicode.Range16{{0x0590, 0x08ff, 1}, {0x200e, 0x200f, 1}, {0x202a, 0x202e, 1}, {0x2066, 0x2069, 1}, {0xfb1d, 0xfdff, 1}, {0xfe70, 0xfefe, 1}},
	R32: []unicode.Range32{{0x10800, 0x10fff, 1}, {0x1e800, 0x1efff, 1}},
}

// Bidirectional is whether the name needs an element of its own, so that its direction does not affect the text
// around it. Other names have none: whoever reads the page with curl sees `Hello` and the name as plain text.
func (g greeting) Bidirectional() bool {
	return strings.ContainsFunc(g.Name, func(r rune) bool { return unicode.Is(rightToLeft, r) })
}

// addPage registers the greeting at /hello/ with its assets, and a redirect from / to it.
// The page can't change while the process lives, so it is rendered once, here.
func addPage(mux *http.ServeMux, g greeting) error {
	var page bytes.Buffer
	if err := pageTemplate.Execute(&page, g); err != nil {
		return fmt.Errorf("render the page: %w", err)
	}
	mux.Handle("GET /{$}", http.RedirectHandler("/hello/", http.StatusFound))
	mux.Handle("GET /hello/{$}", static("text/html; charset=utf-8", page.Bytes()))
	mux.Handle("GET /hello/style.css", static("text/css; charset=utf-8", styleCSS))
	mux.Handle("GET /hello/emblem.svg", static("image/svg+xml", emblemSVG))
	return nil
}

// static serves content that a browser may keep but must ask about each time: an edited greeting shows on the next
// reload, and while a rollout serves two versions no page meets the stylesheet of the other one. The answer to "has it
// changed?" is a 304 without a body, decided by ETag.
func static(contentType string, content []byte) http.Handler {
	etag := fmt.Sprintf(`"%x"`, sha256.Sum256(content))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", contentType)
		h.Set("Cache-Control", "no-cache")
		h.Set("ETag", etag)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	})
}
