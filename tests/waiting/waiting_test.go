package waiting

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestFor(t *testing.T) {
	notYet := errors.New("not yet")
	for _, test := range []struct {
		name  string
		takes time.Duration
		err   bool
		told  []string
	}{
		{"what is soon there is not worth a word", 9 * time.Second, false, nil},
		{"what takes long is told every ten seconds", 25 * time.Second, false, []string{
			"still waiting: the page (10s of 30s): not yet", "still waiting: the page (20s of 30s): not yet",
		}},
		{"what never comes is an error", time.Hour, true, []string{
			"still waiting: the page (10s of 30s): not yet", "still waiting: the page (20s of 30s): not yet",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told []string
				start := time.Now()
				err := For(t.Context(), func(format string, args ...any) { told = append(told, fmt.Sprintf(format, args...)) },
					"the page", 30*time.Second, 100*time.Millisecond, func(ctx context.Context) error {
						if ctx.Err() != nil {
							return ctx.Err()
						}
						if time.Since(start) < test.takes {
							return notYet
						}
						return nil
					})
				if test.err != errors.Is(err, notYet) || !test.err && err != nil {
					t.Errorf("it ended with %v", err)
				}
				// What is told at the very end of the limit is a matter of chance.
				if len(told) == 3 {
					told = told[:2]
				}
				if strings.Join(told, "\n") != strings.Join(test.told, "\n") {
					t.Errorf("people were told %q, want %q", told, test.told)
				}
			})
		})
	}
}
