package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"helm.sh/helm/v3/pkg/strvals"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// strict makes the API server refuse unknown fields, which it would drop silently otherwise.
const strict = client.FieldValidation(metav1.FieldValidationStrict)

// unknownFields begins the API server's list of unknown fields.
const unknownFields = "strict decoding error: "

// proposals are the custom resources in question, with the change that is proposed. Beside an unlisted error,
// it returns those that could be read.
func (c *cluster) proposals(ctx context.Context, o diffOptions, args []string) ([]ask, error) {
	if err := setIn(&unstructured.Unstructured{Object: map[string]any{}}, o.set); err != nil {
		return nil, err // mistyped
	}
	var asks []ask
	if len(o.files) == 0 {
		found, missing := c.find(ctx, o.selection, args)
		if len(found) == 0 && missing == nil && o.labels != "" {
			return nil, fmt.Errorf("no custom resource is selected by -l %s", o.labels) // whoever selects expects some
		}
		for i := range found {
			one := ask{name: &found[i], obj: &found[i], isNamed: o.isNamed(args)}
			if len(o.set) > 0 {
				one.propose = withSet(o.set)
			}
			asks = append(asks, one)
		}
		return asks, missing
	}
	if len(args) > 0 || o.all || o.labels != "" {
		return nil, errors.New("-f says which custom resources are meant: leave out names, -l and -A")
	}
	for _, file := range o.files {
		wanted, err := c.read(file)
		if err != nil {
			return nil, err
		}
		for _, obj := range wanted {
			one, err := c.applied(ctx, obj, o.set)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			asks = append(asks, one)
		}
	}
	return asks, nil
}

// read reads the custom resources of a file.
func (c *cluster) read(file string) (objects []*unstructured.Unstructured, err error) {
	in := c.In
	if file != "-" {
		opened, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer func() { _ = opened.Close() }() // it was only read
		in = opened
	}
	objects, err = object.Documents(in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if len(objects) == 0 {
		return nil, fmt.Errorf("%s has no custom resource", file)
	}
	return objects, nil
}

// applied asks what `kubectl apply` of wanted would lead to.
func (c *cluster) applied(ctx context.Context, wanted *unstructured.Unstructured, set []string) (ask, error) {
	if wanted.GetName() == "" || wanted.GetKind() == "" {
		return ask{}, errors.New("it lacks a kind or a metadata.name")
	}
	if wanted.GetNamespace() == "" {
		namespace, err := c.namespace()
		if err != nil {
			return ask{}, err
		}
		wanted.SetNamespace(namespace)
	}
	if err := setIn(wanted, set); err != nil {
		return ask{}, err
	}
	api, err := c.client()
	if err != nil {
		return ask{}, err
	}
	live := object.Empty(wanted.GroupVersionKind())
	switch err := api.Get(ctx, client.ObjectKeyFromObject(wanted), live); {
	case apierrors.IsNotFound(err):
		return ask{name: wanted, isFile: true, propose: func(ctx context.Context, api *readOnly, _ *unstructured.Unstructured) (*unstructured.Unstructured, error) {
			made := wanted.DeepCopy()
			return made, api.Create(ctx, made, client.DryRunAll, strict)
		}}, nil
	case err != nil:
		return ask{}, err
	}
	return ask{name: live, obj: live, isFile: true, propose: func(ctx context.Context, api *readOnly, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		patch, err := applyPatch(live, wanted)
		if err != nil {
			return nil, err
		}
		return patched(ctx, api, live, patch)
	}}, nil
}

// applyPatch is the patch that kubectl apply sends: it sets what wanted has, and removes what wanted no
// longer has since it was applied last.
func applyPatch(live, wanted *unstructured.Unstructured) ([]byte, error) {
	wanted = wanted.DeepCopy()
	delete(wanted.Object, "status")
	modified, err := json.Marshal(wanted)
	if err != nil {
		return nil, err
	}
	current, err := json.Marshal(live)
	if err != nil {
		return nil, err
	}
	return jsonmergepatch.CreateThreeWayJSONMergePatch([]byte(live.GetAnnotations()[corev1.LastAppliedConfigAnnotation]), modified, current)
}

// withSet proposes to change values in the spec.
func withSet(set []string) func(context.Context, *readOnly, *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return func(ctx context.Context, api *readOnly, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		wanted := live.DeepCopy()
		if err := setIn(wanted, set); err != nil {
			return nil, err
		}
		patch, err := client.MergeFrom(live).Data(wanted)
		if err != nil {
			return nil, err
		}
		return patched(ctx, api, live, patch)
	}
}

func setIn(obj *unstructured.Unstructured, set []string) error {
	if len(set) == 0 {
		return nil
	}
	spec, isMap := obj.Object["spec"].(map[string]any)
	if !isMap {
		spec = map[string]any{}
		obj.Object["spec"] = spec
	}
	for _, value := range set {
		if err := strvals.ParseInto(value, spec); err != nil {
			return fmt.Errorf("--set %s: %w", value, err)
		}
	}
	return nil
}

// patched is live as the API server would store it after the patch, with defaults, validation and admission.
func patched(ctx context.Context, api *readOnly, live *unstructured.Unstructured, patch []byte) (*unstructured.Unstructured, error) {
	after := live.DeepCopy()
	if strings.TrimSpace(string(patch)) == "{}" {
		return after, nil
	}
	err := api.Patch(ctx, after, client.RawPatch(types.MergePatchType, patch), client.DryRunAll, strict)
	if err != nil {
		if at := strings.LastIndex(err.Error(), unknownFields); at >= 0 { // the text before that quotes the whole object
			err = apierrors.NewBadRequest(err.Error()[at:])
		}
	}
	return after, err
}
