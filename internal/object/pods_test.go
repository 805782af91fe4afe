package object

import (
	"strings"
	"testing"
)

func TestPodWords(t *testing.T) {
	for name, c := range map[string]struct{ kind, pod, want string }{
		"nothing":             {"Deployment", "{containers: [{name: a, image: a}], serviceAccountName: default, volumes: [{emptyDir: {}}, {configMap: {name: a}}]}", ""},
		"its own account":     {"Deployment", "{serviceAccountName: a}", "serviceAccounts"},
		"account of old":      {"StatefulSet", "{serviceAccount: a}", "serviceAccounts"},
		"token in a volume":   {"DaemonSet", "{volumes: [{projected: {sources: [{serviceAccountToken: {path: a}}]}}]}", "serviceAccounts"},
		"pull secret":         {"Job", "{imagePullSecrets: [{name: a}]}", "secrets"},
		"Secret in a volume":  {"Deployment", "{volumes: [{name: a, secret: {secretName: a}}]}", "secrets"},
		"Secret among others": {"Deployment", "{volumes: [{projected: {sources: [{configMap: {name: a}}, {secret: {name: a}}]}}]}", "secrets"},
		"Secret in a value":   {"Deployment", "{containers: [{env: [{name: a, valueFrom: {secretKeyRef: {name: a, key: b}}}]}]}", "secrets"},
		"Secret of values":    {"Deployment", "{initContainers: [{envFrom: [{secretRef: {name: a}}]}]}", "secrets"},
		"network of the node": {"DaemonSet", "{hostNetwork: true}", "host"},
		"files of the node":   {"DaemonSet", "{volumes: [{hostPath: {path: /}}]}", "host"},
		"port of the node":    {"Deployment", "{containers: [{ports: [{containerPort: 1}, {containerPort: 2, hostPort: 2}]}]}", "host"},
		"privileged":          {"Deployment", "{containers: [{securityContext: {privileged: true}}]}", "host"},
		"capability":          {"Deployment", "{containers: [{securityContext: {capabilities: {drop: [ALL], add: [NET_BIND_SERVICE, SYS_ADMIN]}}}]}", "host"},
		"harmless capability": {"Deployment", "{containers: [{securityContext: {privileged: false, capabilities: {add: [NET_BIND_SERVICE]}}}]}", ""},
		"two words":           {"Deployment", "{hostPID: true, serviceAccountName: a, volumes: [{nfs: {server: a, path: a}}]}", "serviceAccounts host"},
		"no pods":             {"Service", "{hostNetwork: true}", ""},
		"no spec of a pod":    {"Deployment", "{containers: many}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			object := parse(t, "{apiVersion: v1, kind: "+c.kind+", spec: {template: {spec: "+c.pod+"}}}")
			if got := strings.Join(PodWords(object), " "); got != c.want {
				t.Errorf("%q, not %q", got, c.want)
			}
		})
	}
	for _, of := range []string{"{kind: Pod, spec: {hostIPC: true}}", "{kind: PodTemplate, template: {spec: {hostIPC: true}}}", "{kind: CronJob, spec: {jobTemplate: {spec: {template: {spec: {hostIPC: true}}}}}}"} {
		if got := PodWords(parse(t, of)); len(got) != 1 || got[0] != PodHost {
			t.Errorf("%s needs %q", of, got)
		}
	}
}
