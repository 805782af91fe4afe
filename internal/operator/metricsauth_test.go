package operator

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// A tenant has any number of valid tokens, and may read nothing with them. Who may read is answered all the same.
func TestTokensOfStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, questions := newAnswers(), 0
		from := func(address, token string) error {
			_, err := asked.of(&http.Request{RemoteAddr: address + ":1"}, token, func(context.Context) (answer, error) {
				questions++
				return answer{ttl: tokenTTL}, nil
			})
			return err
		}
		const minutes = 5
		for minute := range minutes {
			if err := from("10.0.0.1", "reader"); err != nil {
				t.Errorf("after %d minutes, who may read is refused: %v", minute, err)
			}
			asked.trust("reader")
			for token := range 1000 {
				if err := from("10.0.0.2", fmt.Sprint("stranger ", token)); err != nil && !errors.Is(err, errTooMany) {
					t.Fatal(err)
				}
			}
			time.Sleep(tokenTTL)
			for asked.all.Allow() { // others have had it ask as much as it may
			}
		}
		if limit := minutes * (10*asksPerCaller + 1); questions > limit {
			t.Errorf("an address with valid tokens, 1,000 a minute, had the API server asked %d times, not up to %d", questions, limit)
		}
	})
}
