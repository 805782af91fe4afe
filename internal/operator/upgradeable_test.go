package operator

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/operator-framework/operator-lib/conditions"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// told is an OperatorCondition that remembers what it was set to, and fails as often as asked.
type told struct {
	statuses []metav1.ConditionStatus
	failures []error
}

func (c *told) Get(context.Context) (*metav1.Condition, error) {
	return nil, errors.New("not asked for")
}

func (c *told) Set(_ context.Context, status metav1.ConditionStatus, _ ...conditions.Option) error {
	if len(c.failures) > 0 {
		err := c.failures[0]
		c.failures = c.failures[1:]
		return err
	}
	c.statuses = append(c.statuses, status)
	return nil
}

func TestUpgradeable(t *testing.T) {
	const isTrue, isFalse = metav1.ConditionTrue, metav1.ConditionFalse
	for _, test := range []struct {
		name     string
		failures []error
		happens  func(u *upgradeable)
		want     []metav1.ConditionStatus
	}{{
		name:    "is true from the start: an operator that was killed may have left false",
		happens: func(*upgradeable) {},
		want:    []metav1.ConditionStatus{isTrue},
	}, {
		name: "is false while a change runs, however long within an hour",
		happens: func(u *upgradeable) {
			u.changing(false)
			time.Sleep(10 * settleTime)
		},
		want: []metav1.ConditionStatus{isTrue, isFalse},
	}, {
		name: "is true again after five minutes of retries, as long as they go on",
		happens: func(u *upgradeable) {
			for start := time.Now(); time.Since(start) < 3*maxRetrying; time.Sleep(settleTime - time.Second) {
				u.changing(true)()
			}
		},
		want: []metav1.ConditionStatus{isTrue, isFalse, isTrue},
	}, {
		name: "is false for a change in the middle of retries",
		happens: func(u *upgradeable) {
			for start := time.Now(); time.Since(start) < 3*maxRetrying; time.Sleep(settleTime - time.Second) {
				u.changing(true)()
				if since := time.Since(start); since > 2*maxRetrying && since < 2*maxRetrying+settleTime {
					u.changing(false)()
				}
			}
		},
		want: []metav1.ConditionStatus{isTrue, isFalse, isTrue, isFalse, isTrue},
	}, {
		name: "is true again after an hour, whatever goes on",
		happens: func(u *upgradeable) {
			for start := time.Now(); time.Since(start) < 2*maxChanging; time.Sleep(settleTime - time.Second) {
				u.changing(false)()
			}
		},
		want: []metav1.ConditionStatus{isTrue, isFalse, isTrue},
	}, {
		name: "is written once for many changes, and true again when they have settled",
		happens: func(u *upgradeable) {
			for range 20 {
				done := u.changing(false)
				time.Sleep(settleTime / 2)
				done()
			}
			time.Sleep(settleTime)
		},
		want: []metav1.ConditionStatus{isTrue, isFalse, isTrue},
	}, {
		name:     "is tried again until it is told",
		failures: []error{errors.New("conflict"), errors.New("conflict")},
		happens:  func(*upgradeable) { time.Sleep(3 * settleTime) },
		want:     []metav1.ConditionStatus{isTrue},
	}, {
		name:     "is given up where OLM's API is absent",
		failures: []error{&meta.NoKindMatchError{}},
		happens: func(u *upgradeable) {
			u.changing(false)()
			time.Sleep(3 * settleTime)
		},
	}} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				condition := &told{failures: test.failures}
				u := newUpgradeable(condition, testr.New(t))
				ended := make(chan error)
				go func() { ended <- u.Start(ctx) }()
				synctest.Wait()
				test.happens(u)
				synctest.Wait()
				stop()
				if err := <-ended; err != nil {
					t.Errorf("Start: %v", err)
				}
				if !slices.Equal(condition.statuses, test.want) {
					t.Errorf("Upgradeable was set to %v, want %v", condition.statuses, test.want)
				}
			})
		})
	}
}
