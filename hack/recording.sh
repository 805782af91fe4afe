#!/usr/bin/env bash
# Records a terminal in which somebody types what README says of `kubectl welcome`, as a moving picture. Called by `make recording`, in the cluster of
# KUBECONFIG, where the operator must run. What it makes there is in a namespace of its own, which goes at the end.
set -euo pipefail
if [ "${1:-}" = session ]; then
  types() {
    printf '\e[32m$\e[0m '
    for ((i = 0; i < ${#1}; i++)); do printf '%s' "${1:i:1}"; sleep 0.02; done
    printf '\n'
    eval "$1" || true
    sleep "$2"
  }
  clear
  types 'kubectl welcome status -A' 6
  clear
  types 'kubectl welcome status colleagues' 9
  clear
  types 'kubectl welcome diff -A --chart helm-charts/welcome' 10
  exit
fi

cd "$(dirname "$0")/.."
picture=docs/images/kubectl-welcome.svg namespace=team-a
export PATH="$PWD/bin:$PATH"

command -v termtosvg >/dev/null || { echo "recording: termtosvg is missing; as root: apt-get install termtosvg" >&2; exit 1; }
work=$(mktemp -d)
kubectl get namespace $namespace >/dev/null 2>&1 && { echo "recording: namespace $namespace is somebody's" >&2; exit 1; }
trap 'kubectl delete namespace $namespace --wait=false >/dev/null; rm -rf "$work"' EXIT
kubectl create namespace $namespace >/dev/null
kubectl config view --flatten --minify > "$work/kubeconfig"
export KUBECONFIG=$work/kubeconfig
kubectl config set-context --current --namespace=$namespace >/dev/null
for name in visitors colleagues neighbours; do
  printf 'apiVersion: webapp.demo.welcome.domain/v1\nkind: Welcome\nmetadata: {name: %s}\nspec: {name: %s}\n' $name $name | kubectl apply -f - >/dev/null
done
kubectl wait --for=condition=Ready welcome --all --timeout=2m >/dev/null
kubectl label service colleagues --overwrite --field-manager=somebody app.kubernetes.io/name=other >/dev/null
kubectl patch welcome colleagues --type=merge --patch '{"spec":{"resources":{"requests":{"cpu":"64"}}}}' >/dev/null
kubectl wait --for=jsonpath='{.status.conditions[?(@.type=="Ready")].reason}'=Unschedulable --timeout=1m welcome/colleagues >/dev/null
# The chart of the working tree, with an edit.
mkdir "$work/helm-charts"
cp -r helm-charts/welcome "$work/helm-charts/"
sed -i 's/^      targetPort: http$/&\n      appProtocol: http/' "$work/helm-charts/welcome/templates/service.yaml"

echo "recording (about 40 s) ..."
session="termtosvg record session.cast --screen-geometry 132x38 --command '$PWD/hack/recording.sh session'"
(cd "$work" && TERM=xterm-256color script --quiet --return --command "stty cols 132 rows 38; $session" /dev/null) >/dev/null
termtosvg render "$work/session.cast" $picture --template window_frame --min-frame-duration 40 --loop-delay 3000 >/dev/null
echo "$picture, $(($(stat -c %s $picture) / 1024)) KiB. Look at it; next: commit it"
