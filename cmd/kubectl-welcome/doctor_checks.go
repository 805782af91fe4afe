package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/internal/object"
	boot "demo.welcome.domain/welcome-operator/internal/operator"
	"demo.welcome.domain/welcome-operator/internal/release"
	"demo.welcome.domain/welcome-operator/internal/status"
)

// clocksDiffer is the tolerated difference between the clocks of the caller and of the cluster.
const clocksDiffer = 30 * time.Second

// errNoOperator is returned by checks of operators if there is none to look at.
var errNoOperator = errors.New("there is no operator that serves these kinds as a Deployment")

// errOtherKinds is returned by checks of Welcome's CRD and rights where all operators are of other kinds.
var errOtherKinds = errors.New("the operators here serve other kinds: name the file with the CRDs and rights of these, as --files ../myapp-operator/operator.yaml")

// operatorsRun checks that there is an operator, and that all of its pods are ready.
func operatorsRun(ctx context.Context, p *patient) (string, []finding, error) {
	if len(p.operators) == 0 {
		return "", []finding{{
			"no Deployment of an operator has the label " + operatorLabel + ": none is deployed here, or a version before that label, or one that runs elsewhere (make run)",
			"make deploy, or through OLM: kubectl apply -f catalog/catalogsource.yaml -f catalog/subscription.yaml",
		}}, nil
	}
	var names []string
	var found []finding
	var unknown error
	for _, o := range p.operators {
		names, unknown = append(names, o.String()), errors.Join(unknown, o.unread)
		for _, condition := range o.Status.Conditions {
			if condition.Type == appsv1.DeploymentReplicaFailure && condition.Status == corev1.ConditionTrue {
				found = append(found, finding{o.String() + " gets no pods: " + condition.Message, "fix what the message names, then kubectl -n " + o.Namespace + " rollout restart deployment/" + o.Name})
			}
		}
		if o.refused != nil {
			found = append(found, finding{fmt.Sprintf("%s does not start with its flags and its environment: %s", o, o.refused), "fix them; if the operator has another version than this plugin (" + version + "), use the plugin of that version"})
		}
		if o.Spec.Replicas != nil && *o.Spec.Replicas == 0 {
			found = append(found, finding{o.String() + " is scaled to 0", fmt.Sprintf("kubectl -n %s scale deployment/%s --replicas=2", o.Namespace, o.Name)})
		} else if o.Status.AvailableReplicas == 0 {
			found = append(found, finding{"no pod of " + o.String() + " is available", "kubectl -n " + o.Namespace + " describe deployment/" + o.Name})
		}
		pods, err := p.pods(ctx, o)
		if err != nil {
			return "", nil, err
		}
		for _, pod := range pods {
			if problem := unready(pod); problem != "" {
				found = append(found, finding{fmt.Sprintf("pod %s of %s %s", pod.Name, o, problem), fmt.Sprintf("kubectl -n %s describe pod %s; %s", pod.Namespace, pod.Name, logsOf(pod))})
			}
		}
	}
	return strings.Join(names, ", "), found, unknown
}

// pods are the pods of an operator.
func (p *patient) pods(ctx context.Context, o operator) ([]corev1.Pod, error) {
	selector, err := metav1.LabelSelectorAsSelector(o.Spec.Selector)
	if err != nil {
		return nil, err
	}
	pods := &corev1.PodList{}
	err = p.List(ctx, pods, client.InNamespace(o.Namespace), client.MatchingLabelsSelector{Selector: selector})
	return pods.Items, err
}

// logsOf is the command that shows what a pod has logged, of its containers before if one keeps ending.
func logsOf(pod corev1.Pod) string {
	command := fmt.Sprintf("kubectl -n %s logs %s --all-containers", pod.Namespace, pod.Name)
	if slices.ContainsFunc(slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses), func(c corev1.ContainerStatus) bool {
		return c.State.Waiting != nil && c.LastTerminationState.Terminated != nil
	}) {
		command += " --previous"
	}
	return command
}

