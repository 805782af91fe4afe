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

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
