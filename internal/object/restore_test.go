package object

import (
	"fmt"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		t.Fatal(err)
	}
	return object
}

func TestRestore(t *testing.T) {
	for name, c := range map[string]struct{ live, desired, want string }{
		"a changed field comes back": {
			"{apiVersion: apps/v1, kind: Deployment, spec: {minReadySeconds: 9, template: {a: drifted}}}",
			"{apiVersion: apps/v1, kind: Deployment, spec: {template: {a: wanted}}}",
			"{apiVersion: apps/v1, kind: Deployment, spec: {template: {a: wanted}}}",
		},
		"replicas of an autoscaler stay": {
			"{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 4}}",
			"{apiVersion: apps/v1, kind: Deployment, spec: {paused: false}}",
			"{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 4, paused: false}}",
		},
		"a restart and a pause stay": {
			"{apiVersion: apps/v1, kind: Deployment, spec: {paused: true, template: {a: drifted, metadata: {labels: {a: b, c: d}, annotations: {kubectl.kubernetes.io/restartedAt: now, example.com/theirs: x}}}}}",
			"{apiVersion: apps/v1, kind: Deployment, spec: {template: {a: wanted, metadata: {labels: {a: b}}}}}",
			"{apiVersion: apps/v1, kind: Deployment, spec: {paused: true, template: {a: wanted, metadata: {labels: {a: b}, annotations: {kubectl.kubernetes.io/restartedAt: now}}}}}",
		},
		"Reloader's variables stay where they are, and no others": {
			"{apiVersion: apps/v1, kind: StatefulSet, spec: {template: {spec: {containers: [{name: side, env: [{name: STAKATER_A_SECRET, value: x}]}, {name: main, env: [{name: STAKATER_A_CONFIGMAP, value: x}, {name: A, value: drifted}, {name: STAKATER_A_SECRET, valueFrom: {secretKeyRef: {name: theirs}}}, {name: B, value: theirs}, {name: STAKATER_B_SECRET, value: x}]}]}}}}",
			"{apiVersion: apps/v1, kind: StatefulSet, spec: {template: {spec: {containers: [{name: main, env: [{name: A, value: wanted}]}, {name: side}]}}}}",
			"{apiVersion: apps/v1, kind: StatefulSet, spec: {template: {spec: {containers: [{name: main, env: [{name: STAKATER_A_CONFIGMAP, value: x}, {name: A, value: wanted}, {name: STAKATER_B_SECRET, value: x}]}, {name: side, env: [{name: STAKATER_A_SECRET, value: x}]}]}}}}",
		},
		"a pause of the chart's comes back": {
			"{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 1}}",
			"{apiVersion: apps/v1, kind: Deployment, spec: {paused: true}}",
			"{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 1, paused: true}}",
		},
		"an address of a load balancer stays": {
			"{apiVersion: v1, kind: Service, spec: {loadBalancerIP: 10.9.9.9, externalName: theirs}}",
			"{apiVersion: v1, kind: Service, spec: {type: LoadBalancer}}",
			"{apiVersion: v1, kind: Service, spec: {type: LoadBalancer, loadBalancerIP: 10.9.9.9}}",
		},
		"cert-manager's challenge stays, and no other path": {
			"{apiVersion: networking.k8s.io/v1, kind: Ingress, spec: {rules: [{host: a, http: {paths: [{path: /.well-known/acme-challenge/x, backend: {service: {name: cm-acme-http-solver-1}}}, {path: /.well-known/acme-challenge/x, backend: {service: {name: theirs}}}, {path: /}, {path: /theirs}]}}, {host: b, http: {paths: [{path: /}]}}]}}",
			"{apiVersion: networking.k8s.io/v1, kind: Ingress, spec: {rules: [{host: a, http: {paths: [{path: /}]}}]}}",
			"{apiVersion: networking.k8s.io/v1, kind: Ingress, spec: {rules: [{host: a, http: {paths: [{path: /.well-known/acme-challenge/x, backend: {service: {name: cm-acme-http-solver-1}}}, {path: /}]}}]}}",
		},
		"Secrets that OpenShift gives a ServiceAccount stay, and no others": {
			"{apiVersion: v1, kind: ServiceAccount, metadata: {name: a}, secrets: [{name: a-token-abcde}], imagePullSecrets: [{name: a-dockercfg-abcde}, {name: b-dockercfg-abcde}, {name: theirs}]}",
			"{apiVersion: v1, kind: ServiceAccount, metadata: {name: a}, imagePullSecrets: [{name: mine}, {name: a-dockercfg-mine}]}",
			"{apiVersion: v1, kind: ServiceAccount, metadata: {name: a}, secrets: [{name: a-token-abcde}], imagePullSecrets: [{name: mine}, {name: a-dockercfg-mine}, {name: a-dockercfg-abcde}]}",
		},
		"what is empty counts in a custom resource": {
			"{apiVersion: cert-manager.io/v1, kind: Issuer, spec: {acme: {}}}",
			"{apiVersion: cert-manager.io/v1, kind: Issuer, spec: {selfSigned: {}, acme: {}, ca: null}}",
			"{apiVersion: cert-manager.io/v1, kind: Issuer, spec: {selfSigned: {}, acme: {}}}",
		},
		"until the chart makes it null": {
			"{apiVersion: cert-manager.io/v1, kind: Issuer, spec: {selfSigned: {}, acme: {}}}",
			"{apiVersion: cert-manager.io/v1, kind: Issuer, spec: {selfSigned: null, acme: {}}}",
			"{apiVersion: cert-manager.io/v1, kind: Issuer, spec: {selfSigned: null, acme: {}}}",
		},
		"and is dropped where the API server drops it": {
			"{apiVersion: batch/v1, kind: Job, spec: {template: {}}}",
			"{apiVersion: batch/v1, kind: Job, spec: {template: {metadata: {}}}}",
			"{apiVersion: batch/v1, kind: Job, spec: {template: {}}}",
		},
		"what others have put into the pods of a CronJob goes, and a suspension stays": {
			"{apiVersion: batch/v1, kind: CronJob, spec: {suspend: true, jobTemplate: {spec: {template: {spec: {hostNetwork: true, volumes: [{name: a, hostPath: {path: /}}]}}}}}}",
			"{apiVersion: batch/v1, kind: CronJob, spec: {jobTemplate: {spec: {template: {spec: {volumes: [{name: a, emptyDir: {}}]}}}}}}",
			"{apiVersion: batch/v1, kind: CronJob, spec: {suspend: true, jobTemplate: {spec: {template: {spec: {volumes: [{name: a, emptyDir: {}}]}}}}}}",
		},
		"replicas of the chart come back": {
			"{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 4}}",
			"{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 1}}",
			"{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 1}}",
		},
		"what the cluster gave a Service stays": {
			"{apiVersion: v1, kind: Service, spec: {clusterIP: 10.0.0.1, ports: [{name: http, port: 1, nodePort: 30000}], externalIPs: [10.9.9.9]}}",
			"{apiVersion: v1, kind: Service, spec: {ports: [{name: http, port: 80}]}}",
			"{apiVersion: v1, kind: Service, spec: {clusterIP: 10.0.0.1, ports: [{name: http, port: 80, nodePort: 30000}]}}",
		},
		"labels, annotations and owners of others stay": {
			"{apiVersion: v1, kind: Service, metadata: {labels: {a: drifted, theirs: x}, annotations: {theirs: x}, ownerReferences: [{apiVersion: v1, kind: Thing, name: it, uid: '1'}]}}",
			"{apiVersion: v1, kind: Service, metadata: {labels: {a: wanted}}}",
			"{apiVersion: v1, kind: Service, metadata: {labels: {a: wanted, theirs: x}, annotations: {theirs: x}, ownerReferences: [{apiVersion: v1, kind: Thing, name: it, uid: '1'}]}}",
		},
		"fields of an unknown kind stay": {
			"{apiVersion: example.com/v1, kind: Thing, spec: {filled: in, a: drifted}}",
			"{apiVersion: example.com/v1, kind: Thing, spec: {a: wanted}}",
			"{apiVersion: example.com/v1, kind: Thing, spec: {filled: in, a: wanted}}",
		},
		"elements of a list are matched by name": {
			"{apiVersion: example.com/v1, kind: Thing, spec: {list: [{name: b, default: 1}, {name: added}, {name: a, default: 2}]}}",
			"{apiVersion: example.com/v1, kind: Thing, spec: {list: [{name: a}, {name: b}]}}",
			"{apiVersion: example.com/v1, kind: Thing, spec: {list: [{name: a, default: 2}, {name: b, default: 1}]}}",
		},
		"what admission has put into a pod stays": {
			"{apiVersion: v1, kind: Pod, spec: {nodeName: n, initContainers: [{name: sidecar}], tolerations: [{key: ours, operator: Exists}, {key: theirs}], volumes: [{name: v, projected: {sources: [{serviceAccountToken: {path: t, expirationSeconds: 3600}}, {downwardAPI: {items: [{path: p, fieldRef: {apiVersion: v1, fieldPath: f}}]}}]}}, {name: theirs}], containers: [{name: it, image: 'i:0', args: [b], volumeMounts: [{name: d, mountPath: /b, readOnly: true}, {name: d, mountPath: /a}, {name: token, mountPath: /t}]}, {name: proxy}]}}",
			"{apiVersion: v1, kind: Pod, spec: {tolerations: [{key: ours}], volumes: [{name: v, projected: {sources: [{serviceAccountToken: {path: t}}, {downwardAPI: {items: [{path: p, fieldRef: {fieldPath: f}}]}}]}}], containers: [{name: it, image: 'i:1', args: [a], volumeMounts: [{name: d, mountPath: /a}, {name: d, mountPath: /b}, {name: d, mountPath: /c}]}]}}",
			"{apiVersion: v1, kind: Pod, spec: {nodeName: n, initContainers: [{name: sidecar}], tolerations: [{key: ours, operator: Exists}, {key: theirs}], volumes: [{name: v, projected: {sources: [{serviceAccountToken: {path: t, expirationSeconds: 3600}}, {downwardAPI: {items: [{path: p, fieldRef: {apiVersion: v1, fieldPath: f}}]}}]}}, {name: theirs}], containers: [{name: it, image: 'i:1', args: [a], volumeMounts: [{name: d, mountPath: /b, readOnly: true}, {name: d, mountPath: /a}, {name: token, mountPath: /t}, {name: d, mountPath: /c}]}, {name: proxy}]}}",
		},
		"an element before that is gone comes back without fields of the next": {
			"{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, rules: [{resources: [deployments], resourceNames: [x], theirs: 1}]}",
			"{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, rules: [{resources: [configmaps]}, {resources: [deployments], resourceNames: [x]}]}",
			"{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, rules: [{resources: [configmaps]}, {resources: [deployments], resourceNames: [x], theirs: 1}]}",
		},
		"an element that somebody has put before goes, and gives none its fields": {
			"{apiVersion: example.com/v1, kind: Thing, spec: {http: [{fault: theirs}, {route: [{to: a, weight: 1}], default: 1}]}}",
			"{apiVersion: example.com/v1, kind: Thing, spec: {http: [{route: [{to: a}]}]}}",
			"{apiVersion: example.com/v1, kind: Thing, spec: {http: [{route: [{to: a, weight: 1}], default: 1}]}}",
		},
		"elements in another order come back with their own fields": {
			"{apiVersion: example.com/v1, kind: Thing, spec: {list: [{a: 2, b: 2}, {a: 1, c: 1}, {name: x, d: 1}]}}",
			"{apiVersion: example.com/v1, kind: Thing, spec: {list: [{name: x}, {a: 1}, {a: 2}]}}",
			"{apiVersion: example.com/v1, kind: Thing, spec: {list: [{name: x, d: 1}, {a: 1, c: 1}, {a: 2, b: 2}]}}",
		},
		"of an element that may be one of two nothing is taken": {
			"{apiVersion: example.com/v1, kind: Thing, spec: {list: [{a: 1, b: 1}]}}",
			"{apiVersion: example.com/v1, kind: Thing, spec: {list: [{}, {a: 1}]}}",
			"{apiVersion: example.com/v1, kind: Thing, spec: {list: [{}, {a: 1}]}}",
		},
		"of two elements that may be one nothing is taken": {
			"{apiVersion: example.com/v1, kind: Thing, spec: {list: [{a: 1, b: 1}, {a: 1, b: 2}]}}",
			"{apiVersion: example.com/v1, kind: Thing, spec: {list: [{a: 1}]}}",
			"{apiVersion: example.com/v1, kind: Thing, spec: {list: [{a: 1}]}}",
		},
		"an element with a name is not one without": {
			"{apiVersion: example.com/v1, kind: Thing, spec: {list: [{name: x, a: 1, b: 1}, {a: 2}]}}",
			"{apiVersion: example.com/v1, kind: Thing, spec: {list: [{name: x, b: 2}, {a: 1}]}}",
			"{apiVersion: example.com/v1, kind: Thing, spec: {list: [{name: x, a: 1, b: 2}, {a: 1}]}}",
		},
		"elements of one name are told apart by what they say": {
			"{apiVersion: example.com/v1, kind: Thing, spec: {mounts: [{name: d, path: /a, subPath: a}, {name: d, path: /b}]}}",
			"{apiVersion: example.com/v1, kind: Thing, spec: {mounts: [{name: d, path: /a, subPath: a}, {name: d, path: /c}]}}",
			"{apiVersion: example.com/v1, kind: Thing, spec: {mounts: [{name: d, path: /a, subPath: a}, {name: d, path: /c}]}}",
		},
	} {
		t.Run(name, func(t *testing.T) {
			live, desired := parse(t, c.live), parse(t, c.desired)
			if got, want := Restore(nil, live, desired, nil).Object, parse(t, c.want).Object; !reflect.DeepEqual(got, want) {
				t.Errorf("got  %v\nwant %v", got, want)
			}
			if !reflect.DeepEqual(live, parse(t, c.live)) || !reflect.DeepEqual(desired, parse(t, c.desired)) {
				t.Error("the arguments were changed")
			}
		})
	}
}