// unready says why a pod is not ready. It is empty if the pod is.
func unready(pod corev1.Pod) string {
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return "" // evicted from a node, for example: another pod is in its place
	}
	for _, container := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if waiting := container.State.Waiting; waiting != nil && !isStarting(waiting) {
			return strings.TrimSuffix(fmt.Sprintf("has no running container %q (image %s): %s: %s", container.Name, container.Image, waiting.Reason, waiting.Message), ": ")
		}
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return "has no node: " + condition.Message
		}
		if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionFalse && pod.DeletionTimestamp == nil && time.Since(condition.LastTransitionTime.Time) > time.Minute {
			return "is not ready since " + condition.LastTransitionTime.UTC().Format(time.RFC3339)
		}
	}
	return ""
}

// crdsFit checks that the CRDs are those that this plugin was built with. An older one may lack a field, and
// the API server drops what people write there.
func crdsFit(ctx context.Context, p *patient) (string, []finding, error) {
	crds, err := p.crds()
	if err != nil {
		return "", nil, err
	}
	serving, err := p.serving(crds)
	if errors.Is(err, errOtherKinds) { // Welcome's CRD would be one that nobody serves
		return "", nil, err
	}
	apply := "make install, or kubectl apply --server-side --force-conflicts -f config/crd/bases" // whoever has changed one owns fields of it
	if len(p.files) > 0 {
		apply = p.deploys(operator{})
	}
	remedy, other := apply+"; under OLM: upgrade the operator", p.otherVersion(serving...)
	var names []string
	var found []finding
	var unknown error
	for _, want := range crds {
		is := &apiextensionsv1.CustomResourceDefinition{}
		names = append(names, want.Name)
		live := object.Empty(want.GroupVersionKind())
		err := p.Get(ctx, client.ObjectKeyFromObject(want), live)
		if apierrors.IsNotFound(err) {
			found = append(found, finding{want.Name + " is not there", remedy})
			continue
		} else if err != nil {
			return "", nil, err
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, is); err != nil {
			return "", nil, err
		}
		for _, condition := range is.Status.Conditions {
			if condition.Type == apiextensionsv1.Established && condition.Status != apiextensionsv1.ConditionTrue ||
				condition.Type == apiextensionsv1.NamesAccepted && condition.Status != apiextensionsv1.ConditionTrue {
				found = append(found, finding{fmt.Sprintf("%s is not served: %s", want.Name, condition.Message), "kubectl describe crd " + want.Name})
			}
		}
		for _, wanted := range want.Spec.Versions {
			i := slices.IndexFunc(is.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == wanted.Name })
			switch {
			case i >= 0 && equality.Semantic.DeepEqual(wanted.Schema, is.Spec.Versions[i].Schema):
			case other != nil:
				unknown = other
			case i < 0:
				found = append(found, finding{fmt.Sprintf("%s has no version %s", want.Name, wanted.Name), remedy})
			default:
				found = append(found, finding{fmt.Sprintf("%s has another schema than this plugin (%s) was built with, in: %s", want.Name, version, few(differing("", wanted.Schema.OpenAPIV3Schema, is.Spec.Versions[i].Schema.OpenAPIV3Schema))),
					"if the operator has the plugin's version, " + remedy + "; else use the plugin of the operator's version"})
			}
		}
	}
	return strings.Join(names, ", "), found, unknown
}

// differing are the paths of the fields in which two schemas differ, or that only one of them has.
func differing(path string, a, b *apiextensionsv1.JSONSchemaProps) (paths []string) {
	own := func(s *apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
		c := *s
		c.Properties = nil
		return &c
	}
	if !equality.Semantic.DeepEqual(own(a), own(b)) {
		paths = append(paths, strings.TrimPrefix(path, "."))
	}
	for _, name := range union(a.Properties, b.Properties) {
		in, hasIn := a.Properties[name]
		out, hasOut := b.Properties[name]
		if hasIn && hasOut {
			paths = append(paths, differing(path+"."+name, &in, &out)...)
		} else {
			paths = append(paths, strings.TrimPrefix(path+"."+name, "."))
		}
	}
	return paths
}

