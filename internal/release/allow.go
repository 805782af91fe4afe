package release

import (
	"bytes"
	"cmp"
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

// notAllowed is the error of a release that asks for what watches.yaml does not allow.
type notAllowed struct{ error }

// Run is Helm's post-renderer, called before anything is done with a rendering. It returns the rendering
// unchanged, unless another manifest was begun.
func (op *operation) Run(rendered *bytes.Buffer) (*bytes.Buffer, error) {
	if op.begun != "" && op.client.asks.objects && op.lookups.digest() != op.client.current.Lookups {
		op.begun = "" // the chart would look up something else by now
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
	if !op.asIs { // what is already applied is repaired as it is
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

// judge fails if a manifest may not be applied. What it asks of controllers that serve others, too, has to be
// allowed to the author of the custom resource, or be the chart's own: the same whatever the author writes.
func (op *operation) judge(manifest string) error {
	resources, err := op.peek(manifest)
	if err == nil || guard.IsUnknown(err) && op.client.isApplied(manifest) {
		op.refused = op.judgeAll(manifest, resources)
		err = op.refused
	}
	return err
}

// peek parses a manifest. If Helm cannot, its error names neither the template nor the object: these are added
// here.
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
		// That error takes requests, and names its object already.
		if from := template.FindStringSubmatch(document); from != nil && !guard.IsUnknown(err) {
			if _, err := op.guard.Peek(document); err != nil {
				return nil, fmt.Errorf("%s: %w", from[1], err)
			}
		}
	}
	return resources, err
}

// template finds the comment in which Helm names the template of a document.
var template = regexp.MustCompile(`(?m)^# Source: (.+)$`)

// judgeAll is judge for a parsed manifest.
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
	refused, err := op.withoutOwn(op.Allow.Refused(namespace, asksOf(resources)))
	if len(refused) == 0 {
		return nil
	}
	refusal := op.Allow.Refusal(namespace, refused)
	if err != nil {
		refusal = fmt.Errorf("%w. %s: %w", refusal, NothingOwn, err)
	}
	return notAllowed{refusal}
}

// NothingOwn says, before an error, why what a chart asks for is not its own.
const NothingOwn = "Nothing counts as the chart's own, for it can't be rendered for a custom resource that says nothing. " +
	"Give what it lacks a default in its values.yaml, or pin that (overrideValues)"

// refuseLines fails if a rendering has characters that end a line for YAML but not for templates, and that the
// chart does not have by itself. checkTexts only knows the spec, and not what a template in it makes or lookup
// finds.
func (op *operation) refuseLines(manifest string) error {
	end := lineEnd(manifest)
	if end == "" {
		return nil
	}
	own, _ := op.alone(1) // if that fails, there is none
	if slices.ContainsFunc(own, func(own string) bool { return lineEnd(own) != "" }) {
		return nil
	}
	return notAllowed{fmt.Errorf("not allowed: what the chart makes of this spec has %U, at which a line ends for YAML, and not for templates: write \\n", []rune(end)[0])}
}

// refuseTwins fails if a rendering has an object twice, in two versions: one of them would be lost. helm
// install fails at any duplicate, and helm upgrade takes the last.
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

// refuse fails if an object may not be applied for what or where it is. A right on Secrets that the operator
// has for another kind is not enough: the record of this release would show them to whoever may read
// ConfigMaps. Nor may a cluster-scoped object be made because it is the chart's own: each custom resource would
// have the same.
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
		if err == nil && record.Is(object.Named(made)) { // the object would be written over the record
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

// refuseSecret fails if an object may not be in the record of the release.
func (op *operation) refuseSecret(info *resource.Info) error {
	if object.IsSecret(info.Object.(*unstructured.Unstructured)) && !op.Secrets {
		return noSecrets(fmt.Sprintf("Secret %q, which the chart makes", info.Name))
	}
	return nil
}

// CheckGoes fails for a cluster-scoped hook that its delete policy may leave: a hook is not part of the
// release, and no garbage collector deletes what is cluster-scoped.
func CheckGoes(made *unstructured.Unstructured) error {
	policy := made.GetAnnotations()[release.HookDeleteAnnotation]
	if !object.IsHook(made) || strings.Contains(policy, string(release.HookSucceeded)) && strings.Contains(policy, string(release.HookFailed)) {
		return nil
	}
	return fmt.Errorf("%s is a hook that would stay: the operator's watches.yaml allows such only with %s: %s,%s", object.Describe(made.GetKind(), "", made.GetName()),
		release.HookDeleteAnnotation, release.HookSucceeded, release.HookFailed)
}

// isNamespaced is whether a resource is namespaced, false if the cluster does not serve it.
func (op *operation) isNamespaced(resource schema.GroupResource) bool {
	mapper := op.clients.mapper
	kind, err := mapper.KindFor(resource.WithVersion(""))
	if err != nil {
		return false
	}
	namespaced, err := apiutil.IsGVKNamespaced(kind, mapper)
	return err == nil && namespaced
}

// noSecrets is the error for something that needs Secrets, of a kind that may have none.
func noSecrets(what string) error {
	return notAllowed{fmt.Errorf("not allowed: %s: without secrets: true, the operator's watches.yaml allows this kind no Secrets", what)}
}

// withoutOwn are those of asks that the chart does not ask for by itself, with an empty spec: as an installation or,
// where it may tell the two apart, as an upgrade. The error is why it could be rendered as neither.
func (op *operation) withoutOwn(asks []object.Ask) (rest []object.Ask, err error) {
	revisions := []int{1}
	if op.source.revised {
		revisions = append(revisions, object.AnyRevision)
	}
	made := false
	for _, revision := range revisions {
		if len(asks) == 0 {
			return nil, nil
		}
		manifests, failed := op.alone(revision)
		made, err = made || failed == nil, cmp.Or(err, failed)
		var own []object.Ask
		for _, manifest := range manifests {
			if resources, err := op.guard.Peek(manifest); err == nil {
				own = append(own, asksOf(resources)...)
			}
		}
		asks = slices.DeleteFunc(asks, func(ask object.Ask) bool { return slices.ContainsFunc(own, ask.Same) })
	}
	if made {
		return asks, nil
	}
	return asks, err
}

// alone are the manifests, hooks last, that the chart renders as a revision for this custom resource with an empty
// spec.
func (op *operation) alone(revision int) (manifests []string, err error) {
	rel, err := op.renderAlone(map[string]any{}, revision)
	if err != nil {
		return nil, err
	}
	manifests = []string{rel.Manifest}
	for _, hook := range rel.Hooks {
		manifests = append(manifests, hook.Manifest)
	}
	return manifests, nil
}

// judgeHooks fails if hooks may not be made.
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
		for _, info := range made { // it is judged when somebody has the tests run, but the record holds it at once
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

// refuseHookTwins fails if a hook has the name of an object of the release: it would be deleted and made in
// place of that, with what that keeps, and the object put back in its place. It does not matter for hooks that
// only run before an installation, whose object makes room, or after a deletion.
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
