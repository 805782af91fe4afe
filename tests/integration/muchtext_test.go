package integration

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// Who has much to say in an object of a namespace fills neither the memory of the operator, nor its log and events, with it.
func TestMuchTextOfOthers(t *testing.T) {
	s := newScene(t)
	const much = 300_000
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, fmt.Sprintf(`
{{- if eq .Values.name "much" }}
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}, labels: {long: {{ repeat %d "x" }}}}
{{- end }}`, much))})
	theirs := &corev1.Service{ObjectMeta: objectMeta(s.namespace, "hello"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	yes := true
	theirs.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Unheard", Name: strings.Repeat("\x7f", much), UID: "of", Controller: &yes}}
	s.must(env.Client.Create(ctx, theirs))
	s.create("hello")
	s.awaitReason("hello", "ObjectInTheWay", "Service", "Unheard", "delete or rename one of the two")
	s.must(env.Client.Delete(ctx, theirs))
	s.awaitDeployed("hello")

	s.edit("hello", kit.Set("podAnnotations", map[string]any{"one": "two"}))
	s.await("the pods have an annotation", func() error {
		return s.ofDeployment(func(d *appsv1.Deployment) bool { return d.Spec.Template.Annotations["one"] == "two" })
	})
	s.settled(operator)
	deployment := &appsv1.Deployment{}
	s.as("other", deployment, func() {
		for i := range 3000 {
			deployment.Spec.Template.Annotations[fmt.Sprintf("example.com/a%d", i)] = ""
		}
	})
	s.awaitEvent("hello", "DriftCorrected", "spec.template.metadata.annotations.example.com/a0, ", `more, which was changed by field manager "other"`)

	s.edit("hello", kit.Greet("much"))
	s.awaitReason("hello", "Rejected", "is invalid", " … ")

	events := &corev1.EventList{}
	s.must(env.Client.List(ctx, events, client.InNamespace(s.namespace)))
	for _, event := range events.Items {
		if len(event.Message) > 1024 {
			s.Errorf("event %s has %d bytes", event.Reason, len(event.Message))
		}
	}
	log, err := os.Open(operator.Log)
	s.must(err)
	defer func() { _ = log.Close() }()
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 64<<10)
	for lines.Scan() {
		continue
	}
	if err := lines.Err(); err != nil {
		t.Errorf("a line of its log: %v", err)
	}
}
