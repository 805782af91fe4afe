package e2e

import (
	"testing"
	"time"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// Under load a page gets more pods, and afterwards loses them: by the chart's own HorizontalPodAutoscaler, which sets
// the replicas of the Deployment, and which the operator leaves alone; and by a HorizontalPodAutoscaler of the Welcome,
// which the operator follows. No request fails meanwhile.
func TestAutoscaling(t *testing.T) {
	s := newScene(t)
	if _, err := kubectl("", "get", "--raw", "/apis/metrics.k8s.io/v1beta1"); err != nil && apiProxy != "" {
		t.Skip("this cluster serves no metrics of pods: ", err)
	}
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
		s.awaitWithin(4*time.Minute, "more pods of "+name+" are ready", func() error { return s.countPods("welcome="+name, func(pods, ready int) bool { return ready > 1 }) })
	}
	for _, v := range visitors {
		v.stop(s)
	}
	for _, name := range names {
		// Kubernetes scales down five minutes after the load has ended.
		s.awaitWithin(8*time.Minute, "there is one pod of "+name, func() error {
			return s.countPods("welcome="+name, func(pods, ready int) bool { return pods == 1 && ready == 1 })
		})
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

// writtenByTheOperator is when the operator last wrote the spec of a page's Deployment, and the revision at
// that time.
func (s *scene) writtenByTheOperator(page string) string {
	s.Helper()
	when := s.kubectl("get", "deployment", page, "--show-managed-fields", `--output=jsonpath={.metadata.managedFields[?(@.manager=="welcome-operator")].time}`)
	if when == "" {
		s.Fatal("the operator has written nothing")
	}
	return when + " revision " + s.kubectl("get", "welcome", page, "--output=jsonpath={.status.release.revision}")
}
