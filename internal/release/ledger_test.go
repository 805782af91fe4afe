package release

import (
	"slices"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
)

func TestPagePath(t *testing.T) {
	for annotation, want := range map[string]string{"": "/", "/": "/", "/hello/": "/hello/", "hello/": "/hello/"} {
		c := &chart.Chart{Metadata: &chart.Metadata{Annotations: map[string]string{pagePathAnnotation: annotation}}}
		if got := pagePath(c); got != want {
			t.Errorf("the annotation %q makes %q, want %q", annotation, got, want)
		}
	}
	if got := pagePath(&chart.Chart{Metadata: &chart.Metadata{}}); got != "/" {
		t.Errorf("without annotations it is %q", got)
	}
}

// What a namesake has left is not forgotten when a custom resource is taken over from a stock operator, too.
func TestInheritedFromTwo(t *testing.T) {
	l := newLedger()
	l.inherit("heir", "of a namesake")
	l.inherit("heir", "of a stock operator")
	if got, want := l.inheritedBy("heir"), []string{"of a namesake", "of a stock operator"}; !slices.Equal(got, want) {
		t.Errorf("it inherits %q, not %q", got, want)
	}
	if l.forget("heir"); len(l.inheritedBy("heir")) > 0 {
		t.Error("what it inherits is kept when it is gone")
	}
}