func TestRestoreDropsWhatTheChartHasDropped(t *testing.T) {
	for name, c := range map[string]struct{ previous, live, desired, want string }{
		"a field": {
			"{apiVersion: v1, kind: ConfigMap, data: {a: '1', b: '2'}}",
			"{apiVersion: v1, kind: ConfigMap, data: {a: '1', b: '2', theirs: x}}",
			"{apiVersion: v1, kind: ConfigMap, data: {a: '1'}}",
			"{apiVersion: v1, kind: ConfigMap, data: {a: '1', theirs: x}}",
		},
		"a label": {
			"{apiVersion: v1, kind: Service, metadata: {labels: {a: '1', b: '2'}}}",
			"{apiVersion: v1, kind: Service, metadata: {labels: {a: '1', b: '2', theirs: x}}}",
			"{apiVersion: v1, kind: Service, metadata: {labels: {a: '1'}}}",
			"{apiVersion: v1, kind: Service, metadata: {labels: {a: '1', theirs: x}}}",
		},
		"a field of an element of a list": {
			"{apiVersion: example.com/v1, kind: Thing, spec: {list: [{name: a, x: 1, y: 1}]}}",
			"{apiVersion: example.com/v1, kind: Thing, spec: {list: [{name: a, x: 1, y: 1, default: 1}]}}",
			"{apiVersion: example.com/v1, kind: Thing, spec: {list: [{name: a, x: 2}]}}",
			"{apiVersion: example.com/v1, kind: Thing, spec: {list: [{name: a, x: 2, default: 1}]}}",
		},
		"a field of a Service's port": {
			"{apiVersion: v1, kind: Service, spec: {ports: [{name: http, port: 80, appProtocol: http}]}}",
			"{apiVersion: v1, kind: Service, spec: {ports: [{name: http, port: 80, appProtocol: http, nodePort: 30000}]}}",
			"{apiVersion: v1, kind: Service, spec: {ports: [{name: web, port: 80}]}}",
			"{apiVersion: v1, kind: Service, spec: {ports: [{name: web, port: 80, nodePort: 30000}]}}",
		},
		"ports of a Service that go by each other's names and numbers": {
			"{apiVersion: v1, kind: Service, spec: {ports: [{name: http, port: 80}, {name: dns, port: 53}, {name: dns-udp, port: 53, protocol: UDP}]}}",
			"{apiVersion: v1, kind: Service, spec: {ports: [{name: http, port: 80, nodePort: 30000}, {name: dns, port: 53, nodePort: 30053}, {name: dns-udp, port: 53, protocol: UDP, nodePort: 30053}]}}",
			"{apiVersion: v1, kind: Service, spec: {ports: [{name: old, port: 80}, {name: http, port: 8080}, {name: dns-udp, port: 53, protocol: UDP}, {name: dns-tcp, port: 53}]}}",
			"{apiVersion: v1, kind: Service, spec: {ports: [{name: old, port: 80}, {name: http, port: 8080, nodePort: 30000}, {name: dns-udp, port: 53, protocol: UDP, nodePort: 30053}, {name: dns-tcp, port: 53, nodePort: 30053}]}}",
		},
		"a node port that the chart gives to another port": {
			"{apiVersion: v1, kind: Service, spec: {ports: [{name: http, port: 80, nodePort: 30080}, {name: admin, port: 81}]}}",
			"{apiVersion: v1, kind: Service, spec: {ports: [{name: http, port: 80, nodePort: 30080}, {name: admin, port: 81, nodePort: 30001}]}}",
			"{apiVersion: v1, kind: Service, spec: {ports: [{name: http, port: 81}, {name: admin, port: 80, nodePort: 30080}]}}",
			"{apiVersion: v1, kind: Service, spec: {ports: [{name: http, port: 81, nodePort: 30001}, {name: admin, port: 80, nodePort: 30080}]}}",
		},
		"a pause": {
			"{apiVersion: apps/v1, kind: Deployment, spec: {paused: true, replicas: 3}}",
			"{apiVersion: apps/v1, kind: Deployment, spec: {paused: true, replicas: 3}}",
			"{apiVersion: apps/v1, kind: Deployment, spec: {}}",
			"{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 3}}", // an autoscaler's from now on
		},
		"but not that nothing is to run": {
			"{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 0}}",
			"{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 0}}",
			"{apiVersion: apps/v1, kind: Deployment, spec: {paused: false}}",
			"{apiVersion: apps/v1, kind: Deployment, spec: {paused: false}}",
		},
		"so are those of a kind that nobody here knows": {
			"{apiVersion: example.com/v1, kind: Rollout, spec: {paused: true, replicas: 3}}",
			"{apiVersion: example.com/v1, kind: Rollout, spec: {paused: true, replicas: 5}}",
			"{apiVersion: example.com/v1, kind: Rollout, spec: {}}",
			"{apiVersion: example.com/v1, kind: Rollout, spec: {replicas: 5}}",
		},
		"a suspension": {
			"{apiVersion: batch/v1, kind: CronJob, spec: {suspend: true}}",
			"{apiVersion: batch/v1, kind: CronJob, spec: {suspend: true}}",
			"{apiVersion: batch/v1, kind: CronJob, spec: {schedule: '@daily'}}",
			"{apiVersion: batch/v1, kind: CronJob, spec: {schedule: '@daily'}}",
		},
		"the address of a load balancer, but for what the cluster has assigned": {
			"{apiVersion: v1, kind: Service, spec: {loadBalancerIP: 10.9.9.9, clusterIP: None}}",
			"{apiVersion: v1, kind: Service, spec: {loadBalancerIP: 10.9.9.9, clusterIP: None}}",
			"{apiVersion: v1, kind: Service, spec: {}}",
			"{apiVersion: v1, kind: Service, spec: {clusterIP: None}}",
		},
		"not the address that somebody else has set": {
			"{apiVersion: v1, kind: Service, spec: {loadBalancerIP: 10.9.9.8}}",
			"{apiVersion: v1, kind: Service, spec: {loadBalancerIP: 10.9.9.9}}",
			"{apiVersion: v1, kind: Service, spec: {}}",
			"{apiVersion: v1, kind: Service, spec: {loadBalancerIP: 10.9.9.9}}",
		},
		"not the class of an Ingress, for the API server gives the default one to new ones only": {
			"{apiVersion: networking.k8s.io/v1, kind: Ingress, spec: {ingressClassName: a}}",
			"{apiVersion: networking.k8s.io/v1, kind: Ingress, spec: {ingressClassName: a}}",
			"{apiVersion: networking.k8s.io/v1, kind: Ingress, spec: {}}",
			"{apiVersion: networking.k8s.io/v1, kind: Ingress, spec: {ingressClassName: a}}",
		},
		"all of a map, but for what others have put there": {
			"{apiVersion: v1, kind: ConfigMap, metadata: {finalizers: [ours]}, data: {a: '1'}}",
			"{apiVersion: v1, kind: ConfigMap, metadata: {finalizers: [ours, theirs]}, data: {a: '1', theirs: x}}",
			"{apiVersion: v1, kind: ConfigMap, metadata: {}}",
			"{apiVersion: v1, kind: ConfigMap, metadata: {finalizers: [theirs]}, data: {theirs: x}}",
		},
		"a container of a pod, which was no sidecar": {
			"{apiVersion: v1, kind: Pod, spec: {containers: [{name: a, env: [{name: x}]}, {name: b}]}}",
			"{apiVersion: v1, kind: Pod, spec: {containers: [{name: a, env: [{name: x}, {name: theirs}]}, {name: b}, {name: theirs}]}}",
			"{apiVersion: v1, kind: Pod, spec: {containers: [{name: a, env: [{name: y}]}]}}",
			"{apiVersion: v1, kind: Pod, spec: {containers: [{name: a, env: [{name: theirs}, {name: y}]}, {name: theirs}]}}",
		},
		"all of a map": {
			"{apiVersion: v1, kind: ConfigMap, data: {a: '1'}}",
			"{apiVersion: v1, kind: ConfigMap, data: {a: '1'}}",
			"{apiVersion: v1, kind: ConfigMap}",
			"{apiVersion: v1, kind: ConfigMap}",
		},
		"by the words of another version, what still is as it was": {
			"{apiVersion: example.com/v1beta1, kind: Thing, metadata: {labels: {ours: x}, finalizers: [ours]}, spec: {a: 1, b: 1, map: {a: 1, b: 1}}}",
			"{apiVersion: example.com/v1, kind: Thing, metadata: {labels: {ours: y, theirs: x}, finalizers: [ours, theirs]}, spec: {a: 1, b: 2, c: 1, map: {a: 1, b: 2}}}",
			"{apiVersion: example.com/v1, kind: Thing, metadata: {}, spec: {c: 2}}",
			"{apiVersion: example.com/v1, kind: Thing, metadata: {labels: {theirs: x}, finalizers: [theirs]}, spec: {b: 2, c: 2, map: {b: 2}}}",
		},
		"also in an element of a list, to which the API server has added something": {
			"{apiVersion: example.com/v1beta1, kind: Thing, spec: {rules: [{backends: [{port: 80}], timeouts: {request: 5s}}]}}",
			"{apiVersion: example.com/v1, kind: Thing, spec: {rules: [{backends: [{port: 80, weight: 1}], matches: [{path: /}], timeouts: {request: 5s}}]}}",
			"{apiVersion: example.com/v1, kind: Thing, spec: {rules: [{backends: [{port: 80}]}]}}",
			"{apiVersion: example.com/v1, kind: Thing, spec: {rules: [{backends: [{port: 80, weight: 1}], matches: [{path: /}]}]}}",
		},
		"nothing by those of another kind": {
			"{apiVersion: example.com/v1, kind: Other, spec: {a: 1}}",
			"{apiVersion: example.com/v1, kind: Thing, spec: {a: 1}}",
			"{apiVersion: example.com/v1, kind: Thing, spec: {}}",
			"{apiVersion: example.com/v1, kind: Thing, spec: {a: 1}}",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got, want := Restore(parse(t, c.previous), parse(t, c.live), parse(t, c.desired), nil).Object, parse(t, c.want).Object; !reflect.DeepEqual(got, want) {
				t.Errorf("got  %v\nwant %v", got, want)
			}
		})
	}
}

