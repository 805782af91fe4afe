{{/* Labels by which Deployment, Service and policies find the pods. Never change them: a Deployment's selector is immutable. */}}
{{- define "welcome.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
welcome: {{ .Release.Name | quote }}
{{- end }}

{{/* Labels of every object. Pods get only the selector labels: a chart version on them would restart them at every chart bump. */}}
{{- define "welcome.labels" -}}
{{ include "welcome.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | quote }}
{{- end }}

{{/* Name, namespace and labels of every object: each is named like its release, so there is one of a kind. */}}
{{- define "welcome.metadata" -}}
name: {{ .Release.Name | quote }}
namespace: {{ .Release.Namespace | quote }}
labels:
  {{- include "welcome.labels" . | nindent 2 }}
{{- end }}

{{/*
Annotations of an object, from a map. Keys that steer Helm or the operator would let a value turn the object into a hook or
keep it after an uninstall. The CRD refuses them with the same rule; this holds where the CRD was not asked.
*/}}
{{- define "welcome.annotations" -}}
{{- range $key, $_ := . }}
{{- if regexMatch `(^|\.)(helm\.sh|operator-sdk|operatorframework\.io|welcome\.domain)/` $key }}
{{- fail (printf "annotation %q is reserved for Helm and the operator: remove it" $key) }}
{{- end }}
{{- end }}
{{- with . -}}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/*
A CPU or memory quantity as the API server stores it: 0.5 as 500m, 1024Mi as 1Gi. What the chart renders is compared with
what the cluster holds, and any other spelling would look like drift for ever. Unknown spellings are left to the API server.
*/}}
{{- define "welcome.quantity" -}}
{{- $quantity := toString . }}
{{- if regexMatch `^[0-9]+(\.[0-9]{1,3})?$` $quantity }}
{{- $quantity = printf "%dm" (mulf $quantity 1000 | int64) }}
{{- end }}
{{- $number := regexFind `^[0-9]+` $quantity | int64 }}
{{- $unit := trimPrefix (toString $number) $quantity }}
{{- range list (list "m" "" 1000) (list "k" "M" 1000) (list "M" "G" 1000) (list "Ki" "Mi" 1024) (list "Mi" "Gi" 1024) (list "Gi" "Ti" 1024) }}
{{- $from := index . 0 }}{{ $to := index . 1 }}{{ $factor := index . 2 }}
{{- if and (eq $unit $from) (gt $number 0) (eq (mod $number $factor) 0) }}
{{- $number = div $number $factor }}{{ $unit = $to }}{{ $quantity = printf "%d%s" $number $unit }}
{{- end }}
{{- end }}
{{- $quantity }}
{{- end }}
