package release

import (
	"fmt"
	"testing"
)

// One of each namespace, and no more than so many.
func TestPlacesOfTests(t *testing.T) {
	places := newTestPlaces()
	if !places.begin("a") || places.begin("a") {
		t.Error("a namespace has not one place")
	}
	for i := range maxTests - 1 {
		if !places.begin(fmt.Sprint(i)) {
			t.Errorf("no place for namespace %d", i)
		}
	}
	if places.begin("b") {
		t.Errorf("there are more than %d places", maxTests)
	}
	places.end("a")
	if !places.begin("b") {
		t.Error("a place that is given back is gone")
	}
}