// serving are the operators of the kinds of these CRDs, with new shards beside these, or, if none is known to be one, those
// of which it is not known what they serve. They are all if there are no CRDs. The error is that there are none.
func (p *patient) serving(crds []*apiextensionsv1.CustomResourceDefinition) (serving []operator, err error) {
	kinds := sets.New[schema.GroupKind]()
	for _, crd := range crds {
		kinds.Insert(schema.GroupKind{Group: crd.Spec.Group, Kind: crd.Spec.Names.Kind})
	}
	serves := func(o operator) bool { return kinds.HasAny(o.serves.UnsortedList()...) }
	known := slices.ContainsFunc(p.operators, serves)
	isNewShard := func(o operator) bool { // which has claimed nothing yet
		return o.options.Shard != "" && slices.ContainsFunc(p.operators, func(other operator) bool { return serves(other) && other.leaseNamespace() == o.leaseNamespace() })
	}
	for _, o := range p.operators {
		if len(kinds) == 0 || serves(o) || len(o.serves) == 0 && (!known || isNewShard(o)) {
			serving = append(serving, o)
		}
	}
	switch {
	case len(serving) > 0:
		return serving, nil
	case len(p.operators) > 0 && len(p.files) == 0:
		return nil, errOtherKinds
	}
	return nil, errNoOperator
}

// rightsSuffice asks the API server whether the operator has each right of config/rbac.
func rightsSuffice(ctx context.Context, p *patient) (string, []finding, error) {
	asked := 0
	var found []finding
	var unknown error
	crds, err := p.crds()
	if err != nil {
		return "", nil, err
	}
	serving, err := p.serving(crds)
	if err != nil {
		return "", nil, err
	}
	for _, o := range serving {
		var all []authorizationv1.SubjectAccessReview
		for _, need := range p.needs {
			all = append(all, questions(need, p.needs, o)...)
		}
		asked += len(all)
		err := each(ctx, len(all), func(ctx context.Context, i int) error { return p.Create(ctx, &all[i]) })
		if err != nil {
			return "", nil, err
		}
		type place struct{ what, namespace string }
		missing := map[place][]string{}
		for _, review := range all {
			if right := review.Spec.ResourceAttributes; !review.Status.Allowed {
				what := strings.TrimSuffix(strings.TrimSuffix(right.Resource+"/"+right.Subresource, "/")+"."+right.Group, ".")
				what = strings.TrimSuffix(what+" "+right.Name, " ")
				missing[place{what, right.Namespace}] = append(missing[place{what, right.Namespace}], right.Verb)
			}
		}
		if other := p.otherVersion(o); other != nil && len(missing) > 0 {
			unknown = errors.Join(unknown, other)
			continue
		}
		in := map[string][]string{} // namespaces, by what may not be done there
		for at, verbs := range missing {
			what := strings.Join(verbs, ", ") + " " + at.what
			in[what] = append(in[what], at.namespace)
		}
		for _, what := range slices.Sorted(maps.Keys(in)) {
			where := " in all namespaces"
			if namespaces := slices.Sorted(slices.Values(in[what])); namespaces[0] != metav1.NamespaceAll {
				where = " in namespace " + few(namespaces)
			}
			found = append(found, finding{
				fmt.Sprintf("%s may not %s%s", o.account(), what, where),
				fmt.Sprintf("%s puts it back; under OLM: kubectl -n %s describe csv; which rights it has: kubectl auth can-i --list --as=%s", p.deploys(o), o.Namespace, o.account()),
			})
		}
	}
	return fmt.Sprintf("%d asked for", asked), found, unknown
}

