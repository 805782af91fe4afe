package object

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// othersUnlessSet lists, for the kinds whose whole spec is the chart's, the fields that are others' where the chart does not set
// them: what the cluster assigns, and what Kubernetes' own tools and well-known controllers write. An update must not lose them. The
// API server gives every other field its default again, so one that somebody added disappears.
var othersUnlessSet = map[schema.GroupKind][]pointer{
	{Group: "apps", Kind: "Deployment"}:                     pointers(replicas, "/spec/paused", restartedAt), // kubectl rollout pause, restart
	StatefulSet:                                             pointers(replicas, restartedAt),
	{Group: "apps", Kind: "DaemonSet"}:                      pointers(restartedAt),
	{Group: "batch", Kind: "CronJob"}:                       pointers("/spec/suspend"), // kubectl patch, before a maintenance
	{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}: {},
	{Group: "networking.k8s.io", Kind: "Ingress"}:           pointers("/spec/ingressClassName"), // the default class
	{Group: "networking.k8s.io", Kind: "NetworkPolicy"}:     {},
	{Group: "policy", Kind: "PodDisruptionBudget"}:          {},
	service: pointers("/spec/clusterIP", "/spec/clusterIPs", "/spec/ipFamilies", "/spec/ipFamilyPolicy", "/spec/healthCheckNodePort",
		"/spec/loadBalancerClass", "/spec/loadBalancerIP"), // controllers of load balancers write the last
}

// notAssigned are those of them that no cluster assigns, so that they go where the chart itself had set them, and no longer does. The others stay: an Ingress that
// loses its class gets no default one, which is for new ones, and replicas are whose who scales from now on, but for none, see isStop.
var notAssigned = pointers("/spec/paused", "/spec/suspend", restartedAt, "/spec/loadBalancerIP")

// othersIn are the fields of an object that can be others': those of othersUnlessSet, the node ports of a Service, and how much a claim asks for.
func othersIn(object *unstructured.Unstructured) []pointer {
	kind := object.GroupVersionKind().GroupKind()
	others := slices.Clip(othersUnlessSet[kind])
	switch kind {
	case service:
		for i := range min(len(list(field(object.Object["spec"], "ports"))), maxPorts) {
			others = append(others, pointer{"spec", "ports", strconv.Itoa(i), "nodePort"})
		}
	case Claim:
		others = append(others, storage)
	}
	return others
}

// maxPorts bounds the ports of a Service whose node ports are others'. Each costs a look at all of them.
const maxPorts = 100

var (
	service   = schema.GroupKind{Kind: "Service"}
	clusterIP = mustPointer("/spec/clusterIP")
	storage   = mustPointer("/spec/resources/requests/storage")
)

const (
	replicas    = "/spec/replicas" // an autoscaler's
	restartedAt = "/spec/template/metadata/annotations/kubectl.kubernetes.io~1restartedAt"
)

func pointers(texts ...string) []pointer {
	all := make([]pointer, len(texts))
	for i, text := range texts {
		all[i] = mustPointer(text)
	}
	return all
}

// Left are the fields of an object that are left to others, whatever the chart wants in them.
type Left []pointer

// LeftTo returns what is left to others in live: what rules ignore, replicas that somebody has set by the scale subresource, as
// autoscalers and kubectl scale do, or had when the object was applied last (wasScaled), where the custom resource does not set them (scalable, which is asked of desired) and
// what the chart wants has not changed, and what a claim asks for where somebody has made it grow: it can't shrink.
func LeftTo(previous, live, desired *unstructured.Unstructured, rules Ignored, wasScaled bool, scalable func(*unstructured.Unstructured) bool) Left {
	left := rules.of(desired)
	count := mustPointer(replicas)
	if live != nil && isScaled(live, wasScaled) && scalable(desired) {
		wanted, _, _ := count.in(desired.Object)
		if previous == nil || reflect.DeepEqual(field(previous.Object["spec"], "replicas"), wanted) {
			left = append(left, count)
		}
	}
	if live != nil && desired.GroupVersionKind().GroupKind() == Claim && isGrown(previous, live, desired) {
		left = append(left, storage)
	}
	return left
}

