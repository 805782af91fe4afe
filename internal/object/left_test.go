package object

import (
	"reflect"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Replicas belong to who scales where the custom resource does not set them, until it asks for another number. That the
// chart has another default, whether or not the custom resource has the former one, asks for nothing.
func TestLeftToWhoScales(t *testing.T) {
	const scaled = `{apiVersion: apps/v1, kind: Deployment, metadata: {managedFields: [{manager: kube-controller-manager, operation: Update, subresource: scale, fieldsType: FieldsV1, fieldsV1: {"f:spec": {"f:replicas": {}}}}]}, spec: {replicas: 4}}`
	const edited = `{apiVersion: apps/v1, kind: Deployment, metadata: {managedFields: [{manager: kubectl-edit, operation: Update, fieldsType: FieldsV1, fieldsV1: {"f:spec": {"f:replicas": {}}}}]}, spec: {replicas: 4}}`
	const stopped = `{apiVersion: apps/v1, kind: Deployment, metadata: {managedFields: [{manager: keda, operation: Update, subresource: scale}, {manager: kube-controller-manager, operation: Update, subresource: status, fieldsType: FieldsV1, fieldsV1: {"f:status": {"f:replicas": {}}}}]}, spec: {replicas: 0}}`
	const zeroed = `{apiVersion: apps/v1, kind: Deployment, metadata: {managedFields: [{manager: kubectl-edit, operation: Update, fieldsType: FieldsV1, fieldsV1: {"f:spec": {"f:replicas": {}}}}]}, spec: {replicas: 0}}`
	const cleared = `{apiVersion: apps/v1, kind: Deployment, metadata: {managedFields: [{manager: other, operation: Update, fieldsType: FieldsV1, fieldsV1: {"f:metadata": {"f:labels": {}}}}]}, spec: {replicas: 4}}`
	const upgraded = `{apiVersion: apps/v1, kind: Deployment, metadata: {managedFields: [{manager: welcome-operator, operation: Update, fieldsType: FieldsV1, fieldsV1: {"f:spec": {"f:replicas": {}}}}]}, spec: {replicas: 10}}`
	const one, two = "{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 1}}", "{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 2}}"
	for name, c := range map[string]struct {
		previous, live                   string
		wasScaled, scalable, asked, left bool // asked is whether somebody asks for another number, where one is wanted
	}{
		"scaled":                         {one, scaled, false, true, true, true},
		"autoscaling is switched off":    {"{apiVersion: apps/v1, kind: Deployment, spec: {}}", scaled, false, true, false, false},
		"scaled, and set":                {one, scaled, false, false, true, false},
		"scaled to none":                 {one, stopped, false, true, true, true}, // of which nothing tells
		"edited":                         {one, edited, false, true, true, false},
		"edited after it was scaled":     {one, edited, true, true, true, true},
		"cleared after it was scaled":    {one, cleared, true, true, true, true}, // its managed fields
		"cleared":                        {one, cleared, false, true, true, false},
		"set anew after that":            {two, edited, true, true, true, false},
		"upgraded after it was scaled":   {one, upgraded, true, true, true, false}, // and rolled back, say
		"edited to none":                 {one, zeroed, false, true, true, false},
		"scaled, and then set anew":      {two, scaled, false, true, true, false},
		"scaled, with an unknown past":   {"", scaled, false, true, true, true},
		"scaled, with a new default":     {two, scaled, false, true, false, true},
		"scaled, with the former one":    {one, scaled, true, false, true, true}, // as the API server has stored it
		"edited, with the former one":    {one, edited, true, false, true, true},
		"scaled, and then set":           {two, scaled, true, false, true, false},
		"scaled, and set in the unknown": {"", scaled, true, false, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			var previous *unstructured.Unstructured
			if c.previous != "" {
				previous = parse(t, c.previous)
			}
			scalable := func(_ *unstructured.Unstructured, another bool) bool { return c.scalable && (!another || !c.asked) }
			if left := LeftTo(previous, parse(t, c.live), parse(t, one), nil, c.wasScaled, scalable); len(left) == 1 != c.left {
				t.Errorf("left are %v", left)
			}
		})
	}
}

// A claim that others have made grow can't shrink: unless the chart wants more, or has wanted as much before,
// it stays, and is no drift.
func TestLeftToWhoGrowsAClaim(t *testing.T) {
	asking := func(size string) *unstructured.Unstructured {
		return parse(t, "{apiVersion: v1, kind: PersistentVolumeClaim, spec: {resources: {requests: {storage: "+size+"}}}}")
	}
	for name, c := range map[string]struct {
		previous *unstructured.Unstructured
		live     string
		left     bool
	}{
		"grown":                       {asking("1Gi"), "2Gi", true},
		"grown, with an unknown past": {nil, "2Gi", true},
		"the same, in other words":    {asking("1Gi"), "1024Mi", false},
		"shrunk":                      {asking("1Gi"), "1Mi", false},
		"the chart has wanted more":   {asking("2Gi"), "2Gi", false},
	} {
		t.Run(name, func(t *testing.T) {
			live, desired := asking(c.live), asking("1Gi")
			left := LeftTo(c.previous, live, desired, nil, false, nil)
			restored := Restore(c.previous, live, desired, left)
			if stays := reflect.DeepEqual(restored, live); stays != c.left {
				t.Errorf("it becomes %v", restored.Object)
			}
			child := ChildOf(restored, desired, left, nil, "")
			if grown := asking("9Gi"); has(Fingerprint(grown, nil), child.Fingerprint) != c.left {
				t.Error("to grow is a drift or not, whoever it is left to")
			}
		})
	}
}

// What admission would make of a new object as well stays, and nothing else does.
func TestLeftToAdmission(t *testing.T) {
	live := parse(t, `{metadata: {annotations: {a: theirs}}, spec: {replicas: 5, service: a, policy: {a: theirs, b: given}, lost: {c: d}, pair: [1, 2],
		containers: [{name: side, image: mirror/side}, {name: main, image: mirror/main, args: [theirs]}], labels: {uid: "1", team: given}}}`)
	restored := parse(t, `{metadata: {annotations: {a: b}}, spec: {replicas: 1, service: a, policy: {a: b}, lost: {c: d, e: f}, pair: [1],
		containers: [{name: main, image: main, args: [ours]}, {name: side, image: side}], labels: {uid: "1"}}}`)
	anew := parse(t, `{metadata: {annotations: {a: theirs}}, spec: {replicas: 1, service: a, policy: {a: b, b: given}, lost: {c: d}, pair: [1],
		containers: [{name: main, image: mirror/main, args: [ours]}, {name: side, image: mirror/side}], labels: {uid: "2", team: given}}}`)
	var got []string
	left := LeftToAdmission(live, restored, anew)
	for _, p := range left {
		got = append(got, p.String())
	}
	slices.Sort(got)
	if want := []string{"/spec/containers/0/image", "/spec/containers/1/image", "/spec/labels/team", "/spec/lost/e", "/spec/policy/b"}; !slices.Equal(got, want) {
		t.Errorf("%q stay, not %q", got, want)
	}
	kept, want := left.keep(restored.Object, live.Object), parse(t, `{metadata: {annotations: {a: b}}, spec: {replicas: 1, service: a, policy: {a: b, b: given}, lost: {c: d}, pair: [1],
		containers: [{name: main, image: mirror/main, args: [ours]}, {name: side, image: mirror/side}], labels: {uid: "1", team: given}}}`)
	if !reflect.DeepEqual(kept, want.Object) {
		t.Errorf("with them, it is %v", kept)
	}
}
