package object

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// PodsOf is the path of the pod template in objects of a kind.
var PodsOf = map[string][]string{
	"Pod": {}, "PodTemplate": {"template"},
	"Deployment": {"spec", "template"}, "StatefulSet": {"spec", "template"}, "DaemonSet": {"spec", "template"}, "ReplicaSet": {"spec", "template"},
	"ReplicationController": {"spec", "template"}, "Job": {"spec", "template"}, "CronJob": {"spec", "jobTemplate", "spec", "template"},
}

// PodWords are the words that Allow.Pods must have for the pods of an object. The policy in config/policy has
// the same rules.
func PodWords(o *unstructured.Unstructured) []string {
	template, hasPods := PodsOf[o.GetKind()]
	if !hasPods {
		return nil
	}
	spec, _, _ := unstructured.NestedMap(o.Object, append(slices.Clone(template), "spec")...)
	pod := &corev1.PodSpec{}
	if runtime.DefaultUnstructuredConverter.FromUnstructured(spec, pod) != nil {
		return nil // the API server refuses it, too
	}
	var words []string
	need := func(word string, needed bool) {
		if needed && !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	isNone := func(account string) bool { return account == "" || account == "default" }
	need(PodServiceAccounts, !isNone(pod.ServiceAccountName) || !isNone(pod.DeprecatedServiceAccount))
	need(PodSecrets, len(pod.ImagePullSecrets) > 0)
	need(PodHost, pod.HostNetwork || pod.HostPID || pod.HostIPC)
	for _, volume := range pod.Volumes {
		need(PodSecrets, volume.Secret != nil)
		if volume.Projected != nil {
			for _, source := range volume.Projected.Sources {
				need(PodSecrets, source.Secret != nil)
				need(PodServiceAccounts, source.ServiceAccountToken != nil)
			}
		}
		need(PodHost, volume.ConfigMap == nil && volume.DownwardAPI == nil && volume.EmptyDir == nil && volume.Ephemeral == nil && volume.Image == nil &&
			volume.PersistentVolumeClaim == nil && volume.Projected == nil && volume.Secret == nil)
	}
	for _, container := range slices.Concat(pod.Containers, pod.InitContainers) {
		need(PodSecrets, slices.ContainsFunc(container.EnvFrom, func(e corev1.EnvFromSource) bool { return e.SecretRef != nil }) ||
			slices.ContainsFunc(container.Env, func(e corev1.EnvVar) bool { return e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil }))
		need(PodHost, slices.ContainsFunc(container.Ports, func(p corev1.ContainerPort) bool { return p.HostPort != 0 }))
		if may := container.SecurityContext; may != nil {
			need(PodHost, may.Privileged != nil && *may.Privileged ||
				may.Capabilities != nil && slices.ContainsFunc(may.Capabilities.Add, func(c corev1.Capability) bool { return c != "NET_BIND_SERVICE" }))
		}
	}
	return words
}