// rightsIn are the rules of a role. Other objects have none.
func rightsIn(role *unstructured.Unstructured) []rbacv1.PolicyRule {
	typed := &rbacv1.ClusterRole{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(role.Object, typed); err != nil {
		return nil // the API server has accepted the same text, so that this is not reached
	}
	return typed.Rules
}

// questions are one for each right of a role, and each namespace that it is needed in. There are none if no
// binding in needs refers to the role.
func questions(role *unstructured.Unstructured, needs []*unstructured.Unstructured, o operator) (reviews []authorizationv1.SubjectAccessReview) {
	bound := slices.ContainsFunc(needs, func(binding *unstructured.Unstructured) bool {
		kind, _, _ := unstructured.NestedString(binding.Object, "roleRef", "kind")
		name, _, _ := unstructured.NestedString(binding.Object, "roleRef", "name")
		return kind == role.GetKind() && name == role.GetName()
	})
	if !bound {
		return nil
	}
	namespaces := o.options.WatchNamespaces
	if role.GetKind() == "Role" {
		namespaces = []string{o.Namespace}
	}
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	spec := authorizationv1.SubjectAccessReviewSpec{
		User:   o.account(),
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + o.Namespace, "system:authenticated"},
	}
	for _, rule := range rightsIn(role) {
		names := []string{""} // all
		if len(rule.ResourceNames) > 0 {
			names = slices.Clone(rule.ResourceNames)
		}
		if at := slices.Index(names, boot.LeaderElectionID); at >= 0 {
			names[at] = o.options.LeaderElectionID // config/rbac names the lease of an operator that is not a shard
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				resource, subresource, _ := strings.Cut(resource, "/")
				for _, verb := range rule.Verbs {
					for _, namespace := range namespaces {
						for _, name := range names {
							spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
								Namespace: namespace, Verb: verb, Group: group, Resource: resource, Subresource: subresource, Name: name,
							}
							reviews = append(reviews, authorizationv1.SubjectAccessReview{Spec: spec})
						}
					}
				}
			}
		}
	}
	return reviews
}

// leasesAreHeld checks that each operator with --leader-elect has a living pod that renews the lease: without
// one, no replica works.
func leasesAreHeld(ctx context.Context, p *patient) (string, []finding, error) {
	if len(p.operators) == 0 {
		return "", nil, errNoOperator
	}
	var holders []string
	var found []finding
	for _, o := range p.operators {
		if !o.options.LeaderElect {
			holders = append(holders, o.String()+" needs none")
			continue
		}
		lease := &coordinationv1.Lease{}
		key := client.ObjectKey{Namespace: o.leaseNamespace(), Name: o.options.LeaderElectionID}
		if err := p.Get(ctx, key, lease); client.IgnoreNotFound(err) != nil {
			return "", nil, err
		}
		spec := lease.Spec
		if spec.HolderIdentity == nil || !strings.HasPrefix(*spec.HolderIdentity, o.Name+"-") || spec.RenewTime == nil || spec.LeaseDurationSeconds == nil {
			found = append(found, finding{o.String() + " has no replica that holds the lease: none works", o.logs()})
			continue
		}
		pods, err := p.pods(ctx, o)
		if err != nil {
			return "", nil, err
		}
		holder, _, _ := strings.Cut(*spec.HolderIdentity, "_")
		age := time.Since(spec.RenewTime.Time).Round(time.Second)
		switch lives := slices.ContainsFunc(pods, func(pod corev1.Pod) bool { return pod.Name == holder }); {
		case age <= max(2*time.Duration(*spec.LeaseDurationSeconds)*time.Second, clocksDiffer):
			holders = append(holders, fmt.Sprintf("%s of %s", holder, o.Namespace))
		case lives:
			found = append(found, finding{fmt.Sprintf("pod %s holds lease %s of %s, and has not renewed it for %s", holder, lease.Name, o, age), fmt.Sprintf("kubectl -n %s delete pod %s", o.Namespace, holder)})
		default:
			found = append(found, finding{fmt.Sprintf("lease %s of %s is held by pod %s, which is gone since %s, and no other has taken it", lease.Name, o, holder, age), fmt.Sprintf("kubectl -n %s rollout restart deployment/%s", o.Namespace, o.Name)})
		}
	}
	return strings.Join(holders, ", "), found, nil
}

