package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// admissionLets checks by dry runs, in each namespace with custom resources, that the API server admits what
// the operator creates.
func admissionLets(ctx context.Context, p *patient) (string, []finding, error) {
	in := map[string]bool{}
	for i := range p.customResources {
		in[p.customResources[i].GetNamespace()] = true
	}
	found, err := p.deadWebhooks(ctx)
	if err != nil {
		return "", nil, err
	}
	namespaces := slices.Sorted(maps.Keys(in))
	refusals, unasked, ending := make([]error, len(namespaces)), make([]error, len(namespaces)), make([]bool, len(namespaces))
	if err := each(ctx, len(namespaces), func(ctx context.Context, i int) error {
		for _, object := range samples(namespaces[i], p.image()) {
			err := p.Create(ctx, object, client.DryRunAll)
			if ending[i] = apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause); ending[i] { // the operator makes nothing there either
				return nil
			}
			if isNoRight(err) || isTemporary(err) && !isOfWebhook(err) {
				unasked[i] = errors.Join(unasked[i], err)
			} else {
				refusals[i] = errors.Join(refusals[i], err)
			}
		}
		return nil
	}); err != nil {
		return "", nil, err
	}
	pass := 0
	for i := range namespaces {
		if refusals[i] == nil && unasked[i] == nil && !ending[i] {
			pass++
		}
	}
	by := byText(refusals, namespaces)
	for _, refusal := range slices.Sorted(maps.Keys(by)) {
		found = append(found, finding{fmt.Sprintf("in namespace %s, the API server refuses a dry run of what operators make: %s", few(by[refusal]), refusal),
			"have whoever owns the policy, webhook or quota that is named let it pass; all there are: kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations,validatingadmissionpolicies,resourcequotas -A"})
	}
	unknown := p.unlisted
	by = byText(unasked, namespaces)
	for _, why := range slices.Sorted(maps.Keys(by)) {
		unknown = errors.Join(unknown, fmt.Errorf("in namespace %s, no dry run of what operators make could be made: %s", few(by[why]), why))
	}
	return "a ConfigMap, a Service and a Deployment pass in " + counted(pass, "namespace"), found, unknown
}

// isOfWebhook is whether an answer is that of a webhook, or that it does not answer: it hits the operator, too.
func isOfWebhook(err error) bool { return strings.Contains(err.Error(), `webhook "`) }

// byText are the namespaces of errors that differ in nothing but the namespace.
func byText(errs []error, namespaces []string) map[string][]string {
	by := map[string][]string{}
	for i, err := range errs {
		if err != nil {
			text := strings.ReplaceAll(err.Error(), namespaces[i], "NAMESPACE")
			by[text] = append(by[text], namespaces[i])
		}
	}
	return by
}

// image is one that an operator deploys or, where its Deployment names none, its own: policies may name the
// registries that images come from.
func (p *patient) image() string {
	image := "welcome-doctor:v1"
	for _, o := range p.operators {
		image = cmp.Or(o.manager().Image, image)
		for _, variable := range o.manager().Env {
			if strings.HasPrefix(variable.Name, "RELATED_IMAGE_") && variable.Value != "" {
				return variable.Value
			}
		}
	}
	return image
}

// samples are objects as the operator creates them: a Deployment has what the chart's has, as policies ask for limits,
// probes and the like.
func samples(namespace, image string) []client.Object {
	labels := map[string]string{"app.kubernetes.io/name": "welcome-doctor", "app.kubernetes.io/instance": "welcome-doctor"}
	name, selector := metav1.ObjectMeta{Namespace: namespace, GenerateName: "welcome-doctor-", Labels: labels}, &metav1.LabelSelector{MatchLabels: labels}
	probe := func(path string, period, failures int32) *corev1.Probe {
		return &corev1.Probe{PeriodSeconds: period, FailureThreshold: failures, ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString("http")}}}
	}
	return []client.Object{
		&corev1.ConfigMap{ObjectMeta: name},
		&corev1.Service{ObjectMeta: name, Spec: corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Port: 8080}}}},
		&appsv1.Deployment{ObjectMeta: name, Spec: appsv1.DeploymentSpec{Selector: selector, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{
				AutomountServiceAccountToken: new(false), EnableServiceLinks: new(false),
				SecurityContext:           &corev1.PodSecurityContext{RunAsNonRoot: new(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
				TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: selector}},
				Containers: []corev1.Container{{
					Name: "doctor", Image: image, ImagePullPolicy: corev1.PullIfNotPresent,
					Ports:        []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}},
					StartupProbe: probe("/healthz", 1, 60), ReadinessProbe: probe("/readyz", 5, 0), LivenessProbe: probe("/healthz", 10, 0),
					Resources: corev1.ResourceRequirements{
						Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("32Mi")},
						Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")},
					},
					SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
				}},
			},
		}}},
	}
}

