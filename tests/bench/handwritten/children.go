package main

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsac "k8s.io/client-go/applyconfigurations/apps/v1"
	coreac "k8s.io/client-go/applyconfigurations/core/v1"
	metaac "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
)

// children are what the chart makes of a Welcome with its defaults.
func children(welcome *unstructured.Unstructured) []runtime.ApplyConfiguration {
	name, namespace := welcome.GetName(), welcome.GetNamespace()
	greeting, _, _ := unstructured.NestedString(welcome.Object, "spec", "name")
	serviceType, _, _ := unstructured.NestedString(welcome.Object, "spec", "service", "type")
	serviceType = cmp.Or(serviceType, string(corev1.ServiceTypeLoadBalancer))
	selector := map[string]string{"app.kubernetes.io/name": "welcome", "app.kubernetes.io/instance": name, "welcome": name}
	owner := metaac.OwnerReference().WithAPIVersion(welcome.GetAPIVersion()).WithKind(welcome.GetKind()).
		WithName(name).WithUID(welcome.GetUID()).WithController(true).WithBlockOwnerDeletion(true)

	service := coreac.Service(name, namespace).WithLabels(selector).WithOwnerReferences(owner).WithSpec(coreac.ServiceSpec().
		WithType(corev1.ServiceType(serviceType)).
		WithPorts(coreac.ServicePort().WithName("http").WithPort(8080).WithTargetPort(intstr.FromString("http")).WithProtocol(corev1.ProtocolTCP)).
		WithSelector(selector))

	container := coreac.Container().WithName("welcome").WithImage(os.Getenv("RELATED_IMAGE_WELCOME")).WithImagePullPolicy(corev1.PullIfNotPresent).
		WithEnv(
			coreac.EnvVar().WithName("NAME").WithValue(greeting),
			coreac.EnvVar().WithName("PORT").WithValue("8080"),
			coreac.EnvVar().WithName("LOG_LEVEL").WithValue("info"),
			coreac.EnvVar().WithName("POD_NAME").WithValueFrom(fromField("metadata.name")),
			coreac.EnvVar().WithName("POD_NAMESPACE").WithValueFrom(fromField("metadata.namespace"))).
		WithPorts(coreac.ContainerPort().WithName("http").WithContainerPort(8080).WithProtocol(corev1.ProtocolTCP)).
		WithStartupProbe(probe("/healthz", 1).WithFailureThreshold(60)).
		WithReadinessProbe(probe("/readyz", 5)).
		WithLivenessProbe(probe("/healthz", 10)).
		WithResources(coreac.ResourceRequirements().
			WithRequests(corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("32Mi")}).
			WithLimits(corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")})).
		WithSecurityContext(coreac.SecurityContext().WithAllowPrivilegeEscalation(false).WithReadOnlyRootFilesystem(true).
			WithCapabilities(coreac.Capabilities().WithDrop("ALL")))

	pod := coreac.PodSpec().WithAutomountServiceAccountToken(false).WithEnableServiceLinks(false).WithTerminationGracePeriodSeconds(30).
		WithSecurityContext(coreac.PodSecurityContext().WithRunAsNonRoot(true).WithRunAsUser(65532).WithRunAsGroup(65532).
			WithSeccompProfile(coreac.SeccompProfile().WithType(corev1.SeccompProfileTypeRuntimeDefault))).
		WithContainers(container).
		WithTopologySpreadConstraints(coreac.TopologySpreadConstraint().WithMaxSkew(1).WithTopologyKey("kubernetes.io/hostname").
			WithWhenUnsatisfiable(corev1.ScheduleAnyway).WithLabelSelector(metaac.LabelSelector().WithMatchLabels(selector)))

	deployment := appsac.Deployment(name, namespace).WithLabels(selector).WithOwnerReferences(owner).WithSpec(appsac.DeploymentSpec().
		WithReplicas(1).
		WithRevisionHistoryLimit(3).
		WithSelector(metaac.LabelSelector().WithMatchLabels(selector)).
		WithStrategy(appsac.DeploymentStrategy().WithType("RollingUpdate").
			WithRollingUpdate(appsac.RollingUpdateDeployment().WithMaxSurge(intstr.FromInt32(1)).WithMaxUnavailable(intstr.FromInt32(0)))).
		WithTemplate(coreac.PodTemplateSpec().WithLabels(selector).WithSpec(pod)))
	return []runtime.ApplyConfiguration{service, deployment}
}

func fromField(path string) *coreac.EnvVarSourceApplyConfiguration {
	return coreac.EnvVarSource().WithFieldRef(coreac.ObjectFieldSelector().WithFieldPath(path))
}

func probe(path string, period int32) *coreac.ProbeApplyConfiguration {
	return coreac.Probe().WithHTTPGet(coreac.HTTPGetAction().WithPath(path).WithPort(intstr.FromString("http"))).WithPeriodSeconds(period)
}

func readyWhenSynced(c cache.Cache) healthz.Checker {
	return func(request *http.Request) error {
		ctx, cancel := context.WithTimeout(request.Context(), time.Second)
		defer cancel()
		if !c.WaitForCacheSync(ctx) {
			return errors.New("caches are not filled yet")
		}
		return nil
	}
}
