package release

import (
	"bytes"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/release"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"demo.welcome.domain/welcome-operator/internal/guard"
	"demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/internal/record"
)

// notAllowed is why a release is refused that asks for what watches.yaml does not allow.
type notAllowed struct{ error }

// Run is asked by Helm for each rendering, before anything is done with it. It changes nothing in what was rendered, unless something else was begun.
func (op *operation) Run(rendered *bytes.Buffer) (*bytes.Buffer, error) {
	if op.begun != "" && op.client.asks.objects && op.lookups.digest() != op.client.current.Lookups {
		op.begun = "" // the chart finds something else by now
	}
	if op.begun != "" {
		rendered = bytes.NewBufferString(op.begun)
	}
	if err := record.CheckSize(rendered.Len()); err != nil {
		return rendered, err
	}
	resources, err := op.peek(rendered.String())
	if err != nil {
		return rendered, err
	}
	op.objects = resources
	if !op.asIs { // what is applied already is repaired as it is
		op.refused = refuseTwins(resources)
	}
	if op.refused == nil {
		op.refused = op.judgeAll(rendered.String(), resources)
	}
	if op.refused != nil {
		return rendered, op.refused
	}
	op.rendered = rendered.String()
	if op.looks {
		op.refused = op.guard.Judge(op.rendered)
	}
	return rendered, op.refused
}

// judge is why a manifest may not be applied. What it asks of controllers that serve others is either allowed to the author
// of the custom resource, or the chart's own: the same for everybody who writes nothing.
func (op *operation) judge(manifest string) error {
	resources, err := op.peek(manifest)
	if err == nil || guard.IsUnknown(err) && op.client.isApplied(manifest) {
		op.refused = op.judgeAll(manifest, resources)
		err = op.refused
	}
	return err
}

// peek is what a manifest has. Of what cannot be read, Helm does not say where it is, nor what it is where something in it is not of its type.
func (op *operation) peek(manifest string) (kube.ResourceList, error) {
	resources, err := op.guard.Peek(manifest)
	if err == nil {
		return resources, nil
	}
	for _, document := range object.Split(manifest) {
		objects, _ := object.Documents(strings.NewReader(document)) // if they can't be read, Helm says so
		for _, one := range objects {
			if err := object.Check(one); err != nil {
				return nil, err
			}
		}
		if from := template.FindStringSubmatch(document); from != nil && !guard.IsUnknown(err) { // which takes requests, and names its object
			if _, err := op.guard.Peek(document); err != nil {
				return nil, fmt.Errorf("%s: %w", from[1], err)
			}
		}
	}
	return resources, err
}

// template finds the template of a document, of which Helm tells in a comment.
var template = regexp.MustCompile(`(?m)^# Source: (.+)$`)

// judgeAll is judge of the objects of a manifest.
func (op *operation) judgeAll(manifest string, resources kube.ResourceList) error {
	if err := op.refuseLines(manifest); err != nil {
		return err
	}
	for _, info := range resources {
		if err := op.refuse(info); err != nil {
			return err
		}
	}
	namespace := op.client.owner.GetNamespace()
	refused := op.Allow.Refused(namespace, asksOf(resources))
	if len(refused) == 0 {
		return nil
	}
	own := op.own()
	refused = slices.DeleteFunc(refused, func(ask object.Ask) bool { return slices.ContainsFunc(own, ask.Same) })
	if len(refused) == 0 {
		return nil
	}
	return notAllowed{op.Allow.Refusal(namespace, refused)}
}

// refuseLines is why a rendering may not be applied in which lines end for YAML alone: checkTexts knows what a spec says, and not what a template in it makes, or lookup finds. What the chart
// has of its own goes on as its author wants it.
func (op *operation) refuseLines(manifest string) error {
	end := lineEnd(manifest)
	if end == "" || slices.ContainsFunc(op.alone(), func(own string) bool { return lineEnd(own) != "" }) {
		return nil
	}
	return notAllowed{fmt.Errorf("not allowed: what the chart makes of this spec has %U, at which a line ends for YAML, and not for templates: write \\n", []rune(end)[0])}
}

// refuseTwins is why a rendering may not be applied that has an object twice, and not the same: one of the two would be lost. helm install fails at any that is there twice, and
// helm upgrade takes the last.
func refuseTwins(resources kube.ResourceList) error {
	type key struct {
		schema.GroupKind
		namespace, name string
	}
	first := make(map[key]*resource.Info, len(resources))
	for _, info := range resources {
		this := key{info.Mapping.GroupVersionKind.GroupKind(), info.Namespace, info.Name}
		if twin := first[this]; twin != nil && !reflect.DeepEqual(twin.Object, info.Object) {
			return fmt.Errorf("%s is in the chart twice, and not the same: one of the two would be lost", object.Describe(this.Kind, this.namespace, this.name))
		}
		first[this] = info
	}
	return nil
}

