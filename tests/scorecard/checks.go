package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// installAndReady: what a user applies becomes ready.
func installAndReady(ctx context.Context, c *cluster, e *example) (string, error) {
	return "", c.install(ctx, e.Unstructured)
}

// edit: another value of a field reaches the objects of the release, and that is ready again. The schema, and
// other examples, say what may be written, but only the author of the chart knows what is of use, or can be
// together: it is enough that one field is.
func edit(ctx context.Context, c *cluster, e *example) (string, error) {
	if err := c.install(ctx, e.Unstructured); err != nil {
		return "", err
	}
	spec, fields := e.spec(), fieldsOf(e.schema, nil)
	if len(fields) == 0 {
		return "the kind has no fields", nil
	}
	var tried []string
	for _, edit := range edits(spec, e.others, fields) {
		other := runtime.DeepCopyJSON(spec)
		if err := unstructured.SetNestedField(other, edit.value, edit.path...); err != nil {
			continue // beside a value that the example has there
		}
		changed, err := c.edited(ctx, e, other)
		switch {
		case err == nil && changed != "":
			return fmt.Sprintf("%s: %v changed %s", edit.field, edit.value, changed), nil
		case err != nil:
			tried = append(tried, fmt.Sprintf("%s: %v: %v", edit.field, edit.value, err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	return "", fmt.Errorf("no edit of a single field changes an object of the release, and leaves it ready: %s", strings.Join(tried, "; "))
}

// edited writes another spec, and says which of the children that has changed once all of it is applied and
// runs: none, perhaps.
func (c *cluster) edited(ctx context.Context, e *example, spec map[string]any) (changed string, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout/3)
	defer cancel()
	before, err := c.children(ctx, e)
	if err != nil {
		return "", err
	}
	revision := revisionOf(e)
	err = c.change(ctx, e.Unstructured, func() error { return unstructured.SetNestedMap(e.Object, spec, "spec") })
	if err != nil {
		return "", err
	}
	if err := c.awaitReady(ctx, e.Unstructured); err != nil {
		return "", err
	}
	after, err := c.children(ctx, e)
	if err != nil || revisionOf(e) == revision {
		return "", err
	}
	for _, child := range after {
		if !slices.ContainsFunc(before, func(old *unstructured.Unstructured) bool { return equality.Semantic.DeepEqual(wish(old), wish(child)) }) {
			return nameOf(child), nil
		}
	}
	for _, child := range before {
		if !slices.ContainsFunc(after, func(now *unstructured.Unstructured) bool { return now.GetUID() == child.GetUID() }) {
			return nameOf(child), nil
		}
	}
	return "", nil
}

// revisionOf is that of the release.
func revisionOf(e *example) int64 {
	revision, _, _ := unstructured.NestedInt64(e.Object, "status", "release", "revision")
	return revision
}

// wish is what the author of an object wants of it.
func wish(object *unstructured.Unstructured) map[string]any {
	all := runtime.DeepCopyJSON(object.Object)
	delete(all, "status")
	delete(all, "metadata")
	annotations := object.GetAnnotations()
	delete(annotations, "deployment.kubernetes.io/revision")
	all["uid"], all["labels"], all["annotations"] = object.GetUID(), object.GetLabels(), annotations
	return all
}

// driftHeals: each child that somebody deletes is made again, and the pods of each that has some get their image back.
func driftHeals(ctx context.Context, c *cluster, e *example) (string, error) {
	if err := c.install(ctx, e.Unstructured); err != nil {
		return "", err
	}
	children, err := c.children(ctx, e)
	if err != nil {
		return "", err
	}
	var did []string
	for _, child := range children {
		switch images := podsOf(child); {
		case child.GetKind() == "PersistentVolumeClaim": // which goes when no pod uses it any more
			continue
		case images == nil:
			did = append(did, "deleted "+nameOf(child))
			err = c.deleted(ctx, child)
		default:
			did = append(did, "changed the image of "+nameOf(child))
			err = c.otherImage(ctx, child, images)
		}
		if err != nil {
			return "", err
		}
	}
	return strings.Join(did, ", "), c.awaitReady(ctx, e.Unstructured)
}

// deleted deletes a child, and waits until it is back.
func (c *cluster) deleted(ctx context.Context, child *unstructured.Unstructured) error {
	if err := c.Delete(ctx, child); err != nil {
		return err
	}
	again := child.DeepCopy()
	return c.await(ctx, "the deleted "+nameOf(child)+" to come back", func() error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(child), again); err != nil {
			return err
		}
		if again.GetUID() == child.GetUID() {
			return errors.New("it is not deleted yet")
		}
		return nil
	})
}

// podsOf is the path to the containers of an object that makes pods whose image can be changed, nil of others.
func podsOf(object *unstructured.Unstructured) []string {
	template := []string{"spec", "template", "spec", "containers"}
	if object.GetKind() == "CronJob" {
		template = append([]string{"spec", "jobTemplate"}, template...)
	}
	if _, found, err := unstructured.NestedSlice(object.Object, template...); err != nil || !found || object.GetKind() == "Job" {
		return nil
	}
	return template
}

// otherImage changes the image of the pods of a child, and waits until it is as it was.
func (c *cluster) otherImage(ctx context.Context, child *unstructured.Unstructured, path []string) error {
	image := func() string {
		containers, _, _ := unstructured.NestedSlice(child.Object, path...)
		return fmt.Sprint(containers[0].(map[string]any)["image"])
	}
	wanted := image()
	err := c.change(ctx, child, func() error {
		containers, _, _ := unstructured.NestedSlice(child.Object, path...)
		containers[0].(map[string]any)["image"] = "example.com/foreign:v1"
		return unstructured.SetNestedSlice(child.Object, containers, path...)
	})
	if err != nil {
		return err
	}
	return c.await(ctx, "the changed image of "+nameOf(child)+" to be put right", func() error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(child), child); err != nil {
			return err
		}
		if found := image(); found != wanted {
			return fmt.Errorf("the image is %s, not %s", found, wanted)
		}
		return nil
	})
}