func TestRestoreLeavesWhatIsIgnored(t *testing.T) {
	for name, c := range map[string]struct{ path, live, desired, want string }{
		"a field": {
			"/spec/a", "{spec: {a: theirs, b: drifted}}", "{spec: {a: wanted, b: wanted}}", "{spec: {a: theirs, b: wanted}}",
		},
		"a field that they have removed": {
			"/spec/a", "{spec: {b: drifted}}", "{spec: {a: wanted, b: wanted}}", "{spec: {b: wanted}}",
		},
		"all that is in a field": {
			"/spec/a", "{spec: {a: {x: theirs}}}", "{spec: {a: {y: wanted}}}", "{spec: {a: {x: theirs}}}",
		},
		"a field whose parents are gone": {
			"/spec/a/b/c", "{spec: {x: 1}}", "{spec: {a: {b: {c: wanted, d: wanted}}, x: 1}}", "{spec: {a: {b: {d: wanted}}, x: 1}}",
		},
		"a field whose parents the chart does not have": {
			"/spec/a/b", "{spec: {a: {b: theirs, c: theirs}, x: 1}}", "{spec: {x: 1}}", "{spec: {a: {b: theirs}, x: 1}}",
		},
		"a field of an element of a list": {
			"/spec/list/1/a", "{spec: {list: [{a: drifted}, {a: theirs, b: drifted}]}}", "{spec: {list: [{a: wanted}, {a: wanted, b: wanted}]}}", "{spec: {list: [{a: wanted}, {a: theirs, b: wanted}]}}",
		},
		"a field of an element that is gone comes back with it": {
			"/spec/list/1/a", "{spec: {list: [{a: 1}]}}", "{spec: {list: [{a: 1}, {a: wanted}]}}", "{spec: {list: [{a: 1}, {a: wanted}]}}",
		},
		"a field of an element with a name, wherever they have put that": {
			"/spec/list/0/a/b", "{spec: {list: [{name: sidecar, a: {b: drifted}}, {name: it, a: {b: theirs}}]}}", "{spec: {list: [{name: it, a: {b: wanted}}]}}", "{spec: {list: [{name: it, a: {b: theirs}}]}}",
		},
		"a field of an element with a name that is gone comes back with it": {
			"/spec/list/0/a", "{spec: {list: [{name: other, a: drifted}]}}", "{spec: {list: [{name: it, a: wanted}]}}", "{spec: {list: [{name: it, a: wanted}]}}",
		},
		"a field of one of two elements of a name": {
			"/spec/list/1/a", "{spec: {list: [{name: it, a: 1}, {name: it, a: theirs}]}}", "{spec: {list: [{name: it, a: 1}, {name: it, a: wanted}]}}", "{spec: {list: [{name: it, a: 1}, {name: it, a: theirs}]}}",
		},
		"an element that they have added": {
			"/spec/list/1", "{spec: {list: [{a: drifted}, {a: theirs}]}}", "{spec: {list: [{a: wanted}]}}", "{spec: {list: [{a: wanted}, {a: theirs}]}}",
		},
		"finalizers": {
			"/metadata/finalizers", "{metadata: {finalizers: [theirs]}, spec: {b: drifted}}", "{metadata: {finalizers: [wanted]}, spec: {b: wanted}}", "{metadata: {finalizers: [theirs]}, spec: {b: wanted}}",
		},
		"finalizers that they have taken off": {
			"/metadata/finalizers", "{metadata: {name: a}, spec: {b: drifted}}", "{metadata: {name: a, finalizers: [wanted]}, spec: {b: wanted}}", "{metadata: {name: a}, spec: {b: wanted}}",
		},
		"an annotation with a slash": {
			"/metadata/annotations/example.com~1a~0b", "{metadata: {annotations: {example.com/a~b: theirs, c: drifted}}}", "{metadata: {annotations: {example.com/a~b: wanted, c: wanted}}}", "{metadata: {annotations: {example.com/a~b: theirs, c: wanted}}}",
		},
	} {
		t.Run(name, func(t *testing.T) {
			whole := func(text string) *unstructured.Unstructured {
				object := parse(t, text)
				object.SetAPIVersion("apps/v1")
				object.SetKind("DaemonSet")
				return object
			}
			rules, err := NewIgnored([]IgnoreRule{{Paths: []string{c.path}}})
			if err != nil {
				t.Fatal(err)
			}
			live, desired := whole(c.live), whole(c.desired)
			left := LeftTo(desired, live, desired, rules, false, func(*unstructured.Unstructured, bool) bool { return false })
			restored := Restore(nil, live, desired, left)
			if want := whole(c.want); !reflect.DeepEqual(restored.Object, want.Object) {
				t.Errorf("got  %v\nwant %v", restored.Object, want.Object)
			}
			// What was ignored makes no drift, and what was repaired does.
			child := ChildOf(restored, desired, left, rules, "")
			if !has(Fingerprint(restored, rules), child.Fingerprint) {
				t.Error("what was restored has drifted")
			}
			if drifted := !reflect.DeepEqual(live.Object, restored.Object); drifted == has(Fingerprint(live, rules), child.Fingerprint) {
				t.Errorf("a drift is seen: %v", !drifted)
			}
			pristine := ChildOf(desired, desired, left, rules, "")
			if drifted := !reflect.DeepEqual(live.Object, restored.Object); drifted == has(Fingerprint(live, rules), pristine.Fingerprint) {
				t.Errorf("after an install, a drift is seen: %v", !drifted)
			}
			if !reflect.DeepEqual(live.Object, whole(c.live).Object) || !reflect.DeepEqual(desired.Object, whole(c.desired).Object) {
				t.Error("the arguments were changed")
			}
		})
	}
}

