#!/usr/bin/env bash
# Sees to it that what begins meets no operator that something else left, nor what such a one leaves behind: two would fight.
# The local cluster (KUBECONFIG is not set, or names it) is made anew then. In another cluster nothing is deleted: this fails,
# and says what is in the way.
#
#   hack/fresh.sh demo    what `make deploy` deploys is not in the way: the demo brings it up to date
#   hack/fresh.sh tests   every operator is, and every Welcome
#   hack/fresh.sh shared NAMESPACE OBJECT …   what the e2e tests would delete is: operator, CRD, and these objects in NAMESPACE
set -euo pipefail
shopt -s inherit_errexit
cd -P "$(dirname "$0")/.." # as make names it
local_kubeconfig=$PWD/.cluster/kubeconfig
export KUBECONFIG=${KUBECONFIG:-$local_kubeconfig}
kubectl() { bin/kubectl --request-timeout=30s "$@"; }

operators() { # SELECTOR
  kubectl get deployments --all-namespaces --field-selector metadata.name=welcome-operator-controller-manager --selector "$1" \
    --output 'jsonpath={range .items[*]}operator in namespace {.metadata.namespace}{"\n"}{end}'
}
crds() { # PATTERN
  kubectl get crd --output 'jsonpath={range .items[*]}CRD {.metadata.name}{"\n"}{end}' | sed -n "/$1\$/p"
}
welcomes() {
  if [ -n "$(crds welcomes.webapp.demo.welcome.domain)" ]; then
    kubectl get welcomes --all-namespaces --output 'jsonpath={range .items[*]}Welcome {.metadata.namespace}/{.metadata.name}{"\n"}{end}'
  fi
}
in_the_way() {
  case $1 in
    demo) operators olm.owner ;;
    tests) operators ''; crds welcomes.webapp.demo.welcome.domain; welcomes ;;
    shared)
      crds welcomes.webapp.demo.welcome.domain
      if [ "$2" = welcome-operator-system ]; then echo "TEST_NAMESPACE: $2 is the operator's, and it has to be another one"; fi
      kubectl --namespace=welcome-operator-system get deployments --output=name
      kubectl --namespace="$2" get --ignore-not-found --output=name "${@:3}"
      return ;;
  esac
  # Elsewhere OLM is the platform's.
  if [ "$KUBECONFIG" = "$local_kubeconfig" ]; then crds operators.coreos.com; fi
}

found=$(in_the_way "$@")
if [ -z "$found" ]; then exit 0; fi
printf 'In the way, left by something that ran before:\n%s\n' "$found" >&2
if [ "$KUBECONFIG" != "$local_kubeconfig" ]; then
  echo "Nothing is deleted in the cluster of KUBECONFIG=$KUBECONFIG: do that yourself (make undeploy, docs/olm.md), or choose another one." >&2
  exit 1
fi
echo 'The local cluster is removed with all of that, and made anew.' >&2
exec make --no-print-directory cluster-down cluster