// scale: `kubectl scale` works; while an autoscaler is in charge, its lower bound does, where the kind has a
// field of that name.
func scale(ctx context.Context, c *cluster, e *example) (string, error) {
	if !e.scalable {
		return "the kind has no scale", nil
	}
	if err := c.install(ctx, e.Unstructured); err != nil {
		return "", err
	}
	children, err := c.children(ctx, e)
	if err != nil {
		return "", err
	}
	const pods = 3
	did := ""
	if slices.ContainsFunc(children, func(child *unstructured.Unstructured) bool { return child.GetKind() == "HorizontalPodAutoscaler" }) {
		bounds := slices.DeleteFunc(fieldsOf(e.schema, nil), func(f field) bool { return f.path[len(f.path)-1] != "minReplicas" })
		if len(bounds) == 0 {
			return "an autoscaler is in charge", nil
		}
		did = "by " + bounds[0].String()
		err = c.change(ctx, e.Unstructured, func() error {
			return unstructured.SetNestedField(e.Object, int64(pods), append([]string{"spec"}, bounds[0].path...)...)
		})
	} else {
		err = c.SubResource("scale").Update(ctx, e.Unstructured, client.WithSubResourceBody(&autoscalingv1.Scale{
			ObjectMeta: metav1.ObjectMeta{Name: e.GetName(), Namespace: e.GetNamespace()},
			Spec:       autoscalingv1.ScaleSpec{Replicas: pods},
		}))
	}
	if err != nil {
		return "", fmt.Errorf("scale: %w", err)
	}
	err = c.await(ctx, fmt.Sprintf("%d ready pods", pods), func() error {
		children, err := c.children(ctx, e)
		if err != nil {
			return err
		}
		for _, child := range children {
			if ready, found, _ := unstructured.NestedInt64(child.Object, "status", "readyReplicas"); found && ready == pods {
				return nil
			}
		}
		return errors.New("no child has as many")
	})
	if err != nil {
		return "", err
	}
	return did, c.awaitReady(ctx, e.Unstructured)
}

// badInputRefused: what a field cannot be is refused when it is written, and the field is named.
func badInputRefused(ctx context.Context, c *cluster, e *example) (string, error) {
	tried := 0
	for _, field := range fieldsOf(e.schema, nil) {
		for _, mistake := range field.mistakes() {
			object := e.DeepCopy()
			if err := unstructured.SetNestedField(object.Object, mistake, append([]string{"spec"}, field.path...)...); err != nil {
				continue // beside a value that the example has there
			}
			err := c.Create(ctx, object, client.DryRunAll)
			if err == nil {
				return "", fmt.Errorf("%s may be %q", field, mistake)
			}
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), field.String()) {
				return "", fmt.Errorf("%s set to %q is refused for another reason: %w", field, mistake, err)
			}
			tried++
		}
	}
	return fmt.Sprintf("%d mistakes", tried), nil
}

// deleteLeavesNothing: with the object goes everything that it owns, and what that owns, down to the pods.
func deleteLeavesNothing(ctx context.Context, c *cluster, e *example) (string, error) {
	if err := c.install(ctx, e.Unstructured); err != nil {
		return "", err
	}
	before, err := c.owned(ctx, e)
	if err != nil {
		return "", err
	}
	if err := c.remove(ctx, e.Unstructured); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d objects", len(before)), c.await(ctx, "nothing to be left", func() error {
		left, err := c.owned(ctx, e, before...)
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("%s is left", nameOf(left[0]))
		}
		return err
	})
}

// helmTest: the tests of the chart succeed, where it has some and the platform lets them run.
func helmTest(ctx context.Context, c *cluster, e *example) (string, error) {
	if err := c.install(ctx, e.Unstructured); err != nil {
		return "", err
	}
	const asked = "scorecard"
	err := c.change(ctx, e.Unstructured, func() error {
		kit.Annotate("webapp.demo.welcome.domain/test", asked)(e.Unstructured)
		return nil
	})
	if err != nil {
		return "", err
	}
	err = c.await(ctx, "the tests to end", func() error {
		err := c.Get(ctx, client.ObjectKeyFromObject(e), e.Unstructured)
		if tested, _, _ := unstructured.NestedString(e.Object, "status", "tested"); err == nil && tested != asked {
			err = fmt.Errorf("status.tested is %q", tested)
		}
		return err
	})
	if err != nil {
		return "", err
	}
	tested, err := kit.Condition(e.Unstructured, "Tested")
	if err == nil && tested.Status != metav1.ConditionTrue && tested.Reason != "NotAllowed" {
		err = errors.New(tested.Message)
	}
	return tested.Message, err
}
