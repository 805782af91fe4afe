package hostile

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

// Harm lists what objects do that a Welcome must not be able to cause. They are rendered from a stored
// Welcome, or live beside it. image is the one that the operator pins. Live objects may have what the API
// server and controllers add.
func Harm(welcome *unstructured.Unstructured, objects []*unstructured.Unstructured, image string) []string {
	var harm []string
	found := func(format string, args ...any) { harm = append(harm, fmt.Sprintf(format, args...)) }

	var kinds []string
	for _, object := range objects {
		kinds = append(kinds, object.GetKind())
		if object.GetName() != welcome.GetName() || object.GetNamespace() != welcome.GetNamespace() {
			found("%s %s/%s is not named like the Welcome", object.GetKind(), object.GetNamespace(), object.GetName())
		}
		for key := range object.GetAnnotations() {
			// Helm itself writes meta.helm.sh.
			if strings.HasPrefix(key, "helm.sh/") {
				found("%s has the annotation %s, which steers Helm", object.GetKind(), key)
			}
		}
		switch object.GetKind() {
		case "Deployment":
			deployment := &appsv1.Deployment{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, deployment); err != nil {
				found("Deployment: %v", err)
				continue
			}
			harm = append(harm, podHarm(welcome, deployment, image)...)
		case "Service":
			service := &corev1.Service{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, service); err != nil {
				found("Service: %v", err)
				continue
			}
			if want := selector(welcome); !maps.Equal(service.Spec.Selector, want) {
				found("Service selects %v and not %v", service.Spec.Selector, want)
			}
			if len(service.Spec.ExternalIPs) > 0 || service.Spec.ExternalName != "" || service.Spec.LoadBalancerIP != "" {
				found("Service claims addresses: %+v", service.Spec)
			}
		}
	}
	slices.Sort(kinds)
	if want := expectedKinds(welcome); !slices.Equal(kinds, want) {
		found("objects are %v and not %v", kinds, want)
	}
	return harm
}

func podHarm(welcome *unstructured.Unstructured, deployment *appsv1.Deployment, image string) []string {
	var harm []string
	must := func(ok bool, format string, args ...any) {
		if !ok {
			harm = append(harm, fmt.Sprintf(format, args...))
		}
	}
	want := selector(welcome)
	must(maps.Equal(deployment.Spec.Selector.MatchLabels, want), "Deployment selects %v and not %v", deployment.Spec.Selector.MatchLabels, want)
	for key, value := range want {
		must(deployment.Spec.Template.Labels[key] == value, "pods have the label %s: %q and not %q", key, deployment.Spec.Template.Labels[key], value)
	}
	pod := deployment.Spec.Template.Spec
	must(len(pod.Volumes) == 0 && len(pod.InitContainers) == 0, "pods have volumes or init containers")
	must(!pod.HostNetwork && !pod.HostPID && !pod.HostIPC, "pods share the node's namespaces")
	must(pod.ServiceAccountName == "" && !ptr.Deref(pod.AutomountServiceAccountToken, true), "pods have rights in the cluster")
	must(pod.SecurityContext != nil && ptr.Deref(pod.SecurityContext.RunAsNonRoot, false), "pods may run as root")
	if len(pod.Containers) != 1 {
		return append(harm, fmt.Sprintf("pods have %d containers", len(pod.Containers)))
	}
	container := pod.Containers[0]
	must(container.Image == image, "image is %q and not %q", container.Image, image)
	must(len(container.Command) == 0 && len(container.Args) == 0, "container has a command of its own")
	security := ptr.Deref(container.SecurityContext, corev1.SecurityContext{})
	must(!ptr.Deref(security.Privileged, false) && !ptr.Deref(security.AllowPrivilegeEscalation, true) &&
		ptr.Deref(security.ReadOnlyRootFilesystem, false) && security.Capabilities != nil &&
		len(security.Capabilities.Add) == 0 && slices.Equal(security.Capabilities.Drop, []corev1.Capability{"ALL"}),
		"container has more rights than it needs: %+v", security)
	// $$ is how an env value says $: a single one could read other variables.
	name, _, _ := unstructured.NestedString(welcome.Object, "spec", "name")
	greeting := corev1.EnvVar{Name: "NAME", Value: strings.ReplaceAll(name, "$", "$$")}
	must(len(container.Env) == 5 && container.Env[0] == greeting, "page greets %+v and not %+v", container.Env, greeting)
	return harm
}

func selector(welcome *unstructured.Unstructured) map[string]string {
	return map[string]string{
		"app.kubernetes.io/name":     "welcome",
		"app.kubernetes.io/instance": welcome.GetName(),
		"welcome":                    welcome.GetName(),
	}
}

func expectedKinds(welcome *unstructured.Unstructured) []string {
	kinds := []string{"Deployment", "Service"}
	for field, kind := range map[string]string{
		"autoscaling": "HorizontalPodAutoscaler", "ingress": "Ingress", "networkPolicy": "NetworkPolicy", "podDisruptionBudget": "PodDisruptionBudget",
	} {
		if enabled, _, _ := unstructured.NestedBool(welcome.Object, "spec", field, "enabled"); enabled {
			kinds = append(kinds, kind)
		}
	}
	slices.Sort(kinds)
	return kinds
}
