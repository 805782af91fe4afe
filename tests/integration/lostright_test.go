package integration

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

const aCronJob = `
apiVersion: batch/v1
kind: CronJob
metadata:
  name: {{ .Release.Name }}
  {{- if eq .Release.Name "kept" }}
  annotations: {helm.sh/resource-policy: keep}
  {{- end }}
spec:
  schedule: "0 0 1 1 *"
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers: [{name: yearly, image: example.com/yearly:1}]`

// A right that goes together with a template, as make manifests has it, leaves no object behind: the upgrade
// waits for the right, and what was there serves on.
func TestRightThatGoesWithATemplate(t *testing.T) {
	s := newScene(t)
	s.grantJobs()
	first := s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, aCronJob)})
	s.deploy("hello", kit.Greet("before"))
	s.deploy("going")
	s.deploy("kept")
	s.settled(first)
	first.Stop()
	s.must(env.Client.Delete(ctx, &rbacv1.RoleBinding{ObjectMeta: objectMeta(s.namespace, "jobs")}))

	second := s.ownOperator(settings{namespaces: []string{s.namespace}})
	s.edit("hello", kit.Greet("after"))
	s.awaitReason("hello", "Forbidden", `CronJob "hello"`, "right back until that is done", "docs/upgrade.md")
	s.awaitGreeting("hello", "before")
	s.get(&batchv1.CronJob{}, "hello")

	// What is kept stops nothing, nor does a deletion wait: the garbage collector has what is owned.
	s.edit("kept", kit.Greet("after"))
	s.awaitDeployed("kept")
	s.awaitGreeting("kept", "after")
	s.delete(s.welcome("going"))

	s.must(env.Client.Delete(ctx, &rbacv1.Role{ObjectMeta: objectMeta(s.namespace, "jobs")}))
	s.grantJobs()
	s.awaitDeployed("hello")
	s.awaitGreeting("hello", "after")
	s.awaitGone(&batchv1.CronJob{}, "hello")
	s.settled(second)
}