// refuse is why an object may not be applied, for what it is or where, nil if it may. That the operator has the right to Secrets, for another kind, is not enough: the record of this release
// would show them to whoever may read ConfigMaps. Nor is it enough, of what is in no namespace, that it is the chart's own: others would have the same.
func (op *operation) refuse(info *resource.Info) error {
	made := info.Object.(*unstructured.Unstructured) // Build knows no other type
	if err := object.Check(made); err != nil {
		return err
	}
	if err := op.refuseSecret(info); err != nil {
		return err
	}
	err := op.guard.CheckPlace(info)
	if info.Namespaced() {
		if err == nil && record.Is(object.Named(made)) { // what the chart wants would be written over it
			err = fmt.Errorf("%s is in the chart with the name of a release record", object.Describe(made.GetKind(), info.Namespace, info.Name))
		}
		return err
	}
	if err == nil {
		err = object.CheckReach(made, op.client.owner.GetNamespace(), op.isNamespaced)
	}
	if err == nil {
		err = CheckGoes(made)
	}
	if err != nil {
		return notAllowed{fmt.Errorf("not allowed: %w", err)}
	}
	return nil
}

// refuseSecret is why an object may not be in the record of the release, nil if it may.
func (op *operation) refuseSecret(info *resource.Info) error {
	if object.IsSecret(info.Object.(*unstructured.Unstructured)) && !op.Secrets {
		return noSecrets(fmt.Sprintf("Secret %q, which the chart makes", info.Name))
	}
	return nil
}

// CheckGoes is why a hook may not be in no namespace: it is no part of the release, and no garbage collector removes what Helm leaves.
func CheckGoes(made *unstructured.Unstructured) error {
	policy := made.GetAnnotations()[release.HookDeleteAnnotation]
	if !object.IsHook(made) || strings.Contains(policy, string(release.HookSucceeded)) && strings.Contains(policy, string(release.HookFailed)) {
		return nil
	}
	return fmt.Errorf("%s is a hook that would stay: the operator's watches.yaml allows such only with %s: %s,%s", object.Describe(made.GetKind(), "", made.GetName()),
		release.HookDeleteAnnotation, release.HookSucceeded, release.HookFailed)
}

// isNamespaced is whether the objects of a resource are in namespaces, false if the cluster does not know it.
func (op *operation) isNamespaced(resource schema.GroupResource) bool {
	mapper := op.clients.mapper
	kind, err := mapper.KindFor(resource.WithVersion(""))
	if err != nil {
		return false
	}
	namespaced, err := apiutil.IsGVKNamespaced(kind, mapper)
	return err == nil && namespaced
}

// noSecrets refuses what is about a Secret to a kind that has none.
func noSecrets(what string) error {
	return notAllowed{fmt.Errorf("not allowed: %s: without secrets: true, the operator's watches.yaml allows this kind no Secrets", what)}
}

// own is what the chart asks for, whoever writes its custom resource.
func (op *operation) own() (own []object.Ask) {
	for _, manifest := range op.alone() {
		if resources, err := op.guard.Peek(manifest); err == nil {
			own = append(own, asksOf(resources)...)
		}
	}
	return own
}

// alone is what the chart makes, hooks last, with the name and namespace of this custom resource, and an empty spec. A chart that can't be rendered so makes nothing of its own.
func (op *operation) alone() (manifests []string) {
	rel, err := op.renderAlone(map[string]any{})
	if err != nil {
		return nil
	}
	manifests = []string{rel.Manifest}
	for _, hook := range rel.Hooks {
		manifests = append(manifests, hook.Manifest)
	}
	return manifests
}

// judgeHooks is why hooks may not be made, nil if they may.
func (op *operation) judgeHooks(hooks []*release.Hook) error {
	for _, hook := range hooks {
		manifest := "# Source: " + hook.Path + "\n" + hook.Manifest
		made, err := op.peek(manifest)
		if err != nil {
			return err
		}
		if op.refused = op.judgeHook(hook, manifest, made); op.refused != nil {
			return op.refused
		}
	}
	return nil
}

func (op *operation) judgeHook(hook *release.Hook, manifest string, made kube.ResourceList) error {
	if slices.Equal(hook.Events, []release.HookEvent{release.HookTest}) && !op.tests {
		for _, info := range made { // all else is asked when somebody has it run, but the record has it at once
			if err := op.refuseSecret(info); err != nil {
				return err
			}
		}
		return nil
	}
	if !op.asIs || op.tests {
		if err := refuseHookTwins(hook, made, op.objects); err != nil {
			return err
		}
	}
	return op.judgeAll(manifest, made)
}

// refuseHookTwins is why a hook may not be run, nil if it may: it would be deleted and made in the place of one of the objects of the release, with what that keeps, and that be put back in
// its place. One that only comes before an installation makes way for it, and after a deletion there is none.
func refuseHookTwins(hook *release.Hook, made, objects kube.ResourceList) error {
	if !slices.ContainsFunc(hook.Events, func(event release.HookEvent) bool {
		return event != release.HookPreInstall && event != release.HookPostDelete
	}) {
		return nil
	}
	for _, info := range made {
		if objects.Contains(info) {
			return fmt.Errorf("%s is in the chart twice, and not the same: once as a hook, and each would take the other's place", object.Describe(info.Mapping.GroupVersionKind.Kind, info.Namespace, info.Name))
		}
	}
	return nil
}

// asksOf are what all objects of a manifest ask for.
func asksOf(resources kube.ResourceList) (asks []object.Ask) {
	for _, info := range resources {
		asks = append(asks, object.Asks(info.Object.(*unstructured.Unstructured))...) // Build knows no other type
	}
	return asks
}
