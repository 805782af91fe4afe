package object

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// IsUncached is whether the cache does not answer because nobody watches the kind yet.
func IsUncached(err error) bool {
	_, is := errors.AsType[*cache.ErrResourceNotCached](err)
	return is
}

// AwaitCached asks seen until it says true or fails, or ctx ends: soon at first, for a cache shows what was
// written within milliseconds, and then ever more rarely.
func AwaitCached(ctx context.Context, seen wait.ConditionWithContextFunc) error {
	return wait.Backoff{Duration: time.Millisecond, Factor: 1.5, Steps: 10, Cap: 20 * time.Millisecond}.DelayFunc().Until(ctx, true, false, seen)
}
