package main

import (
	"net/http/httptest"
	"strings"
	"testing"

	"demo.welcome.domain/welcome-operator/tests/browser"
)

// longName has the most characters that spec.name takes, without a place to break.
var longName = strings.Repeat("Llanfairpwllgwyngyll", 13)[:253]

// openPage serves the page that greets name, and returns its address.
func openPage(t *testing.T, name string) string {
	t.Helper()
	page := httptest.NewServer(newTestServer(t, greeting{Name: name, Pod: "welcome-sample-6c8f7d9b54-x2x7q", Namespace: "default"}).http.Handler)
	t.Cleanup(page.Close)
	return page.URL + "/hello/"
}

func TestBrowserReadsTheHeading(t *testing.T) {
	b := browser.New(t)
	for _, name := range []string{
		"myfriends", "world", "Ω≈ç√ 日本語", "🎉👩‍👩‍👧‍👦", "أصدقائي!", "<script>alert(1)</script>",
		`"><img src=x onerror=alert(1)>`, "{{.Pod}}", "&amp;", `it's "you"`, longName,
	} {
		if got, want := b.Heading(t, openPage(t, name)), "Hello "+name; got != want {
			t.Errorf("the heading is %q, want %q", got, want)
		}
		if lines := b.Console(); len(lines) > 0 {
			t.Errorf("greeting %q, the browser complains: %q", name, lines)
		}
	}
}

func TestBrowserObeysTheContentSecurityPolicy(t *testing.T) {
	b := browser.New(t)
	b.Open(t, openPage(t, "myfriends"))
	ran := browser.Evaluate[bool](t, b, `(() => {
		const script = document.createElement("script");
		script.textContent = "window.ran = true";
		document.body.append(script);
		return window.ran === true;
	})()`)
	if ran {
		t.Error("an inline script ran")
	}
	if lines := b.Console(); !strings.Contains(strings.Join(lines, "\n"), "Content Security Policy") {
		t.Errorf("the browser reports no violation of the policy: %q", lines)
	}
}

// TestBrowserLayout also takes the screenshots of dist/screenshots, two of which `make screenshots` puts into the README.
func TestBrowserLayout(t *testing.T) {
	names := map[string]string{"greeting": "myfriends", "long": longName, "rtl": "أصدقائي الأعزاء!"}
	windows := map[string]struct{ width, height int64 }{"phone": {360, 740}, "desktop": {1280, 720}}
	schemes := map[string]bool{"light": false, "dark": true}

	b := browser.New(t)
	for name, text := range names {
		url := openPage(t, text)
		for window, size := range windows {
			for scheme, dark := range schemes {
				picture := name + "-" + window + "-" + scheme
				t.Run(picture, func(t *testing.T) {
					b.Emulate(t, size.width, size.height, dark)
					b.Open(t, url)
					b.Screenshot(t, "../dist/screenshots/"+picture+".png")

					if width := browser.Evaluate[int64](t, b, `document.documentElement.scrollWidth`); width > size.width {
						t.Errorf("the page is %d pixels wide in a window of %d", width, size.width)
					}
					checkColours(t, b, dark)
					if lines := b.Console(); len(lines) > 0 {
						t.Errorf("the browser complains: %q", lines)
					}
				})
			}
		}
	}
}

// contrastScript computes the contrast ratio of WCAG 2.2 (https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio) of every
// element that has text of its own against the nearest background behind it.
const contrastScript = `(() => {
	const rgb = (color) => {
		const match = /^rgb\((\d+), (\d+), (\d+)\)$/.exec(color);
		if (!match) throw new Error("not an opaque sRGB colour: " + color);
		return match.slice(1).map(Number);
	};
	const luminance = (color) => {
		const [r, g, b] = rgb(color).map((c) => c / 255).map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
		return 0.2126 * r + 0.7152 * g + 0.0722 * b;
	};
	const background = (element) => {
		for (; element; element = element.parentElement) {
			const style = getComputedStyle(element);
			if (style.backgroundImage !== "none") throw new Error("text on an image has no computable contrast");
			if (style.backgroundColor !== "rgba(0, 0, 0, 0)") return style.backgroundColor;
		}
		throw new Error("no background colour");
	};
	return [...document.body.querySelectorAll("*")]
		.filter((element) => [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim()))
		.map((element) => {
			const text = luminance(getComputedStyle(element).color), ground = luminance(background(element));
			return {element: element.localName, ratio: (Math.max(text, ground) + 0.05) / (Math.min(text, ground) + 0.05), ground};
		});
})()`

// checkColours fails where text is harder to read than WCAG level AA allows for text of any size, and where the page does
// not follow the scheme that the reader prefers.
func checkColours(t *testing.T, b *browser.Browser, dark bool) {
	t.Helper()
	texts := browser.Evaluate[[]struct {
		Element string  `json:"element"`
		Ratio   float64 `json:"ratio"`
		Ground  float64 `json:"ground"` // luminance of the background: 0 is black, 1 is white
	}](t, b, contrastScript)
	seen := map[string]bool{}
	for _, text := range texts {
		seen[text.Element] = true
		if text.Ratio < 4.5 {
			t.Errorf("the contrast of <%s> is %.2f, want at least 4.5", text.Element, text.Ratio)
		}
		if isDark := text.Ground < 0.5; isDark != dark {
			t.Errorf("the luminance behind <%s> is %.2f, with dark colours wanted: %t", text.Element, text.Ground, dark)
		}
	}
	for _, element := range []string{"h1", "h2", "p", "dt", "dd"} {
		if !seen[element] {
			t.Errorf("found no text in <%s>, so its contrast is not checked", element)
		}
	}
}