// What others have set goes, but for their labels and annotations, replicas, and what is left to them.
func TestReset(t *testing.T) {
	for name, c := range map[string]struct{ live, desired, want string }{
		"what the cluster assigned to a Service": {
			"{apiVersion: v1, kind: Service, metadata: {annotations: {theirs: x}}, spec: {clusterIP: 10.0.0.1, healthCheckNodePort: 1, ports: [{port: 1, nodePort: 30000}]}, status: {a: b}}",
			"{apiVersion: v1, kind: Service, spec: {ports: [{port: 1}]}}",
			"{apiVersion: v1, kind: Service, metadata: {annotations: {theirs: x}}, spec: {ports: [{port: 1}]}, status: {a: b}}",
		},
		"a key that is in two places": {
			"{apiVersion: v1, kind: ConfigMap, data: {b: theirs}, binaryData: {a: dGhlaXJz}}",
			"{apiVersion: v1, kind: ConfigMap, data: {a: wanted}}",
			"{apiVersion: v1, kind: ConfigMap, data: {a: wanted}}",
		},
		"another source of a volume": {
			"{apiVersion: example.com/v1, kind: Thing, spec: {replicas: 3, theirs: x, volumes: [{name: a, configMap: {}}]}}",
			"{apiVersion: example.com/v1, kind: Thing, spec: {volumes: [{name: a, emptyDir: {}}]}}",
			"{apiVersion: example.com/v1, kind: Thing, spec: {replicas: 3, volumes: [{name: a, emptyDir: {}}]}}",
		},
		"what is left to others": {
			"{apiVersion: example.com/v1, kind: Thing, spec: {ignored: theirs, a: theirs}}",
			"{apiVersion: example.com/v1, kind: Thing, spec: {ignored: wanted}}",
			"{apiVersion: example.com/v1, kind: Thing, spec: {ignored: theirs}}",
		},
	} {
		t.Run(name, func(t *testing.T) {
			live := parse(t, c.live)
			if got, want := Reset(nil, live, parse(t, c.desired), Left{mustPointer("/spec/ignored")}).Object, parse(t, c.want).Object; !reflect.DeepEqual(got, want) {
				t.Errorf("got  %v\nwant %v", got, want)
			}
			if !reflect.DeepEqual(live, parse(t, c.live)) {
				t.Error("the argument was changed")
			}
		})
	}
}

