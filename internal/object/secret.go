package object

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Secret is the kind of Secrets.
var Secret = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}

// IsSecret is whether an object is a Secret.
func IsSecret(o *unstructured.Unstructured) bool {
	return o.GroupVersionKind().GroupKind() == Secret.GroupKind()
}

// withData moves stringData of a Secret to data, as the API server does when it stores it.
func withData(secret *unstructured.Unstructured) {
	texts, _, _ := unstructured.NestedMap(secret.Object, "stringData")
	if data, ok := secret.Object["data"].(map[string]any); ok || len(texts) > 0 && secret.Object["data"] == nil {
		all := both(data, nil)
		for key, text := range texts {
			all[key] = base64.StdEncoding.EncodeToString([]byte(fmt.Sprint(cmp.Or(text, any("")))))
		}
		withoutNulls(all)
		secret.Object["data"] = all
	}
	delete(secret.Object, "stringData")
}

// withoutNulls makes what is null in data empty, as the API server does: in a patch, null would take the key away.
func withoutNulls(data map[string]any) {
	for key, value := range data {
		data[key] = cmp.Or(value, any(""))
	}
}

// withFilled puts the values of a live Secret into the desired one, if the chart gives it none, now or before: its
// keys are empty for a controller to fill, as it does with the certificates of webhooks. Among values, an empty one
// is a value like others. What the operator has written is the chart's, also where no record proves that, as after
// an attempt that has failed: a password goes with the spec that had it.
func withFilled(previous map[string]any, live, desired *unstructured.Unstructured) {
	isFilled := func(value any) bool { return value != nil && value != "" }
	wanted := both(fields(desired.Object["data"]), nil)
	for _, data := range []map[string]any{fields(previous["data"]), wanted} {
		if slices.ContainsFunc(slices.Collect(maps.Values(data)), isFilled) {
			return
		}
	}
	ours := ownData(live)
	for key, value := range fields(live.Object["data"]) {
		if _, is := ours["f:"+key]; isFilled(value) && !is {
			wanted[key] = value
			desired.Object["data"] = wanted
		}
	}
}

// ownData are the managed fields in the data of a live Secret that the operator was the last to write.
func ownData(live *unstructured.Unstructured) map[string]any {
	ours := map[string]any{}
	for _, entry := range live.GetManagedFields() {
		if entry.Manager == Manager {
			ours = both(ours, fields(managed(entry)["f:data"]))
		}
	}
	return ours
}

// Quietly is ctx for requests about Secrets. With a high log level, client-go would log the bodies of
// requests and answers.
func Quietly(ctx context.Context) context.Context { return logr.NewContext(ctx, logr.Discard()) }
