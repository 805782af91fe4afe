package infer

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestReaches(t *testing.T) {
	for _, c := range []struct {
		kind, path string // after an @, where that is mounted
		open       bool
		want       string
	}{
		{"Deployment", "spec.replicas", false, ""},
		{"Deployment", "metadata.name", false, ""},
		{"Deployment", "metadata.annotations.zqkey", true, ""},
		{"Deployment", "spec.template.metadata.labels.zqkey", true, ""},
		{"Deployment", "spec.template.spec.nodeSelector.zqkey", true, ""},
		{"Deployment", "spec.template.spec.containers.[].resources.zqkey", true, ""},
		{"Deployment", "spec.template.spec.containers.[].env.[].value", false, ""},
		{"Deployment", "spec.template.spec.containers.[].env.[].valueFrom.resourceFieldRef.resource", false, ""},
		{"Deployment", "spec.template.spec.containers.[].livenessProbe.httpGet.path", false, ""},
		{"Service", "spec.zqkey", true, ""},
		{"Service", "spec.type", false, ""},
		{"ConfigMap", "data.settings", false, ""},
		{"@Secret", "data.settings", false, ""},
		{"StatefulSet", "spec.volumeClaimTemplates.[].spec.resources.requests.storage", false, ""},

		{"Deployment", "spec.template.spec.containers.[].image", false, "an image"},
		{"CronJob", "spec.jobTemplate.spec.template.spec.initContainers.[].image", false, "an image"},
		{"Prometheus", "spec.image", false, "an image"},
		{"Deployment", "spec.template.spec.containers.[].args.[]", false, "a command"},
		{"Deployment", "spec.template.spec.containers.[].livenessProbe.exec.command.[]", false, "a command"},
		{"Deployment", "spec.template.spec.containers.[].livenessProbe.httpGet.host", false, "its pods' spec.containers.[].livenessProbe.httpGet.host"},
		{"Deployment", "spec.template.spec.containers.[].livenessProbe.zqkey", true, "its pods' spec.containers.[].livenessProbe"},
		{"ConfigMap", "data.run.sh", false, "a command"},
		{"ConfigMap", "data.script", false, "a command"},
		{"ConfigMap", "data.zqkey", true, "a command"},
		{"Secret", "stringData.zqkey", true, "a command"},
		{"ConfigMap", "binaryData.run.sh", false, "a command"},
		{"Secret", "data.app.conf", false, "a configuration file"},
		{"ConfigMap", "data.app.conf", false, "a configuration file"},
		{"@ConfigMap", "data.settings", false, "a configuration file"},
		{"Deployment", "spec.template.spec.serviceAccountName", false, "a service account"},
		{"ServiceAccount", "metadata.name", false, "a service account"},
		{"RoleBinding", "subjects.[].name", false, "a service account"},
		{"Role", "rules.zqkey", true, "a service account"},
		{"Deployment", "spec.template.spec.volumes.[].zqkey", true, "a volume"},
		{"Deployment", "spec.template.spec.volumes.[].hostPath.path", false, "a volume"},
		{"StatefulSet", "spec.volumeClaimTemplates.[].zqkey", true, "a volume"},
		{"PersistentVolumeClaim", "spec.volumeName", false, "a volume"},
		{"Deployment", "spec.template.spec.securityContext.zqkey", true, "a security context"},
		{"Deployment", "spec.template.spec.hostNetwork", false, "the node"},
		{"Deployment", "spec.template.spec.containers.[].ports.[].hostPort", false, "the node"},
		{"Deployment", "spec.template.spec.containers.[].env.[].zqkey", true, "the environment, and so any Secret"},
		{"Deployment", "spec.template.spec.containers.[].env.[].valueFrom.secretKeyRef.name", false, "the environment, and so any Secret"},
		{"Deployment", "spec.template.spec.priorityClassName", false, "its pods' spec.priorityClassName"},
		{"Deployment", "spec.template.spec.zqkey", true, "its pods' spec"},
		{"Deployment", "spec.zqkey", true, "all of its pods"},
		{"CronJob", "spec.jobTemplate.zqkey", true, "all of its pods"},
		{"CronJob", "spec.jobTemplate.spec.zqkey", true, "all of its pods"},
		{"CronJob", "spec.jobTemplate.metadata.labels.zqkey", true, ""},
		{"Deployment", "spec.strategy.rollingUpdate.zqkey", true, ""},
		{"Rollout", "spec.zqkey", true, "all of its pods"},
		{"Rollout", "spec.template.spec.containers.[].command.[]", false, "a command"},
		{"Rollout", "spec.template.spec.priorityClassName", false, "its pods' spec.priorityClassName"},
		{"Rollout", "spec.template.metadata.labels.zqkey", true, ""},
		{"Prometheus", "spec.containers.[].zqkey", true, "a command"},
		{"ScaledJob", "spec.jobTargetRef.template.zqkey", true, "a command"},
		{"Deployment", "zqkey", true, "an extra object"},
		{"zqmark", "kind", false, "an extra object"},
		{"Service", "metadata.namespace", false, "another namespace"},
		{"Service", "metadata.ownerReferences.[].zqkey", true, "an owner"},
		{"Service", "metadata.zqkey", true, "an owner"},
	} {
		kind, mounted := strings.CutPrefix(c.kind, "@")
		object := &unstructured.Unstructured{Object: map[string]any{"kind": kind, "data": map[string]any{"script": "#!/bin/sh\n" + markText, "settings": markText, "app.conf": wild + "\n"}}}
		if kind == "Rollout" {
			object.Object["spec"] = map[string]any{"template": map[string]any{"spec": map[string]any{}}}
		}
		path := strings.Split(c.path, ".")
		if slices.Contains([]string{"data", "stringData", "binaryData"}, path[0]) {
			path = strings.SplitN(c.path, ".", 2)
		}
		text, _, _ := unstructured.NestedString(object.Object, path...)
		if got := reaches(place{object: object, path: path, text: text, open: c.open, mounted: mounted}); got != c.want {
			t.Errorf("%s of a %s, open %v: reaches %q, want %q", c.path, c.kind, c.open, got, c.want)
		}
	}
}
