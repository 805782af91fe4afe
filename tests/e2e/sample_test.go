package e2e

import (
	"testing"

	"demo.welcome.domain/welcome-operator/tests/browser"
	"demo.welcome.domain/welcome-operator/tests/kit"
)

func TestSampleGreetsMyFriends(t *testing.T) {
	s := newScene(t)
	s.kubectl("apply", "--filename="+kit.File("config/samples/webapp_v1_welcome.yaml"))
	s.awaitReady("welcome-sample")
	url := s.url("welcome-sample")
	s.awaitPage(url, "Hello myfriends")

	b := browser.New(t)
	if got, want := b.Heading(t, url), "Hello myfriends"; got != want {
		t.Errorf("the page says %q, want %q", got, want)
	}
	if complaints := b.Console(); len(complaints) > 0 {
		t.Errorf("the browser complains: %q", complaints)
	}
}

func TestNobodyNamedGreetsTheWorld(t *testing.T) {
	s := newScene(t)
	s.welcome("hello")
	s.awaitReady("hello")
	s.awaitPage(s.url("hello"), "Hello world")
}
