#!/usr/bin/env bash
# Measures how soon a page is there, and how it serves, in the cluster of KUBECONFIG, where the operator must run. Called by
# `make figures`. Measure on a machine that does nothing else: cluster, page and load share its processors.
set -euo pipefail
cd "$(dirname "$0")/.."
namespace=welcome-figures
runs=5 rate=1000

bin/kubectl delete namespace $namespace --ignore-not-found >/dev/null
bin/kubectl create namespace $namespace >/dev/null
trap 'bin/kubectl delete namespace $namespace --wait=false >/dev/null' EXIT
kubectl() { bin/kubectl --namespace "$namespace" "$@"; }
node=$(kubectl get nodes -o 'jsonpath={.items[0].status.addresses[?(@.type=="InternalIP")].address}')

welcome() { # NAME GREETING
  printf 'apiVersion: webapp.demo.welcome.domain/v1\nkind: Welcome\nmetadata: {name: %s}\nspec: {name: %s}\n' "$1" "$2" \
    | kubectl apply -f - >/dev/null
}
url() { echo "http://$node:$(kubectl get service "$1" -o 'jsonpath={.spec.ports[0].nodePort}' 2>/dev/null)/hello/"; }
greets() { curl --silent --fail --noproxy '*' --max-time 1 "$(url "$1")" | grep -q "Hello $2"; }
await() { # NAME GREETING
  local deadline=$((SECONDS + 60))
  until greets "$1" "$2"; do
    [ $SECONDS -lt $deadline ] || { echo "figures: the page of $1 doesn't greet $2: is the operator deployed (make deploy)?" >&2; return 1; }
  done
}
figure() { sed -n "s/^$1 *//p" <<< "$report"; }
working_set() { # of the pods of NAME in MiB, as the kubelet accounts for it
  local pod
  pod=$(kubectl get pods --selector "welcome=$1" -o 'jsonpath={.items[0].metadata.name}')
  kubectl get --raw "/api/v1/nodes/$(kubectl get nodes -o 'jsonpath={.items[0].metadata.name}')/proxy/stats/summary" \
    | awk -v pod="\"$pod\"" '$1 == "\"name\":" {mine = mine || index($2, pod)} mine && /workingSetBytes/ {gsub(",", ""); printf "%.1f MiB\n", $2 / 1048576; exit}'
}
row() { printf '%-52s %s\n' "$@"; }

echo "measuring (about 90 s) ..." >&2
welcome warm world
await warm world
times=()
for i in $(seq $runs); do
  start=$(date +%s%N)
  welcome "page-$i" world
  await "page-$i" world
  times+=("$(awk "BEGIN {printf \"%.1f\", ($(date +%s%N) - $start) / 1e9}")")
done
row "Welcome applied → page answers, warm, $runs times" "${times[*]} s"

report=$(dist/load -url "$(url warm)" -rate $rate -duration 30s || true)
row "page at $rate requests/s: p50, p99, max" "$(figure p50), $(figure p99), $(figure max)"
row "page at $rate requests/s: failed" "$(figure failed) of $(figure requests)"
row "page at $rate requests/s: memory" "$(working_set warm)"

log=$(mktemp)
dist/load -url "$(url warm)" -rate $rate -duration 10m > "$log" &
load=$!
welcome warm myfriends
kubectl wait welcome/warm --for=condition=Ready --timeout=120s >/dev/null
await warm myfriends
until [ "$(kubectl get pods --selector welcome=warm --output name | wc -l)" = 1 ]; do sleep 1; done # the old pod drains
kill -INT $load
wait $load || true
report=$(cat "$log")
rm "$log"
row "rolling edit at $rate requests/s: failed" "$(figure failed) of $(figure requests)"
row "rolling edit at $rate requests/s: p99, max" "$(figure p99), $(figure max)"
