package main

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// statusSchema describes the status that the operator writes, the same for every kind. Texts have no maximum
// length: an error message that is too long must not keep the operator from reporting it.
func statusSchema() apiextensionsv1.JSONSchemaProps {
	status := object("What the operator sees; only it writes here.", nil, map[string]apiextensionsv1.JSONSchemaProps{
		"observedGeneration": {Description: "The metadata.generation that this status is about, -1 before there is any.", Type: "integer", Format: "int64", Minimum: new(-1.0)},
		"conditions": {
			Description:  "State in detail. Ready sums it up. Reconciling is True while the operator works on it, Stalled while somebody has to change something first; Initialized, Deployed, ReleaseFailed, Irreconcilable and Paused tell of the release. Tested tells of the tests of the chart that somebody has asked for last, Reconciled of the reconcile. Drifted and DriftLoop are there only while they are True: an object is not as the chart wants it, and is left so, or others undo each repair. So is IgnoredAnnotations: annotations have no effect.",
			Type:         "array",
			XListType:    new("map"),
			XListMapKeys: []string{"type"},
			Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: new(whole("One aspect of the state.", []string{"type", "status"}, map[string]apiextensionsv1.JSONSchemaProps{
				"type":               text("Which aspect."),
				"status":             {Description: "Whether it is so.", Type: "string", Enum: []apiextensionsv1.JSON{{Raw: []byte(`"True"`)}, {Raw: []byte(`"False"`)}, {Raw: []byte(`"Unknown"`)}}},
				"reason":             text("Why, in one word for programs."),
				"message":            text("Why, in words for people."),
				"lastTransitionTime": timestamp("When status last changed."),
				"observedGeneration": integer("The metadata.generation that this condition is about.", "int64"),
			}))},
		},
		"url":           text("Where it is reached over HTTP. A kind without a page has none."),
		"replicas":      integer("Pods that exist.", "int32"),
		"readyReplicas": integer("Pods that are ready.", "int32"),
		"selector":      text("Label selector of the pods, for autoscalers."),
		"release": whole("The Helm release behind it.", nil, map[string]apiextensionsv1.JSONSchemaProps{
			"name":        text("Name of the release."),
			"revision":    integer("Revision of the release; the install is 1, each upgrade adds 1.", "int64"),
			"chart":       text("Name of the chart."),
			"version":     text("Version of the chart."),
			"status":      text("State of the release in Helm's words, for example deployed."),
			"lastApplied": timestamp("When the revision was applied."),
			"digest":      text("SHA-256 of the rendered manifest (of a kind that may have Secrets, its HMAC, with a key in the release record). The release record is believed only if it has the same."),
			"record":      text("SHA-256, or HMAC, of what the metadata of the release record says: from what the manifest was rendered."),
			"inputs":      text("Digests of chart and values, and of what the chart has asked the cluster for, that the manifest was rendered from."),
			"children":    text("The objects of the release as they were applied: a JSON list of their kinds and names, with digests of what the chart wants in them."),
			"expiring":    text("Where there are too many for that, those that go by themselves, as Jobs with ttlSecondsAfterFinished do."),
			"generation":  integer("The metadata.generation whose spec the revision was made from.", "int64"),
			"unowned": {
				Description: "The objects of the release that carry no owner reference, for they are to outlive it (helm.sh/resource-policy: keep), or are in no namespace. It is by their UIDs that they are its own.",
				Type:        "array",
				Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: new(object("One object.", nil, map[string]apiextensionsv1.JSONSchemaProps{
					"apiVersion": text("Its API version."),
					"kind":       text("Its kind."),
					"name":       text("Its name."),
					"uid":        text("Its UID."),
				}))},
			},
		}),
		"deployedRelease": whole("The release that is deployed.", nil, map[string]apiextensionsv1.JSONSchemaProps{
			"name": text("Name of the release."),
		}),
		"tested":     text("The value of the annotation webapp.demo.welcome.domain/test that asked for the tests of which the condition Tested tells."),
		"reconciled": text("The value of the annotation webapp.demo.welcome.domain/reconcile that asked for what the condition Reconciled tells of."),
		"begun":      text("Digests of the manifest that is being applied, and of what it was rendered from, where the chart leaves something to chance: what was interrupted goes on with that one."),
		"operator":   text("The operator that has claimed it, by the namespace and name of its lease. No other operator touches it while that one lives."),
		"challenger": text("Another operator, which asks whether the one that has claimed it lives. It answers within seconds, or is taken for gone."),
	})
	// Tools that judge by kstatus (Flux, Argo CD, kpt) take an object without a status for one that is ready.
	status.Default = &apiextensionsv1.JSON{Raw: []byte(`{"observedGeneration":-1}`)}
	return status
}

func object(description string, required []string, properties map[string]apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
	return apiextensionsv1.JSONSchemaProps{Description: description, Type: "object", Required: required, Properties: properties}
}

// whole is an object that has one owner. Who owns each of its fields, the API server would keep in the
// managed fields of every custom resource, decoded: of eight conditions, that is an eighth of what its memory
// holds of a Welcome and its objects.
func whole(description string, required []string, properties map[string]apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
	schema := object(description, required, properties)
	schema.XMapType = new("atomic")
	return schema
}

func text(description string) apiextensionsv1.JSONSchemaProps {
	return apiextensionsv1.JSONSchemaProps{Description: description, Type: "string"}
}

func timestamp(description string) apiextensionsv1.JSONSchemaProps {
	return apiextensionsv1.JSONSchemaProps{Description: description, Type: "string", Format: "date-time"}
}

func integer(description, format string) apiextensionsv1.JSONSchemaProps {
	return apiextensionsv1.JSONSchemaProps{Description: description, Type: "integer", Format: format, Minimum: new(0.0)}
}