func TestAnew(t *testing.T) {
	live := parse(t, "{apiVersion: apps/v1, kind: Deployment, metadata: {uid: '1', labels: {theirs: x}}, spec: {replicas: 7, selector: {a: old}, ignored: theirs}, status: {a: b}}")
	for desired, want := range map[string]string{
		"{apiVersion: apps/v1, kind: Deployment, spec: {selector: {a: new}, ignored: wanted}}":              "{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 7, selector: {a: new}, ignored: theirs}}",
		"{apiVersion: apps/v1, kind: Deployment, spec: {selector: {a: new}, replicas: 2, ignored: wanted}}": "{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 2, selector: {a: new}, ignored: theirs}}",
	} {
		if got, want := Anew(live, live, parse(t, desired), Left{mustPointer("/spec/ignored")}).Object, parse(t, want).Object; !reflect.DeepEqual(got, want) {
			t.Errorf("got  %v\nwant %v", got, want)
		}
	}
}

// A chart that passes on what authors write may make anything of any field. The API server is to say that,
// and not a panic, which would end the operator for all.
func TestAnyShapes(t *testing.T) {
	live := map[string]string{
		"Service":    "{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {type: NodePort, ports: [{port: 80, nodePort: 30080}], selector: {a: b}}}",
		"Deployment": "{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {replicas: 1, template: {spec: {containers: [{name: a, ports: [{containerPort: 80}], env: [{name: A}]}]}}}}",
		"Ingress":    "{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: a}, spec: {rules: [{host: a, http: {paths: [{path: /}]}}]}}",
		"Secret":     "{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {a: YQ==}}",
	}
	shapes := []any{nil, int64(80), "text", true, []any{int64(80)}, []any{nil}, []any{[]any{}}, map[string]any{"a": nil}, map[string]any{}}
	for kind, text := range live {
		for _, path := range [][]string{
			{"spec"}, {"spec", "ports"}, {"spec", "selector"}, {"spec", "rules"}, {"spec", "template"}, {"spec", "template", "spec"}, {"spec", "template", "spec", "containers"},
			{"spec", "template", "metadata"}, {"spec", "replicas"}, {"data"}, {"stringData"}, {"metadata", "annotations"}, {"metadata", "labels"}, {"status"},
		} {
			for _, shape := range shapes {
				live, desired := parse(t, text), parse(t, text)
				if err := unstructured.SetNestedField(desired.Object, runtime.DeepCopyJSONValue(shape), path...); err != nil {
					continue // what is above is no map
				}
				name := fmt.Sprintf("%s with %v: %v", kind, path, shape)
				t.Run(name, func(t *testing.T) {
					canonical := Canonical(desired)
					left := LeftTo(live, live, canonical, nil, false, func(*unstructured.Unstructured, bool) bool { return true })
					restored := Restore(live, live, canonical, left)
					Reset(live, live, canonical, left)
					Anew(live, live, canonical, left)
					Fingerprint(restored, nil)
					ChildOf(restored, canonical, left, nil, Plain)
					Asks(canonical)
				})
			}
		}
	}
}