// AsAnew are the fields of live, but for its metadata, in which it is not as restored, and what the API server would make anew in its place is as live: whatever the chart
// wants, admission has the last word there.
func AsAnew(live, restored, anew *unstructured.Unstructured) (left Left) {
	for key := range both(live.Object, restored.Object) {
		if key != "metadata" {
			left = append(left, asAnew(pointer{key}, live.Object[key], restored.Object[key], anew.Object[key])...)
		}
	}
	return left
}

func asAnew(p pointer, live, restored, anew any) (left Left) {
	inner := func(token string, live, restored, anew any) {
		left = append(left, asAnew(append(slices.Clone(p), token), live, restored, anew)...)
	}
	was, isMap := live.(map[string]any)
	wanted, isWanted := restored.(map[string]any)
	elements := list(restored)
	switch {
	case isMap && isWanted:
		for key := range both(was, wanted) {
			inner(key, was[key], wanted[key], field(anew, key))
		}
	case len(elements) > 0 && len(elements) == len(list(live)) && fields(elements[0]) != nil:
		for i, element := range elements {
			p := pointer{strconv.Itoa(i), ""}
			there, _, _ := p.across(restored, live)[:1].in(live)
			made, _, _ := p.across(restored, anew)[:1].in(anew)
			if fields(there) != nil {
				inner(p[0], there, element, made)
			}
		}
	case !reflect.DeepEqual(live, restored) && reflect.DeepEqual(live, anew):
		left = Left{p}
	}
	return left
}

// isGrown is whether a claim asks for more than the chart wants, and not because the chart wanted that before: to want less then is a mistake, of which the API server tells.
func isGrown(previous, live, desired *unstructured.Unstructured) bool {
	asked := func(object *unstructured.Unstructured) (quantity float64) {
		if object == nil {
			return 0
		}
		value, _, _ := storage.in(object.Object)
		quantity, _ = quantityOf(fmt.Sprint(value)) // else it is zero
		return quantity
	}
	now, wanted, before := asked(live), asked(desired), asked(previous)
	return wanted > 0 && now > wanted && now != before
}

// isScaled is whether the replicas were last set by the scale subresource, or by somebody else since they were (wasScaled). The operator has set those that an upgrade asked for. Who sets none by
// that subresource owns no field, as of what is written empty; and nor does anybody else then, or once somebody has cleared the managed fields.
func isScaled(live *unstructured.Unstructured, wasScaled bool) bool {
	isOwned := false
	for _, entry := range live.GetManagedFields() {
		if entry.Subresource == "status" || entry.FieldsV1 == nil || !strings.Contains(entry.FieldsV1.GetRawString(), `"f:replicas"`) {
			continue
		}
		if entry.Subresource == "scale" || wasScaled && entry.Manager != Manager {
			return true
		}
		isOwned = true
	}
	return !isOwned && (wasScaled || isStop(mustPointer(replicas), field(live.Object["spec"], "replicas")))
}

// isTheCharts is whether what others set at p is a drift.
func isTheCharts(p pointer, desired *unstructured.Unstructured, left Left) bool {
	if slices.ContainsFunc(left, func(ignored pointer) bool { return ignored.covers(p) }) {
		return false
	}
	_, set, _ := p.in(desired.Object)
	if finalizers.covers(p) {
		set = slices.Contains(desired.GetFinalizers(), p[len(finalizers)])
	}
	isOthers := p[0] == "metadata" || slices.ContainsFunc(othersIn(desired), func(other pointer) bool { return slices.Equal(other, p) })
	return set || !isOthers
}

