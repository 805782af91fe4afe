package integration

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// A finalizer that the chart sets is added, put back and dropped like all else that it says. Those of others
// stay, and cost nothing. What is being deleted gets none: the API server would refuse it.
func TestFinalizersOfAChart(t *testing.T) {
	const charts, theirs, another = "example.com/the-charts", "example.com/theirs", "example.com/another"
	s := newScene(t)
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, `
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}
  {{- if ne .Values.name "without" }}
  finalizers: [`+charts+`]
  {{- end }}
data: {greeting: {{ .Values.name }}}`)})
	config := &corev1.ConfigMap{}
	has := func(what, greeting string, finalizers ...string) {
		t.Helper()
		s.await(what, func() error {
			if err := s.find(config, "hello"); err != nil {
				return err
			}
			if config.Data["greeting"] != greeting || !slices.Equal(config.Finalizers, finalizers) {
				return fmt.Errorf("it greets %s, and has the finalizers %v", config.Data["greeting"], config.Finalizers)
			}
			return nil
		})
		s.awaitDeployed("hello")
	}
	set := func(finalizers ...string) {
		t.Helper()
		s.as("other", config, func() { config.Finalizers = finalizers })
	}

	s.deploy("hello", kit.Greet("without"))
	set(theirs)
	s.edit("hello", kit.Greet("with"))
	has("an upgrade adds it", "with", theirs, charts)
	set(theirs)
	has("what somebody has taken off is put back", "with", theirs, charts)
	s.awaitEvent("hello", "DriftCorrected", "put back metadata.finalizers")

	s.settled(operator)
	before := s.record()
	set(charts, theirs, another)
	s.seen(operator)
	set(charts, theirs)
	s.seen(operator)
	if requests := ofDrift(before.of(operator)); len(requests) > 0 {
		t.Errorf("finalizers of others cost %s", requests)
	}

	s.must(env.Client.Delete(ctx, config))
	set(theirs)
	s.edit("hello", kit.Greet("again"))
	has("what is being deleted gets none", "again", theirs)
	set()
	has("it is made again with it", "again", charts)

	s.edit("hello", kit.Greet("without"))
	has("an upgrade drops it", "without")
	s.edit("hello", kit.Greet("with"))
	has("it is back", "with", charts)
	s.must(env.Client.Delete(ctx, config))
	s.edit("hello", kit.Greet("without"))
	has("what is being deleted loses it, and is made again", "without")
	s.delete(s.welcome("hello"))
	s.must(s.isGone(config, "hello"))
}
