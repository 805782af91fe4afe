{{- define "zoo.metadata" -}}
name: {{ .Release.Name }}
labels: {app: {{ .Release.Name }}, number: {{ .Values.number | quote }}}
annotations: {first: "1", second: "2"}
{{- end }}

{{- define "zoo.pod" -}}
metadata:
  labels: {app: {{ .Release.Name }}, tier: front}
  annotations: {first: "1", second: "2"}
spec:
  terminationGracePeriodSeconds: 20
  serviceAccountName: {{ .Release.Name }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  securityContext:
    runAsNonRoot: true
    runAsUser: 1000
    supplementalGroups: [2000, 3000]
    seccompProfile: {type: RuntimeDefault}
  imagePullSecrets: [{name: pull-a}, {name: pull-b}]
  nodeSelector: {disk: ssd, zone: a}
  tolerations:
  - {key: a, operator: Exists, effect: NoSchedule}
  - {key: b, operator: Equal, value: "1", effect: NoExecute, tolerationSeconds: 60}
  hostAliases:
  - {ip: 192.0.2.1, hostnames: [a.example.com, b.example.com]}
  - {ip: 192.0.2.2, hostnames: [c.example.com]}
  dnsConfig:
    nameservers: [192.0.2.53, 192.0.2.54]
    options: [{name: ndots, value: "2"}, {name: edns0}]
  affinity:
    podAntiAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 10
        podAffinityTerm: {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: {{ .Release.Name }}}}}
      - weight: 20
        podAffinityTerm: {topologyKey: topology.kubernetes.io/zone, labelSelector: {matchExpressions: [{key: app, operator: In, values: [a, b]}]}}
  topologySpreadConstraints:
  - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: {{ .Release.Name }}}}}
  - {maxSkew: 2, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: {{ .Release.Name }}}}}
  volumes:
  - {name: scratch, emptyDir: {sizeLimit: 1Gi}}
  - {name: config, configMap: {name: {{ .Release.Name }}, items: [{key: a, path: a}, {key: b, path: b}]}}
  - name: projected
    projected:
      sources:
      - configMap: {name: {{ .Release.Name }}}
      - downwardAPI: {items: [{path: name, fieldRef: {fieldPath: metadata.name}}]}
  initContainers:
  - {name: init-a, image: example.com/init:1, command: [init, a]}
  - {name: init-b, image: example.com/init:2, args: [b]}
  containers:
  - name: main
    image: example.com/main:1
    command: [serve, --all]
    args: [--number, {{ .Values.number | quote }}]
    ports:
    - {name: http, containerPort: 8080}
    - {name: metrics, containerPort: 9090}
    env:
    - {name: NUMBER, value: {{ .Values.number | quote }}}
    - {name: FIXED, value: fixed}
    - {name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
    - {name: CONFIG, valueFrom: {configMapKeyRef: {name: {{ .Release.Name }}, key: a}}}
    envFrom:
    - configMapRef: {name: {{ .Release.Name }}}
    - {prefix: X_, configMapRef: {name: other, optional: true}}
    volumeMounts:
    - {name: scratch, mountPath: /scratch}
    - {name: config, mountPath: /config, readOnly: true}
    - {name: scratch, mountPath: /more, subPath: more}
    resources:
      requests: {cpu: 100m, memory: 32Mi}
      limits: {memory: 64Mi}
    startupProbe: {tcpSocket: {port: http}, periodSeconds: 1}
    readinessProbe: {httpGet: {path: /ready, port: http, httpHeaders: [{name: A, value: a}, {name: B, value: b}]}}
    livenessProbe: {exec: {command: [check, it]}, periodSeconds: 20}
    lifecycle: {preStop: {exec: {command: [sleep, "5"]}}}
    securityContext:
      allowPrivilegeEscalation: false
      capabilities: {drop: [ALL], add: [NET_BIND_SERVICE]}
  - name: side
    image: example.com/side:1
    ports:
    - {name: admin, containerPort: 7070, protocol: UDP}
    env:
    - {name: A, value: a}
    - {name: B, value: b}
{{- end }}
