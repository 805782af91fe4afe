package release

import (
	"fmt"
	"testing"
)

// One of each namespace, and no more than so many.
func TestPlacesOfTests(t *testing.T) {
	places := NewPlaces(1, maxTests)
	if !places.Take("a") || places.Take("a") {
		t.Error("a namespace has not one place")
	}
	for i := range maxTests - 1 {
		if !places.Take(fmt.Sprint(i)) {
			t.Errorf("no place for namespace %d", i)
		}
	}
	if places.Take("b") {
		t.Errorf("there are more than %d places", maxTests)
	}
	places.Give("a")
	if !places.Take("b") {
		t.Error("a place that is given back is gone")
	}
}