// deadWebhooks are webhooks without a ready endpoint that make the API server refuse something that an
// operator writes.
func (p *patient) deadWebhooks(ctx context.Context) (found []finding, err error) {
	validating, mutating := &admissionregistrationv1.ValidatingWebhookConfigurationList{}, &admissionregistrationv1.MutatingWebhookConfigurationList{}
	if err := errors.Join(p.List(ctx, validating), p.List(ctx, mutating)); err != nil {
		return nil, err
	}
	type webhook struct {
		kind, configuration, name string
		rules                     []admissionregistrationv1.RuleWithOperations
		policy                    *admissionregistrationv1.FailurePolicyType
		service                   *admissionregistrationv1.ServiceReference
	}
	var webhooks []webhook
	for _, c := range validating.Items {
		for _, w := range c.Webhooks {
			webhooks = append(webhooks, webhook{"validatingwebhookconfiguration", c.Name, w.Name, w.Rules, w.FailurePolicy, w.ClientConfig.Service})
		}
	}
	for _, c := range mutating.Items {
		for _, w := range c.Webhooks {
			webhooks = append(webhooks, webhook{"mutatingwebhookconfiguration", c.Name, w.Name, w.Rules, w.FailurePolicy, w.ClientConfig.Service})
		}
	}
	var rights []rbacv1.PolicyRule
	for _, need := range p.needs {
		rights = append(rights, rightsIn(need)...)
	}
	for _, w := range webhooks {
		if w.service == nil || w.policy != nil && *w.policy == admissionregistrationv1.Ignore || !areJudged(rights, w.rules) {
			continue
		}
		endpoints := &discoveryv1.EndpointSliceList{}
		if err := p.List(ctx, endpoints, client.InNamespace(w.service.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: w.service.Name}); err != nil {
			return nil, err
		}
		if !answers(endpoints.Items) {
			found = append(found, finding{fmt.Sprintf("webhook %s of %s/%s has no pod that answers (service %s/%s): the API server refuses all that it is to judge", w.name, w.kind, w.configuration, w.service.Namespace, w.service.Name),
				fmt.Sprintf("start what answers (kubectl -n %s get pods), or kubectl delete %s %s, with all its webhooks", w.service.Namespace, w.kind, w.configuration)})
		}
	}
	return found, nil
}

// areJudged is whether a webhook's rules match something that operators have rights on: what they write, and
// the pods that come of it.
func areJudged(rights []rbacv1.PolicyRule, rules []admissionregistrationv1.RuleWithOperations) bool {
	return slices.ContainsFunc(rights, func(right rbacv1.PolicyRule) bool {
		return slices.ContainsFunc(rules, func(rule admissionregistrationv1.RuleWithOperations) bool {
			return haveCommon(rule.APIGroups, right.APIGroups) && haveCommon(rule.Resources, right.Resources)
		})
	})
}

// haveCommon is whether a webhook's groups or resources, of which "*" means all, include one of ours.
// Subresources are ignored.
func haveCommon(judged, ours []string) bool {
	return slices.ContainsFunc(judged, func(word string) bool {
		word, _, _ = strings.Cut(word, "/")
		return word == "*" || slices.ContainsFunc(ours, func(our string) bool {
			our, _, _ = strings.Cut(our, "/")
			return word == our
		})
	})
}

func answers(all []discoveryv1.EndpointSlice) bool {
	for _, slice := range all {
		for _, endpoint := range slice.Endpoints {
			if endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready {
				return true
			}
		}
	}
	return false
}
