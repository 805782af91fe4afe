package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"

	helmrelease "helm.sh/helm/v3/pkg/release"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/internal/guard"
	"demo.welcome.domain/welcome-operator/internal/object"
)

// isSame is whether two objects have the same kind and name, whatever their API versions.
func isSame(a, b *unstructured.Unstructured) bool {
	return a.GroupVersionKind().GroupKind() == b.GroupVersionKind().GroupKind() && a.GetName() == b.GetName()
}

// inWords names an object in a sentence: Deployment hello.
func inWords(obj *unstructured.Unstructured) string { return obj.GetKind() + " " + obj.GetName() }

func namesOf(objects []*unstructured.Unstructured) string {
	names := make([]string, len(objects))
	for i, obj := range objects {
		names[i] = safe(inWords(obj))
	}
	return strings.Join(names, ", ")
}

// whyNotOfRelease says why an object must not be given to a custom resource, in words that begin with "it";
// it is empty if nothing speaks against it. The object must have Helm's marks of the release, and no owner.
// Where an earlier adoption was undone, the marks name the custom resource instead.
func whyNotOfRelease(live *unstructured.Unstructured, release string, to *unstructured.Unstructured) string {
	annotations := live.GetAnnotations()
	switch {
	case live.GetLabels()[object.HelmLabel] != "Helm" || annotations[object.ReleaseNamespace] != to.GetNamespace() ||
		annotations[object.ReleaseName] != release && annotations[object.ReleaseName] != to.GetName():
		return "it does not say that it is of the Helm release " + release
	case len(live.GetOwnerReferences()) > 0:
		return "it is owned by " + live.GetOwnerReferences()[0].Kind + " " + live.GetOwnerReferences()[0].Name
	case live.GetDeletionTimestamp() != nil:
		return "it is being deleted"
	}
	return ""
}

// asGiven changes the API server's answers to what they will be once the objects of a release are given to
// owner. A preview needs that to show what the operator will do then.
func asGiven(release string, owner *unstructured.Unstructured, objects []*unstructured.Unstructured) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return transport(func(request *http.Request) (*http.Response, error) {
			answer, err := next.RoundTrip(request)
			named := func(obj *unstructured.Unstructured) bool { return obj.GetName() == path.Base(request.URL.Path) }
			if err != nil || request.Method != http.MethodGet || answer.StatusCode != http.StatusOK || !slices.ContainsFunc(objects, named) {
				return answer, err
			}
			text, err := io.ReadAll(answer.Body)
			if err = errors.Join(err, answer.Body.Close()); err != nil {
				return nil, err
			}
			live := &unstructured.Unstructured{}
			isOf := func(obj *unstructured.Unstructured) bool { return isSame(obj, live) }
			if live.UnmarshalJSON(text) == nil && slices.ContainsFunc(objects, isOf) && live.GetNamespace() == owner.GetNamespace() && whyNotOfRelease(live, release, owner) == "" {
				giveTo(live, owner)
				if text, err = live.MarshalJSON(); err != nil {
					return nil, err
				}
			}
			answer.Body, answer.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
			answer.Header.Del("Content-Length")
			return answer, nil
		})
	}
}

type transport func(*http.Request) (*http.Response, error)

// RoundTrip calls t.
func (t transport) RoundTrip(request *http.Request) (*http.Response, error) { return t(request) }

func giveTo(obj, owner *unstructured.Unstructured) {
	annotations := obj.GetAnnotations()
	annotations[object.AdoptFor] = object.Recipient(owner) // there are some: Helm's
	obj.SetAnnotations(annotations)
}

// adoptionPlan is what will happen to the objects of a release.
type adoptionPlan struct {
	given   []*unstructured.Unstructured // objects that an annotation gives to the custom resource
	asIs    []*unstructured.Unstructured // those of them in which nothing else changes
	changes []change                     // changes of the other given objects, and of objects that are created
	left    []*unstructured.Unstructured // objects that the operator's chart does not make
}

