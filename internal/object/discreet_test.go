package object

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	validation "k8s.io/apimachinery/pkg/util/validation/field"
)

// People are told what they can act on, and it is still known what kind of error that is.
func TestDiscreet(t *testing.T) {
	secrets := schema.GroupResource{Resource: "secrets"}
	invalid := func(message string) error { // as a policy says it that names no reason
		return &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonInvalid, Message: message, Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Message: message}}}}}
	}
	for name, c := range map[string]struct {
		err  error
		want string
		is   func(error) bool
	}{
		"right": {apierrors.NewForbidden(secrets, "it", errors.New(`User "system:serviceaccount:a:b" cannot create resource "secrets" in API group "" in the namespace "here"`)),
			`User "system:serviceaccount:a:b" cannot create resource "secrets" in API group "" in the namespace "here"`, apierrors.IsForbidden},
		"quota":   {apierrors.NewForbidden(secrets, "it", errors.New("exceeded quota: q, requested: secrets=1, used: secrets=1, limited: secrets=1")), "exceeded quota: q, requested: secrets=1", apierrors.IsForbidden},
		"webhook": {apierrors.NewForbidden(secrets, "it", errors.New(`admission webhook "w" denied the request: hunter2`)), `admission webhook "w" denied`, apierrors.IsForbidden},
		"field": {apierrors.NewInvalid(schema.GroupKind{Kind: "Secret"}, "it", validation.ErrorList{validation.Invalid(validation.NewPath("data").Key("a"), "hunter2", "hunter2 is bad")}),
			"is invalid: data[a] (Invalid)", apierrors.IsInvalid},
		"policy":            {invalid("secrets \"it\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: hunter2"), "it is invalid: ValidatingAdmissionPolicy 'p' with binding 'b' denied;", apierrors.IsInvalid},
		"policy that fails": {invalid("policy 'p' with binding 'b' denied request: hunter2"), "it is invalid: policy 'p' with binding 'b' denied;", apierrors.IsInvalid},
		"decoding":          {apierrors.NewBadRequest("illegal base64 data: hunter2"), "BadRequest", apierrors.IsBadRequest},
		"not found":         {apierrors.NewNotFound(secrets, "it"), `secrets "it" not found`, apierrors.IsNotFound},
	} {
		told := Discreet(fmt.Errorf("wrapped: %w", c.err))
		if text := told.Error(); strings.Contains(text, "hunter2") || !strings.Contains(text, c.want) || !c.is(told) || !IsDiscreet(fmt.Errorf("again: %w", told)) {
			t.Errorf("%s: %s", name, text)
		}
	}
	if way := errors.New("connection refused"); !errors.Is(Discreet(way), way) || Discreet(way).Error() != way.Error() || Discreet(nil) != nil {
		t.Error("what is on the way is not told")
	}
}

func TestDiscreetRendering(t *testing.T) {
	for text, want := range map[string]string{
		`template: c/t.yaml:1:2: executing "c/t.yaml" at <include "x" .>: error calling include: template: c/h.tpl:3:4: executing "x" at <b64dec .Values.a>: error calling b64dec: hunter2`:                                              `at <b64dec .Values.a>: `,
		`template: c/t.yaml:1:2: executing "c/t.yaml" at <tpl .Values.a .>: error calling tpl: error during tpl function execution for "hunter2": template: gotpl:1:1: executing "gotpl" at <.a>: nil pointer evaluating interface {}.b`: `error calling tpl: `,
		`YAML parse error on c/t.yaml: error converting YAML to JSON: yaml: line 3: hunter2`:                                                                                                                                             `line 3: `,
		`unable to build kubernetes objects from release manifest: unable to decode "": Object 'Kind' is missing in '{"a":"hunter2"}'`:                                                                                                   `Object 'Kind' is missing in `,
	} {
		told := DiscreetRendering(errors.New(text)).Error()
		if strings.Contains(told, "hunter2") || !strings.Contains(told, want+"what is not told") {
			t.Errorf("%s\nis told as %s", text, told)
		}
	}
	for _, text := range []string{
		`template: c/t.yaml:1:2: executing "c/t.yaml" at <.Values.a.b>: nil pointer evaluating interface {}.b`,
		`execution error at (c/t.yaml:1:2): write a password`,
		`resource mapping not found for name: "it" namespace: "" from "": no matches for kind "A" in version "b/v1"`,
		`create Deployment "it" in namespace "here": it is forbidden`,
	} {
		if told := DiscreetRendering(errors.New(text)).Error(); told != text {
			t.Errorf("%s\nis told as %s", text, told)
		}
	}
}

// The API server quotes whole objects: what a patch would have made, a pod template, a pod before and after.
func TestUnquoted(t *testing.T) {
	path := validation.NewPath
	for want, causes := range map[string]validation.ErrorList{
		"it is invalid: json: cannot unmarshal number into Go struct field ConfigMap.data of type string": {
			validation.Invalid(path("patch"), `{"a":"}\": hunter2"}`, "json: cannot unmarshal number into Go struct field ConfigMap.data of type string")},
		"it is invalid: spec.template: field is immutable; spec.replicas: Invalid value: -1: must be positive": {
			validation.Invalid(path("spec", "template"), map[string]any{"env": "hunter2}: x"}, "field is immutable"), validation.Invalid(path("spec", "replicas"), -1, "must be positive")},
		"it is invalid: spec.env: is bad; spec.claim: Forbidden: is immutable\n core.PersistentVolumeClaimSpec{}": {
			validation.Invalid(path("spec", "env"), []any{map[string]any{"value": "hunter2"}}, "is bad"), validation.Forbidden(path("spec", "claim"), "is immutable\n core.PersistentVolumeClaimSpec{}")},
		"it is invalid: spec: Forbidden: pod updates may not change fields other than some": {
			validation.Forbidden(path("spec"), "pod updates may not change fields other than some\n core.PodSpec{\n- hunter2\n}")},
	} {
		got := Unquoted(fmt.Errorf("patch it: %w", apierrors.NewInvalid(schema.GroupKind{}, "", causes)))
		if got.Error() != want || !apierrors.IsInvalid(got) || len(Causes(got)) != len(causes) {
			t.Errorf("it says %q", got)
		}
	}
	for _, other := range []error{errors.New("another"), apierrors.NewInvalid(schema.GroupKind{}, "", validation.ErrorList{validation.Invalid(path("a"), "b", "c")})} {
		if got := Unquoted(other); got.Error() != other.Error() {
			t.Errorf("%v becomes %v", other, got)
		}
	}
}
