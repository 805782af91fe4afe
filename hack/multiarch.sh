#!/usr/bin/env bash
# Builds an image for all of PLATFORMS, or pushes it, with docker, or with buildah where no docker engine answers. Nothing
# runs while these images are built, they hold static binaries and data: any machine builds for any other.
#
#   hack/multiarch.sh build IMAGE DOCKERFILE CONTEXT
#   hack/multiarch.sh push IMAGE
set -euo pipefail
cd "$(dirname "$0")/.."
. hack/builder.sh
command=$1 image=$2

start=$SECONDS
case $command in
  build)
    dockerfile=$3 context=$4 target=$(target_of "$3")
    if has_docker; then # 29 or newer: older engines keep one platform only
      docker buildx build --quiet $target --load --platform "$PLATFORMS" --tag "$image" --file "$dockerfile" "$context" >/dev/null
    else
      builder manifest rm "$image" >/dev/null 2>&1 || true # a second build adds to the list
      # Without --layers: data that is the same for all platforms would come from the cache, as one platform's.
      builder build --quiet $target --timestamp 0 --platform "$PLATFORMS" --manifest "$image" --file "$dockerfile" "$context" >/dev/null
    fi
    ;;
  push)
    if has_docker; then docker push --quiet "$image" >/dev/null; else
      builder manifest push --quiet --all --format oci "$image" "docker://$image"
    fi
    ;;
esac || { echo "multiarch: cannot $command $image: see above" >&2; exit 1; }
echo "$command $image ($PLATFORMS, $((SECONDS - start))s)"
