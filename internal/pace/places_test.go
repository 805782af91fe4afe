package pace

import (
	"fmt"
	"testing"
)

// One of each namespace, and no more than so many.
func TestPlaces(t *testing.T) {
	const all = 8
	places := NewPlaces(1, all)
	if !places.Take("a") || places.Take("a") {
		t.Error("a namespace has not one place")
	}
	for i := range all - 1 {
		if !places.Take(fmt.Sprint(i)) {
			t.Errorf("no place for namespace %d", i)
		}
	}
	if places.Take("b") {
		t.Errorf("there are more than %d places", all)
	}
	places.Give("a")
	if !places.Take("b") {
		t.Error("a place that is given back is gone")
	}
}
