#!/usr/bin/env bash
# Prints the manifests of the operator with the images OPERATOR_IMAGE and OPERAND_IMAGE.
# An overlay in dist/ carries the images, so that deploying never changes a tracked file.
# Usage: [API_SERVER_PORT=16443] hack/deployment.sh OPERATOR_IMAGE OPERAND_IMAGE [BASE, by default config/default]
set -euo pipefail
cd "$(dirname "$0")/.."
. hack/builder.sh
operator_image=$1 operand_image=$2 base=${3:-config/default}

name=${operator_image%@*}
case $operator_image in
  *@*) reference="digest: ${operator_image#*@}" ;;
  *)   name=$(repository_of "$operator_image") reference="newTag: ${operator_image##*:}" ;;
esac
mkdir -p dist/deployment
cat > dist/deployment/kustomization.yaml <<YAML
resources: [../../$base]
images:
- name: demo.welcome.domain/welcome-operator
  newName: $name
  $reference
patches:
- target: {kind: Deployment, name: welcome-operator-controller-manager.*} # those of config/shards, too
  patch: |
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: welcome-operator-controller-manager}
    spec:
      template:
        spec:
          containers:
          - name: manager
            env:
            - name: RELATED_IMAGE_WELCOME
              value: $operand_image
YAML
case ${API_SERVER_PORT:-} in
  '') ;;
  *[!0-9]*) echo "deploy: API_SERVER_PORT is $API_SERVER_PORT, which is no number" >&2; exit 1 ;;
  *) cat >> dist/deployment/kustomization.yaml <<YAML ;;
- target: {kind: NetworkPolicy, name: welcome-operator-controller-manager}
  patch: |
    - {op: add, path: /spec/egress/0/ports/-, value: {port: $API_SERVER_PORT}}
YAML
esac
exec bin/kustomize build dist/deployment
