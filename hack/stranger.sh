#!/usr/bin/env bash
# Makes a kubeconfig for the local cluster as somebody has it who is no admin of a cluster: admin of two namespaces, with what CRDs and RBAC need. For `make test-stranger`.
# Usage: hack/stranger.sh NAMESPACE KUBECONFIG
set -euo pipefail
cd "$(dirname "$0")/.."
namespace=$1 kubeconfig=$2
kubectl() { bin/kubectl --kubeconfig=.cluster/kubeconfig "$@"; }

for ns in welcome-operator-system "$namespace"; do
  kubectl create namespace "$ns" --dry-run=client --output=yaml | kubectl apply --filename=-
  kubectl label --overwrite namespace "$ns" pod-security.kubernetes.io/enforce=restricted
  kubectl --namespace="$ns" create rolebinding stranger --clusterrole=admin --serviceaccount=default:stranger --dry-run=client --output=yaml | kubectl apply --filename=-
done
kubectl apply --filename=- <<'YAML'
apiVersion: v1
kind: ServiceAccount
metadata: {name: stranger, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: stranger}
rules:
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  verbs: ["*"]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [clusterroles, clusterrolebindings, roles, rolebindings]
  verbs: ["*"] # escalate and bind, too: the operator's rights are more than the stranger's
# Whoever deletes a CRD looks first what is there of it.
- apiGroups: [webapp.demo.welcome.domain]
  resources: [welcomes]
  verbs: [get, list, watch, delete]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: stranger}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: stranger}
subjects: [{kind: ServiceAccount, name: stranger, namespace: default}]
YAML
mkdir -p "$(dirname "$kubeconfig")"
umask 077
TOKEN=$(kubectl --namespace=default create token stranger --duration=2h)
export TOKEN
kubectl config view --raw --minify --output=json | jq '.users[0].user = {token: env.TOKEN}' > "$kubeconfig"
echo "$kubeconfig: who has it may all in the namespaces welcome-operator-system and $namespace, with CRDs and with RBAC, and nothing else"