// plan finds out what the operator would do with the custom resource and the objects of the release. It fails
// if the operator would refuse.
func (a *adoption) plan(ctx context.Context, kind *servedKind, objects []*unstructured.Unstructured) (*adoptionPlan, error) {
	made := a.obj.DeepCopy()
	if err := kind.cluster.Create(ctx, made, client.DryRunAll, strict); err != nil {
		return nil, a.refused(err)
	}
	preview, err := kind.Preview(ctx, made, kind.unknown)
	words := hider(preview.Hidden)
	if err != nil {
		return nil, fmt.Errorf("the operator would not make %s: %w", label(a.obj), words.error(err))
	}
	plan := &adoptionPlan{}
	var refused []error
	for _, outlook := range preview.Objects {
		if outlook.Err != nil {
			refused = append(refused, words.error(outlook.Err))
			continue
		}
		isGiven := outlook.Live != nil && object.IsGiven(outlook.Live, made)
		if isGiven {
			plan.given = append(plan.given, outlook.Live)
			outlook.Live, outlook.After = unmarked(outlook.Live), unmarked(outlook.After)
		}
		change := newChange(made, outlook, preview, words)
		switch {
		case change != nil:
			plan.changes = append(plan.changes, *change)
		case isGiven:
			plan.asIs = append(plan.asIs, outlook.Live)
		}
	}
	if len(refused) > 0 {
		return nil, fmt.Errorf("the operator would not take over the release: %w", errors.Join(refused...))
	}
	for _, obj := range objects {
		if !slices.ContainsFunc(preview.Objects, func(o guard.Outlook) bool { return o.Desired != nil && isSame(o.Desired, obj) }) {
			plan.left = append(plan.left, obj)
		}
	}
	if len(plan.given) == 0 {
		return nil, fmt.Errorf("the operator's chart makes none of the objects of the Helm release %s: %s would have nothing of it", a.name, label(a.obj))
	}
	return plan, nil
}

// unmarked is a copy of an object without the marks that say whose it is.
func unmarked(obj *unstructured.Unstructured) *unstructured.Unstructured {
	obj = obj.DeepCopy()
	object.Disown(obj)
	annotations := obj.GetAnnotations()
	delete(annotations, object.AdoptFor)
	obj.SetAnnotations(annotations)
	obj.SetOwnerReferences(nil)
	return obj
}

// refused explains why the API server refuses the custom resource.
func (a *adoption) refused(err error) error {
	switch {
	case apierrors.IsAlreadyExists(err):
		return fmt.Errorf("there is a %s in %s already, which was not made of the Helm release: kubectl welcome status %s", label(a.obj), a.namespace, typed(a.obj))
	case strings.Contains(err.Error(), unknownFields):
		_, unknown, _ := strings.Cut(err.Error(), unknownFields)
		return fmt.Errorf("the Helm release %[1]s has values that are no fields of a %[2]s, or that only the platform sets:\n  %[3]s\nTake them out first: helm get values %[1]s -n %[4]s -o yaml > values.yaml, and helm upgrade %[1]s CHART -n %[4]s --reset-values -f values.yaml",
			a.name, a.obj.GetKind(), strings.ReplaceAll(strings.ReplaceAll(unknown, "unknown field ", ""), ", ", "\n  "), a.namespace)
	case apierrors.IsInvalid(err):
		return fmt.Errorf("the values of the Helm release are not valid for a %s: %w", a.obj.GetKind(), err)
	}
	return fmt.Errorf("ask if %s may be made: %w", label(a.obj), err)
}

// tell prints what is going to happen. Names and texts from Helm's record may be anybody's, so line makes
// them safe to show.
func (a *adoption) tell(rel *helmrelease.Release, kind *servedKind, pinned []string, plan *adoptionPlan) {
	line := func(format string, args ...any) { a.printf("%s\n", safe(fmt.Sprintf(format, args...))) }
	line("Helm release %s in %s, revision %d of chart %s %s, becomes %s, of chart %s %s", a.name, a.namespace, rel.Version, rel.Chart.Name(), rel.Chart.Metadata.Version,
		label(a.obj), kind.Chart.Name(), kind.Chart.Metadata.Version)
	if len(pinned) > 0 {
		line("Left out of its values, for the operator sets them: %s", strings.Join(pinned, ", "))
	}
	if len(plan.asIs) > 0 {
		line("Taken over as they are: %s", namesOf(plan.asIs))
	}
	var rolled []string
	does := map[action]string{isRolled: "is taken over and changes, and its pods are replaced", isChanged: "is taken over and changes", isMade: "is made"}
	for _, change := range plan.changes {
		_, name, _ := strings.Cut(change.name, "/")
		line("%s %s %s", change.kind.Kind, name, does[change.action])
		a.printf("%s\n", coloured(change.text))
		if change.action == isRolled {
			rolled = append(rolled, change.kind.Kind+" "+name)
		}
	}
	if len(plan.left) > 0 {
		line("Left as they are, and nobody's, for the operator's chart does not make them: %s", namesOf(plan.left))
	}
	if hooks := installHooks(rel); len(hooks) > 0 {
		line("Hooks that run once more, for to the operator this is an installation: %s", strings.Join(hooks, ", "))
	}
	if len(rolled) > 0 {
		line("Pods start anew: those of %s", strings.Join(rolled, ", "))
	} else {
		line("No pod starts anew.")
	}
}

