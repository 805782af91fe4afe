package operator

import (
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/internal/release"
)

// anybody stands for a custom resource with an empty spec. Its namespace and name are found again, since they
// are part of no other word.
var anybody = &metav1.ObjectMeta{Namespace: "some-namespace", Name: "some-name"}

// allowances are the lines that an entry of the watches file lacks to allow what its chart makes with an empty
// spec, and, as an error, what takes more than a line.
func (e Entry) allowances(objects []*unstructured.Unstructured) (lines []string, more error) {
	makesSecrets := slices.ContainsFunc(objects, object.IsSecret)
	if makesSecrets && !e.Secrets {
		lines = append(lines, "secrets: true")
	}
	allow, more := e.Allow.ForChart(anybody, objects, makesSecrets || e.Secrets)
	if allow.String() != e.Allow.String() {
		lines = append(lines, allow.String())
	}
	return lines, more
}

// tellAllowances logs the lines that entries lack, ready to be pasted. Each chart is rendered in a goroutine:
// one that never ends, or panics, keeps nothing from being served. Options that are off by default may need
// more, which the author of a custom resource is told when that is refused.
func tellAllowances(log logr.Logger, mapper meta.RESTMapper, entries []Entry, capabilities *release.Capabilities) {
	for _, entry := range entries {
		log := log.WithValues("entry", entry.place.number, "kind", entry.Kind)
		go func() {
			defer func() { _ = recover() }() // each custom resource shows it
			objects, err := capabilities.Made(mapper, anybody, entry.Chart, entry.OverrideValues, map[string]any{})
			if err != nil {
				if entry.Secrets {
					err = object.DiscreetRendering(err)
				}
				log.Info(release.NothingOwn, "why", err.Error())
				return
			}
			lines, more := entry.allowances(objects)
			for _, line := range lines {
				log.Info("The chart makes more than its entry of the watches file allows (pods are bounded where config/policy is applied): put this line into the entry, or in the place of the one of that name", "line", line)
			}
			if more != nil {
				for why := range strings.SplitSeq(more.Error(), "\n") {
					log.Info("The chart makes what no line of its entry of the watches file allows by itself", "why", why)
				}
			}
		}()
	}
}