// Restore returns live with everything put back that the chart wants, but for what is left to others. Labels, annotations and finalizers
// that the chart does not mention stay: by convention they belong to everybody. Of kinds not
// listed in othersUnlessSet, fields that the chart does not mention stay as well, for their
// controllers may have set them. What previous has and desired no longer has goes, but for replicas: the default of some is one, until an autoscaler has counted. previous is
// nil where nothing proves what the chart wanted before.
func Restore(previous, live, desired *unstructured.Unstructured, left Left) *unstructured.Unstructured {
	live, desired = live.DeepCopy(), desired.DeepCopy()
	var before map[string]any
	switch {
	case previous == nil || previous.GroupVersionKind().GroupKind() != desired.GroupVersionKind().GroupKind():
	case previous.GetAPIVersion() == desired.GetAPIVersion():
		before = previous.Object
	default:
		before = unconverted(previous.Object, live.Object)
		before["metadata"] = previous.Object["metadata"]
	}
	if live.GroupVersionKind().GroupKind() == Pod {
		desired.Object = withInjected(before, live.Object, desired.Object).(map[string]any)
	}
	content := dropsEmpty(builtIn.Recognizes(desired.GroupVersionKind())).mergeMap(before, live.Object, desired.Object)
	wanted, hasSpec := desired.Object["spec"].(map[string]any)
	if others, known := othersUnlessSet[live.GroupVersionKind().GroupKind()]; known && hasSpec {
		spec := maps.Clone(wanted)
		current := fields(live.Object["spec"])
		if ports, ok := wanted["ports"]; ok { // of a Service
			spec["ports"] = withNodePorts(list(ports), list(current["ports"]))
		}
		if rules, ok := wanted["rules"]; ok { // of an Ingress
			spec["rules"] = withChallenges(list(rules), list(current["rules"]))
		}
		content["spec"] = spec
		for _, p := range others {
			_, set, _ := p.in(content)
			value, ok, _ := p.in(live.Object)
			was, had, _ := p.in(before)
			dropped := had && reflect.DeepEqual(was, value) && (isStop(p, value) || slices.ContainsFunc(notAssigned, func(other pointer) bool { return slices.Equal(other, p) }))
			if ok && !set && !dropped {
				content = p.set(content, value, true).(map[string]any)
			}
		}
	}
	if live.GetKind() == "ServiceAccount" {
		content = withAccountSecrets(content, live.Object, live.GetName())
	}
	content = withFinalizers(content, &unstructured.Unstructured{Object: before}, live, desired)
	restored := &unstructured.Unstructured{Object: left.andReplicas(previous, live, desired).keep(content, live.Object)}
	restored.SetOwnerReferences(live.GetOwnerReferences())
	return restored
}

// unconverted is what of a previous object, in another version of its API, live has as well. What else it has may mean something else in this one, or be there by another name.
func unconverted(previous, live map[string]any) map[string]any {
	same := map[string]any{}
	for key, value := range previous {
		if inner, there := fields(value), fields(live[key]); inner != nil && there != nil {
			same[key] = unconverted(inner, there)
		} else if reflect.DeepEqual(value, live[key]) {
			same[key] = value
		}
	}
	return same
}

// keep returns content with what of it is left to others as live has it.
func (left Left) keep(content, live map[string]any) map[string]any {
	for _, p := range slices.Backward(left) { // or those behind an element that goes would be others by then
		value, ok, whole := p.across(content, live).in(live)
		if _, set, _ := p.in(content); whole && (ok || set) {
			content = p.set(content, value, ok).(map[string]any)
		}
	}
	return content
}

// Reset is Restore for an object that the API server does not take with what others have set in it: besides labels, annotations
// and what is left to others, that goes, and the API server gives what it assigns again. Replicas stay, as they are never refused,
// and the default of one would end pods.
func Reset(previous, live, desired *unstructured.Unstructured, left Left) *unstructured.Unstructured {
	bare := live.DeepCopy()
	for key := range live.Object {
		if key != "apiVersion" && key != "kind" && key != "metadata" && key != "status" {
			delete(bare.Object, key)
		}
	}
	reset := Restore(previous, bare, desired, nil)
	reset.Object = left.andReplicas(previous, live, desired).keep(reset.Object, live.Object)
	return reset
}

// Anew is what to create in the place of live.
func Anew(previous, live, desired *unstructured.Unstructured, left Left) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: left.andReplicas(previous, live, desired).keep(desired.DeepCopy().Object, live.Object)}
}

// StaysHeadless is whether a Service would stay without an address, which the chart has asked for and does no longer. Of all that a chart drops, the API server carries this alone over without a word.
func StaysHeadless(previous, live, desired *unstructured.Unstructured, left Left) bool {
	isHeadless := func(object *unstructured.Unstructured) bool {
		return object != nil && field(object.Object["spec"], "clusterIP") == corev1.ClusterIPNone
	}
	return desired.GroupVersionKind().GroupKind() == service && isHeadless(previous) && isHeadless(live) && !isHeadless(desired) &&
		field(desired.Object["spec"], "type") != string(corev1.ServiceTypeExternalName) && isTheCharts(clusterIP, previous, left)
}

