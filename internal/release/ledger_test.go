package release

import (
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
