#!/usr/bin/env bash
# Runs the operator on this machine, until ctrl-c, against the cluster of KUBECONFIG. Called by `make run`, which has built it, and sets
# KUBECONFIG and OPERAND_IMG, the image of the page.
set -euo pipefail
cd -P "$(dirname "$0")/.." # as make names it
if [ "$KUBECONFIG" = "$PWD/.cluster/kubeconfig" ]; then
  make --no-print-directory page
else
  echo "The cluster pulls the page as $OPERAND_IMG. If it cannot: make page run OPERAND_IMG=registry.example.com/welcome:v0.1.0"
fi
cat <<EOT
To read the metrics, from another terminal (your cluster says who may; this lets one of its accounts):
  kubectl create serviceaccount metrics
  kubectl create clusterrolebinding metrics --clusterrole=system:monitoring --serviceaccount=default:metrics
  curl -k -H "Authorization: Bearer \$(kubectl create token metrics)" https://127.0.0.1:8443/metrics
EOT
# The images of other kinds are as in the Deployment.
images=$(sed -n '/name: RELATED_IMAGE_/{N;s/.*name: \([A-Z0-9_]*\)\n *value: "\{0,1\}\([^"]*\)"\{0,1\}/\1=\2/p}' config/manager/manager.yaml)
exec env $images RELATED_IMAGE_WELCOME="$(hack/image.sh ref "$OPERAND_IMG")" bin/welcome-operator \
  --metrics-bind-address=127.0.0.1:8443 --health-probe-bind-address=127.0.0.1:8081 --zap-encoder=console --zap-time-encoding=rfc3339