// andReplicas has the replicas among what is left to others, unless the chart sets them, or has stopped the object before.
func (left Left) andReplicas(previous, live, desired *unstructured.Unstructured) Left {
	count := mustPointer(replicas)
	stops := func(object *unstructured.Unstructured) bool {
		return object != nil && isStop(count, field(object.Object["spec"], "replicas"))
	}
	if _, set, _ := count.in(desired.Object); set || desired.Object["spec"] == nil || stops(previous) && stops(live) {
		return left
	}
	return append(slices.Clone(left), count)
}

// isStop is whether a value says that nothing is to run. Where a chart no longer says so, no autoscaler does either: it scales nothing that has none.
func isStop(p pointer, value any) bool { return p.String() == replicas && fmt.Sprint(value) == "0" }

// withNodePorts are the wanted ports of a Service, with the node ports that the cluster gave to those of that name or else number. None of a protocol is there twice: the API
// server would not take it.
func withNodePorts(wanted, live []any) []any {
	ports, taken := slices.Clone(wanted), map[string]bool{}
	nodePort := func(of, at any) string {
		return fmt.Sprint(cmp.Or(field(of, "protocol"), any("TCP")), field(at, "nodePort"))
	}
	for _, port := range wanted {
		taken[nodePort(port, port)] = true
	}
	for _, key := range []string{"name", "port"} {
		for i, port := range ports {
			port, ok := port.(map[string]any)
			if !ok || port["nodePort"] != nil {
				continue // one that is none, the API server tells of
			}
			at := slices.IndexFunc(live, func(other any) bool {
				return field(other, key) == port[key] && field(other, "nodePort") != nil && !taken[nodePort(port, other)]
			})
			if at >= 0 {
				taken[nodePort(port, live[at])] = true
				port = maps.Clone(port)
				port["nodePort"] = field(live[at], "nodePort")
				ports[i] = port
			}
		}
	}
	return ports
}

// dropsEmpty is whether the API server drops the empty values of an object: it does of kinds that it knows by their Go types. Of custom resources it keeps them, and some mean
// something: selfSigned: {}.
type dropsEmpty bool

func (drops dropsEmpty) mergeMap(previous, live, desired map[string]any) map[string]any {
	merged := maps.Clone(live)
	if merged == nil {
		merged = map[string]any{}
	}
	for key, before := range previous {
		if _, wanted := desired[key]; wanted {
			continue
		}
		before, wasMap := before.(map[string]any)
		left, isMap := live[key].(map[string]any)
		if left = drops.mergeMap(before, left, nil); wasMap && isMap && len(left) > 0 {
			merged[key] = left // with what others have put there
		} else {
			delete(merged, key)
		}
	}
	for key, value := range desired {
		if isEmpty(live[key]) && (value == nil || bool(drops) && isEmpty(value)) {
			continue
		}
		merged[key] = drops.mergeValue(previous[key], live[key], value)
	}
	return merged
}

func (drops dropsEmpty) mergeValue(previous, live, desired any) any {
	switch desired := desired.(type) {
	case map[string]any:
		if live, ok := live.(map[string]any); ok {
			return drops.mergeMap(fields(previous), live, desired)
		}
	case []any:
		if live, ok := live.([]any); ok {
			return drops.mergeList(list(previous), live, desired)
		}
	}
	return desired
}

// mergeList keeps the order and the elements of desired, each with the fields of its counterparts.
func (drops dropsEmpty) mergeList(previous, live, desired []any) []any {
	merged, before, now := make([]any, len(desired)), counterparts(previous, desired), counterparts(live, desired)
	for i, element := range desired {
		merged[i] = drops.mergeValue(before[i], now[i], element)
	}
	return merged
}

// maxMoved bounds the elements of a list that are looked for where they are not in their places. Each costs a look at all of them.
const maxMoved = 100

