package e2e

import (
	"fmt"
	"testing"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// A page that has much to do gets more pods, and loses them when it has little to do again: by the chart's own HorizontalPodAutoscaler, which sets the replicas of the
// Deployment, where the operator does not interfere; and by one that somebody made for the Welcome, which the operator follows. Nobody who asks is turned away meanwhile.
func TestAutoscaling(t *testing.T) {
	s := newScene(t)
	small := []kit.Edit{kit.Set("resources.requests.cpu", "10m")}
	s.welcome("chart", append(small, kit.Set("autoscaling.enabled", true), kit.Set("autoscaling.maxReplicas", 3))...)
	s.welcome("welcome", small...)
	s.awaitReady("chart")
	s.awaitReady("welcome")
	_, err := s.tryKubectl(autoscalerOfAWelcome, "apply", "--filename=-")
	s.must(err)
	before := s.writtenByTheOperator("chart")

	names := []string{"chart", "welcome"}
	for _, name := range names {
		s.awaitPage(s.url(name), "Hello")
	}
	var visitors, few []*traffic
	for _, name := range names {
		few = append(few, s.traffic(s.url(name), 5))
		visitors = append(visitors, s.traffic(s.url(name), 200))
	}
	for _, name := range names {
		s.await("there are more pods of "+name, func() error { return s.hasReady(name, func(pods int) bool { return pods > 1 }) })
	}
	for _, v := range visitors {
		v.stop(s)
	}
	for _, name := range names {
		s.await("there is one pod of "+name, func() error { return s.hasReady(name, func(pods int) bool { return pods == 1 }) })
	}
	for _, f := range few {
		f.stop(s)
	}
	if after := s.writtenByTheOperator("chart"); after != before {
		t.Errorf("what the operator wrote changed while the autoscaler was at work:\nfrom %s\nto   %s", before, after)
	}
}

const autoscalerOfAWelcome = `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: of-a-welcome}
spec:
  scaleTargetRef: {apiVersion: webapp.demo.welcome.domain/v1, kind: Welcome, name: welcome}
  minReplicas: 1
  maxReplicas: 3
  metrics:
  - type: Resource
    resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}
`

// hasReady is an error unless the number of ready pods of a page is right.
func (s *scene) hasReady(page string, right func(pods int) bool) error {
	ready, err := s.tryKubectl("", "get", "pods", "--selector=welcome="+page, `--output=jsonpath={range .items[*]}{.status.conditions[?(@.type=="Ready")].status}{"\n"}{end}`)
	if err == nil && !right(len(lines(ready))) {
		autoscalers, _ := s.tryKubectl("", "get", "horizontalpodautoscalers") // for the message
		err = fmt.Errorf("they are %q\n%s", ready, autoscalers)
	}
	return err
}

// writtenByTheOperator is when the operator last wrote the spec of a page's Deployment, and in which revision.
func (s *scene) writtenByTheOperator(page string) string {
	s.Helper()
	return s.kubectl("get", "deployment", page, "--show-managed-fields", `--output=jsonpath={.metadata.managedFields[?(@.manager=="welcome-operator")].time}`) + " revision " +
		s.kubectl("get", "welcome", page, "--output=jsonpath={.status.release.revision}")
}