// installHooks are the hooks of a release that run when it is installed.
func installHooks(rel *helmrelease.Release) (names []string) {
	for _, hook := range rel.Hooks {
		if slices.Contains(hook.Events, helmrelease.HookPreInstall) || slices.Contains(hook.Events, helmrelease.HookPostInstall) {
			names = append(names, hook.Kind+" "+hook.Name)
		}
	}
	return names
}

// checkHooks fails if objects of earlier hooks still exist: they belong to nobody, and the operator would
// neither replace nor run them. The record that names them may be forged. So a command to delete is suggested
// only for objects that are annotated as hooks themselves; Helm gives them no other mark.
func (a *adoption) checkHooks(ctx context.Context, rel *helmrelease.Release) error {
	var left, others []*unstructured.Unstructured
	for _, hook := range rel.Hooks {
		if slices.Equal(hook.Events, []helmrelease.HookEvent{helmrelease.HookTest}) {
			continue // helm test leaves its pods; a test that the operator is asked to run says itself what is in its way
		}
		objects, err := manifestObjects(hook.Manifest)
		if err != nil {
			return err
		}
		for _, obj := range objects {
			live, err := a.liveOf(ctx, obj, a.namespace)
			switch {
			case err != nil:
				return fmt.Errorf("look for what hooks have left: %w", err)
			case live == nil:
			case live.GetAnnotations()[helmrelease.HookAnnotation] != "" && len(live.GetOwnerReferences()) == 0:
				left = append(left, live)
			default:
				others = append(others, live)
			}
		}
	}
	var errs []error
	if len(left) > 0 {
		errs = append(errs, fmt.Errorf("hooks of the Helm release have left %s, which are in the way of the operator's hooks. If nobody needs them, or what is in them: kubectl delete -n %s %s",
			namesOf(left), a.namespace, typedNames(left)))
	}
	if len(others) > 0 {
		errs = append(errs, fmt.Errorf("%s are in the way of the hooks in the record of the Helm release. Either nothing in them says that a hook has left them, or somebody owns them: find out whose they are, and who has written that record", namesOf(others)))
	}
	return errors.Join(errs...)
}

// give annotates an object as given to the custom resource, even if controllers write to it at the same time.
func (a *adoption) give(ctx context.Context, obj *unstructured.Unstructured) error {
	api, err := a.client()
	if err != nil {
		return err
	}
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		live, err := a.liveOf(ctx, obj, a.namespace)
		if err != nil {
			return err
		}
		if live == nil || live.GetUID() != obj.GetUID() {
			return errors.New("it was deleted")
		}
		if why := whyNotOfRelease(live, a.name, a.obj); why != "" {
			return errors.New(why)
		}
		if object.IsGiven(live, a.obj) {
			return nil
		}
		before := live.DeepCopy()
		giveTo(live, a.obj)
		return api.Patch(ctx, live, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), fieldOwner)
	})
}

// takeBack is the command that removes the annotation by which objects are given.
func (a *adoption) takeBack(objects []*unstructured.Unstructured) string {
	return fmt.Sprintf("kubectl annotate -n %s %s %s-", a.namespace, typedNames(objects), object.AdoptFor)
}

// typedNames are the names of objects as arguments for kubectl.
func typedNames(objects []*unstructured.Unstructured) string {
	names := make([]string, len(objects))
	for i, obj := range objects {
		names[i] = fullName(obj)
	}
	return strings.Join(names, " ")
}

// checkTaken fails if the custom resource owns no object of the release: then somebody else has written the
// annotation that says that it was made of that.
func (a *adoption) checkTaken(ctx context.Context, rel *helmrelease.Release) error {
	taken, err := a.liveObjects(ctx, rel, a.hasTaken)
	if err == nil && len(taken) == 0 {
		err = fmt.Errorf("%s has taken over nothing of the Helm release %s", label(a.obj), rel.Name)
	}
	return err
}

// hasTaken is whether an object belongs to the custom resource.
func (a *adoption) hasTaken(live *unstructured.Unstructured) bool {
	return metav1.IsControlledBy(live, a.obj) || object.SaysMadeFor(live, a.obj)
}

// liveObjects are the objects of a release that exist and for which is holds.
func (a *adoption) liveObjects(ctx context.Context, rel *helmrelease.Release, is func(*unstructured.Unstructured) bool) ([]*unstructured.Unstructured, error) {
	objects, err := manifestObjects(rel.Manifest)
	if err != nil {
		return nil, err
	}
	var found []*unstructured.Unstructured
	for _, obj := range objects {
		live, err := a.liveOf(ctx, obj, a.namespace)
		switch {
		case meta.IsNoMatchError(err), apierrors.IsForbidden(err): // the chart does not make such objects, or the plan would have failed
		case err != nil:
			return nil, err
		case live != nil && is(live):
			found = append(found, live)
		}
	}
	return found, nil
}