// counterparts are, for each element of desired, the one among others that stands for the same, nil if nothing tells. An element with a name that only it has is found by that. One without is
// found by its place, if each place has what is desired there; or else by what it says, if exactly one says that, and says no other. The place alone would not do: where somebody has put in or
// taken out an element, each behind it would get the fields of another one, and a rule of a Role its resourceNames.
func counterparts(others, desired []any) []any {
	found, names, at := make([]any, len(desired)), named(desired), named(others)
	isNamed := func(element any) bool {
		name, _ := field(element, "name").(string)
		return len(names[name]) == 1 && len(at[name]) <= 1
	}
	var rest []int
	for i, element := range desired {
		if !isNamed(element) {
			rest = append(rest, i)
		} else if places := at[field(element, "name").(string)]; len(places) == 1 {
			found[i] = others[places[0]]
		}
	}
	switch {
	case len(rest) == 0:
	case says(others, desired):
		for _, i := range rest {
			found[i] = others[i]
		}
	case len(desired) <= maxMoved && len(others) <= maxMoved:
		said := make([]int, len(desired)) // how many say it
		for _, other := range others {
			if isNamed(other) {
				continue
			}
			saying := slices.DeleteFunc(slices.Clone(rest), func(i int) bool { return !says(other, desired[i]) })
			for _, i := range saying {
				said[i]++
			}
			if len(saying) == 1 {
				found[saying[0]] = other
			}
		}
		for _, i := range rest {
			if said[i] > 1 {
				found[i] = nil
			}
		}
	}
	return found
}

// named are the places of the elements that have a name, by that: to look for each anew would take minutes where somebody has made a list of ten thousands.
func named(elements []any) map[string][]int {
	places := map[string][]int{}
	for i, element := range elements {
		if name, _ := field(element, "name").(string); name != "" {
			places[name] = append(places[name], i)
		}
	}
	return places
}

func isEmpty(value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case map[string]any:
		return len(value) == 0
	case []any:
		return len(value) == 0
	default:
		return false
	}
}

// Canonical is a rendered object in the form in which the API server answers: typed kinds
// write "0.1" CPUs as "100m". An object with a field that its type does not have, as a newer
// Kubernetes may know it, stays as it is.
func Canonical(rendered *unstructured.Unstructured) *unstructured.Unstructured {
	canonical := rendered.DeepCopy()
	if IsSecret(rendered) {
		withData(canonical)
	}
	if typed, err := builtIn.New(rendered.GroupVersionKind()); err == nil {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(canonical.Object, typed, true); err == nil {
			if content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed); err == nil {
				canonical.Object = content
				canonical.SetGroupVersionKind(rendered.GroupVersionKind())
			}
		}
	}
	unstructured.RemoveNestedField(canonical.Object, "status")
	DropServers(canonical)
	if canonical.Object["aggregationRule"] != nil && canonical.GetKind() == "ClusterRole" {
		delete(canonical.Object, "rules") // they are collected from others
	}
	return canonical
}

// DropServers drops of an object's metadata what only the API server writes: kubectl get -o yaml shows it, and so it comes into charts.
func DropServers(o *unstructured.Unstructured) {
	for _, key := range []string{"creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid"} {
		unstructured.RemoveNestedField(o.Object, "metadata", key)
	}
}

// Patch is the JSON merge patch that makes live what restored is, empty where nothing differs.
func Patch(live, restored *unstructured.Unstructured) (map[string]any, error) {
	text, err := client.MergeFrom(live).Data(restored)
	if err != nil {
		return nil, fmt.Errorf("compare: %w", err)
	}
	patch := map[string]any{}
	if err := json.Unmarshal(text, &patch); err != nil {
		return nil, fmt.Errorf("compare: %w", err)
	}
	return patch, nil
}

// Repeats is whether patch asks for nothing that sent has not asked for: what the API server has just
// answered to that, it would answer again. Where it gives fields their defaults, a patch is never empty.
func Repeats(patch, sent map[string]any) bool {
	for key, value := range patch {
		other, ok := sent[key]
		if !ok {
			return false
		}
		nested, isMap := value.(map[string]any)
		if before, wasMap := other.(map[string]any); isMap && wasMap {
			if !Repeats(nested, before) {
				return false
			}
		} else if !reflect.DeepEqual(value, other) {
			return false
		}
	}
	return true
}