// operatorsAreAlone checks that each custom resource has exactly one operator, and that this one runs.
func operatorsAreAlone(ctx context.Context, p *patient) (string, []finding, error) {
	var found []finding
	served, unserved := map[string]int{}, map[string][]string{}
	for i := range p.customResources {
		obj := &p.customResources[i]
		claimed := release.ClaimedBy(obj)
		if claimed == "" && time.Since(obj.GetCreationTimestamp().Time) > time.Minute {
			unserved[obj.GetNamespace()] = append(unserved[obj.GetNamespace()], label(obj))
		} else if claimed != "" {
			served[claimed]++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(served)) {
		if !slices.ContainsFunc(p.operators, func(o operator) bool { return o.claim() == name && o.Status.AvailableReplicas > 0 }) {
			namespace, _, _ := strings.Cut(name, "/")
			found = append(found, finding{
				fmt.Sprintf("%s served by operator %q, of which no Deployment runs in namespace %s", counted(served[name], "custom resource"), name, namespace),
				"start it again. If it is gone for good, another one that watches them takes them over within a minute; where it was a shard, once one of the others selects them (docs/shards.md). One that runs elsewhere (make run) is no problem",
			})
		}
	}
	for _, namespace := range slices.Sorted(maps.Keys(unserved)) {
		remedy := "no operator watches that namespace: add it to WATCH_NAMESPACE, or under OLM to the OperatorGroup"
		if i := slices.IndexFunc(p.operators, func(o operator) bool { return o.watches(namespace) }); i >= 0 {
			remedy = "its log says why: " + p.operators[i].logs()
		}
		if slices.ContainsFunc(p.operators, func(o operator) bool { return o.options.Shard != "" }) {
			remedy = "give them a label that one of the shards selects (docs/shards.md); or " + remedy
		}
		found = append(found, finding{fmt.Sprintf("nobody serves %s in namespace %s", few(unserved[namespace]), namespace), remedy})
	}
	others, err := p.whoStandsBack(ctx)
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("%s, served by %s", counted(len(p.customResources), "custom resource"), cmp.Or(strings.Join(slices.Sorted(maps.Keys(served)), ", "), "nobody")), append(found, others...), p.unlisted
}

// whoStandsBack finds the events of operators that leave custom resources to others, except those about
// custom resources that were taken over since.
func (p *patient) whoStandsBack(ctx context.Context) (found []finding, err error) {
	events := &corev1.EventList{}
	if err := p.List(ctx, events, client.MatchingFields{"reason": status.StandsBack}); err != nil {
		return nil, err
	}
	leftTo := map[types.UID]string{} // the message about whoever has it now begins like this
	for i := range p.customResources {
		leftTo[p.customResources[i].GetUID()] = fmt.Sprintf("%s%q", status.LeftTo, release.ClaimedBy(&p.customResources[i]))
	}
	isOver := func(event corev1.Event) bool {
		return strings.HasPrefix(event.Message, status.LeftTo) && !strings.HasPrefix(event.Message, leftTo[event.InvolvedObject.UID])
	}
	moved := map[types.UID]time.Time{} // when it was last left to somebody else than now
	for _, event := range events.Items {
		if uid := event.InvolvedObject.UID; isOver(event) && event.LastTimestamp.After(moved[uid]) {
			moved[uid] = event.LastTimestamp.Time
		}
	}
	told := map[string]bool{}
	for _, event := range events.Items {
		_, lives := leftTo[event.InvolvedObject.UID]
		if at := event.LastTimestamp; lives && at.After(moved[event.InvolvedObject.UID]) && !told[event.Message] && time.Since(at.Time) < status.TellPeriod+clocksDiffer {
			told[event.Message] = true
			found = append(found, finding{fmt.Sprintf("an event of %s/%s at %s says: %s", event.InvolvedObject.Namespace, event.InvolvedObject.Name, at.UTC().Format(time.RFC3339), event.Message),
				"kubectl get deployments -A -l " + operatorLabel + " shows operators (a stock one has no such label): delete one, or have WATCH_NAMESPACE of each name its own. Where one has ended since, this goes within some minutes"})
		}
	}
	return found, nil
}

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

// imagesArePulled finds the images that nodes cannot pull, for pods of custom resources. operatorsRun reports
// those of the operators' own pods.
func imagesArePulled(_ context.Context, p *patient) (string, []finding, error) {
	by := map[string][]*unstructured.Unstructured{}
	for i := range p.customResources {
		obj := &p.customResources[i]
		if ready := meta.FindStatusCondition(status.Of(obj).Conditions, status.Ready); ready != nil && ready.Reason == status.ReasonImagePullFailed {
			_, image, _ := strings.Cut(ready.Message, " cannot pull the image ")
			image, _, _ = strings.Cut(image, ": ")
			by[image] = append(by[image], obj)
		}
	}
	var found []finding
	for _, image := range slices.Sorted(maps.Keys(by)) {
		first := by[image][0]
		found = append(found, finding{fmt.Sprintf("pods of %s lack their image %s, as those of %s in namespace %s", counted(len(by[image]), "custom resource"), image, label(first), first.GetNamespace()),
			fmt.Sprintf("push it to where the cluster pulls from (make images push), or give the operator the right name; what the node says: kubectl welcome status %s -n %s", label(first), first.GetNamespace())})
	}
	return "of " + counted(len(p.customResources), "custom resource"), found, p.unlisted
}

// deletionsEnd finds custom resources that have been deleting for too long, and who keeps them.
func deletionsEnd(_ context.Context, p *patient) (string, []finding, error) {
	var found []finding
	deleting := 0
	for i := range p.customResources {
		obj := &p.customResources[i]
		at := obj.GetDeletionTimestamp()
		if at == nil {
			continue
		}
		deleting++
		if time.Since(at.Time) < time.Minute {
			continue
		}
		problem := fmt.Sprintf("%s in namespace %s is being deleted since %s, kept by the finalizers %s", label(obj), obj.GetNamespace(), at.UTC().Format(time.RFC3339), strings.Join(obj.GetFinalizers(), ", "))
		remedy := fmt.Sprintf("kubectl welcome status %s -n %s says why", label(obj), obj.GetNamespace())
		if ready := meta.FindStatusCondition(status.Of(obj).Conditions, status.Ready); ready != nil && ready.ObservedGeneration == obj.GetGeneration() { // not of before the deletion
			problem += ": " + ready.Message
		}
		waits := slices.Contains(obj.GetFinalizers(), status.Finalizer)
		if waits && !slices.ContainsFunc(p.operators, func(o operator) bool { return o.endsDeletionOf(obj) }) {
			others := slices.DeleteFunc(obj.GetFinalizers(), func(finalizer string) bool { return finalizer == status.Finalizer })
			becomes := "Kubernetes deletes what it owns in its namespace, its data too, without hooks (after --cascade=orphan, it owns nothing any more); what is in none stays"
			if slices.Contains(others, metav1.FinalizerOrphanDependents) {
				becomes = "what it has made stays"
			}
			left, err := json.Marshal(append([]string{}, others...))
			if err != nil {
				return "", nil, err
			}
			remedy = fmt.Sprintf("no operator that runs serves it: start one. Or give it up, and %s: kubectl -n %s patch %s --type=merge -p '{\"metadata\":{\"finalizers\":%s}}'", becomes, obj.GetNamespace(), fullName(obj), left)
		}
		found = append(found, finding{problem, remedy})
	}
	return fmt.Sprintf("%d under way", deleting), found, p.unlisted
}
