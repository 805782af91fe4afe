#!/usr/bin/env bash
# From nothing to the greeting of a Welcome, with the time of each step. Called by `make demo`, which sets the variables:
# IMG and OPERAND_IMG (the images), KUBECONFIG (the user's cluster, or .cluster/kubeconfig, which is the local one).
set -euo pipefail
cd -P "$(dirname "$0")/.." # as make names it
sample=config/samples/webapp_v1_welcome.yaml
name=welcome-sample

step() {
  local title=$1 start=$SECONDS
  shift
  printf '\n\033[1m== %s\033[0m\n' "$title"
  "$@"
  printf '== %s: %ss\n' "$title" $((SECONDS - start))
}
run() { make --no-print-directory "$@"; }

apply_sample() {
  kubectl apply -f "$sample"
  kubectl wait --for=condition=Ready welcome/$name --timeout=180s
}

# The local cluster gives the Service an address that answers from here; elsewhere the API server passes the request on to the Service.
if [ "$KUBECONFIG" = "$PWD/.cluster/kubeconfig" ]; then
  clean_up='make undeploy cluster-down'
  page() { curl --silent --show-error --fail --noproxy '*' --max-time 5 "$(url)"; }
  url() { kubectl get service $name -o 'jsonpath=http://{.status.loadBalancer.ingress[0].ip}:{.spec.ports[0].port}/hello/'; }
else
  clean_up='make undeploy'
  page() { kubectl get --raw "/api/v1/namespaces/$(namespace)/services/$name:http/proxy/hello/"; }
  url() { echo "http://localhost:8080/hello/ (after: bin/kubectl port-forward service/$name 8080)"; }
  namespace() { kubectl get -f "$sample" -o 'jsonpath={.metadata.namespace}'; }
fi

# A Service knows a new pod a moment after the pod is ready.
read_page() {
  local deadline=$((SECONDS + 30)) html
  until html=$(page 2>&1); do
    [ $SECONDS -lt $deadline ] || { echo "$html" >&2; return 1; }
    sleep 1
  done
  greeting=$(sed -n 's/<bdi>//; s/<.bdi>//; /^Hello /p' <<< "$html")
}

if [ "$KUBECONFIG" = "$PWD/.cluster/kubeconfig" ]; then
  echo "Using a local cluster (to use another one, set KUBECONFIG)."
  step 'Packages' hack/setup.sh
  step 'Cluster' run cluster
else
  echo "Using the cluster of KUBECONFIG=$KUBECONFIG. It must be able to pull $IMG and $OPERAND_IMG:"
  echo "choose a registry with make demo IMG=… OPERAND_IMG=…"
fi
step 'Nothing in the way' hack/fresh.sh demo
step 'Images' run images push
step 'Operator' run deploy
step 'Welcome' apply_sample
step 'Page' read_page

cat <<EOF

$(kubectl get welcome,service)

  curl -L $(url)
  $greeting

The demo took ${SECONDS}s. Next:
  export KUBECONFIG=$KUBECONFIG PATH=$PWD/bin:\$PATH
  kubectl get welcome
  kubectl patch welcome $name --type merge --patch '{"spec":{"name":"world"}}'
  $clean_up
EOF
