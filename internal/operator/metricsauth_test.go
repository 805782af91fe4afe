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
			asked.trust(&http.Request{RemoteAddr: "10.0.0.1:1"}, "reader")
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

// Who reads gets a new token once in a while. That is asked about, whatever strangers have made the operator
// ask, as long as the address has not asked much itself.
func TestNewTokenOfAReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := newAnswers()
		from := func(address, token string) (*http.Request, error) {
			request := &http.Request{RemoteAddr: address}
			_, err := asked.of(request, token, func(context.Context) (answer, error) { return answer{ttl: tokenTTL}, nil })
			return request, err
		}
		request, err := from("10.0.0.1:1", "reader")
		if err != nil {
			t.Fatal(err)
		}
		asked.trust(request, "reader")
		for i := 0; err == nil; i++ {
			_, err = from(fmt.Sprintf("10.0.1.%d:1", i), fmt.Sprint("stranger ", i))
		}
		if _, err := from("10.0.0.1:2", "replaced"); err != nil {
			t.Errorf("who could read a moment ago is refused: %v", err)
		}
		for i := range 100 * asksPerCaller {
			_, err = from("10.0.0.1:3", fmt.Sprint("guess ", i))
		}
		if !errors.Is(err, errTooMany) {
			t.Errorf("who could read may ask without end: %v", err)
		}
		time.Sleep(goodTTL + time.Second)
		for asked.all.Allow() {
		}
		if _, err := from("10.0.0.1:4", "later"); !errors.Is(err, errTooMany) {
			t.Errorf("who could read long ago is not as all others: %v", err)
		}
	})
}
