package release

import (
	"fmt"
	"testing"
)

// One of each namespace, and no more than so many.
func TestPlacesOfTests(t *testing.T) {
	places := newPlaces(1, maxTests)
	if !places.take("a") || places.take("a") {
		t.Error("a namespace has not one place")
	}
	for i := range maxTests - 1 {
		if !places.take(fmt.Sprint(i)) {
			t.Errorf("no place for namespace %d", i)
		}
	}
	if places.take("b") {
		t.Errorf("there are more than %d places", maxTests)
	}
	places.give("a")
	if !places.take("b") {
		t.Error("a place that is given back is gone")
	}
}
