package e2e

import (
	"fmt"
	"testing"

	"demo.welcome.domain/welcome-operator/tests/browser"
	"demo.welcome.domain/welcome-operator/tests/kit"
)

func TestEditChangesThePageWithoutDowntime(t *testing.T) {
	s := newScene(t)
	s.welcome("hello", kit.Greet("myfriends"))
	s.awaitReady("hello")
	url := s.url("hello")
	s.awaitPage(url, "Hello myfriends")
	b := browser.New(t)

	visitors := s.traffic(url, 200)
	s.patch("hello", `{"name":"Zoë & <friends> 🎉"}`)
	s.awaitReady("hello")
	s.await("the page greets anew", func() error {
		if got := b.Heading(t, url); got != "Hello Zoë & <friends> 🎉" {
			return fmt.Errorf("it says %q", got)
		}
		return nil
	})
	// If requests to the old pod fail, then when it ends.
	s.await("the old pod is gone", func() error { return s.hasPods(1) })
	visitors.stop(s)
}
