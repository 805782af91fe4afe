#!/usr/bin/env bash
# Builds images with docker, or with buildah where no docker engine answers, and brings them to where the cluster pulls
# from: the local cluster's registry (see tests/cluster), or, for any other KUBECONFIG, the registry that IMAGE names.
#
#   hack/image.sh build IMAGE DOCKERFILE [ARCH [CONTEXT]]   ARCH: amd64, arm64, …; by default this machine's
#   hack/image.sh push IMAGE
#   hack/image.sh ref IMAGE                                 IMAGE by the digest that was last pushed from here, else IMAGE itself
set -euo pipefail
cd -P "$(dirname "$0")/.." # as make names it
. hack/builder.sh
command=$1 image=$2

is_local() { [ "${KUBECONFIG:-$PWD/.cluster/kubeconfig}" = "$PWD/.cluster/kubeconfig" ]; }
digest_file=$(digest_file_of "$image")

case $command in
  build)
    dockerfile=$3 arch=${4:-$(go env GOARCH)} context=${5:-.}
    target=$(target_of "$dockerfile")
    if has_docker; then
      docker build --quiet $target --platform "linux/$arch" --tag "$image" --file "$dockerfile" "$context" >/dev/null
      size=$(docker images --format '{{.Size}}' "$image" | sed -n 1p)
    else
      # Without a fixed timestamp, unchanged contents would be a new image each time, and roll every pod.
      builder build --quiet $target --layers --timestamp 0 --platform "linux/$arch" --tag "$image" --file "$dockerfile" "$context" >/dev/null
      size=$(builder images --format '{{.Size}}' "$image" | sed -n 1p) # a line for each tag
    fi
    echo "built $image ($size)"
    ;;
  push)
    if is_local; then
      archive=$(mktemp --suffix .tar)
      trap 'rm -f "$archive"' EXIT
      if has_docker; then docker save --output "$archive" "$image"; else
        rm "$archive" # buildah adds to no archive that exists.
        builder push --quiet "$image" "docker-archive:$archive:$image"
      fi
      go run -trimpath ./tests/cluster load "$archive" > "$digest_file"
    elif has_docker; then
      docker push --quiet "$image" >/dev/null
      docker_digest "$image" > "$digest_file"
    else
      repository=$(repository_of "$image")
      builder push --quiet --digestfile "$digest_file" "$image" "docker://$image"
      echo "$repository@$(cat "$digest_file")" > "$digest_file"
    fi
    echo "pushed $(cat "$digest_file")"
    ;;
  ref)
    if [ -s "$digest_file" ]; then cat "$digest_file"; else echo "$image"; fi
    ;;
esac
