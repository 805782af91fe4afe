#!/usr/bin/env bash
# Builds an image for all of PLATFORMS, pushes it, or writes it into a directory, with docker, or with buildah where no docker engine answers. Nothing
# runs while these images are built, they hold static binaries and data: any machine builds for any other.
#
#   hack/multiarch.sh build IMAGE DOCKERFILE CONTEXT
#   hack/multiarch.sh push IMAGE
#   hack/multiarch.sh layout IMAGE DIRECTORY   as an OCI image layout, with BUILDER=buildah
set -euo pipefail
cd "$(dirname "$0")/.."
. hack/builder.sh
command=$1 image=$2
list=multiarch-${image//[\/:]/_} # of its own: an image of one platform may have the name (make images)

start=$SECONDS
fail() { echo "multiarch: cannot $command $image: see above" >&2; exit 1; }
case $command in
  build)
    dockerfile=$3 context=$4 target=$(target_of "$3")
    if has_docker; then # 29 or newer: older engines keep one platform only
      docker buildx build --quiet $target --load --platform "$PLATFORMS" --tag "$image" --file "$dockerfile" "$context" >/dev/null || fail
    else
      builder manifest rm "$list" >/dev/null 2>&1 || true # a second build adds to the list
      # Without --layers: data that is the same for all platforms would come from the cache, as one platform's.
      # One after the other: else the list has them in the order in which they were done, and another digest each time.
      for platform in ${PLATFORMS//,/ }; do
        builder build --quiet $target --timestamp 0 --platform "$platform" --manifest "$list" --file "$dockerfile" "$context" >/dev/null || fail
      done
    fi
    ;;
  push)
    digest_file=$(digest_file_of "$image") # for make deploy
    if has_docker; then
      docker push --quiet "$image" >/dev/null || fail
      docker_digest "$image" > "$digest_file"
    else
      repository=$(repository_of "$image")
      builder manifest push --quiet --all --format oci "$list" "docker://$image" || fail
      # Once more for the digest, which sends nothing that is there: with --digestfile, buildah 1.28 says nothing of a failure.
      rm -f "$digest_file"
      builder manifest push --quiet --all --format oci --digestfile "$digest_file" "$list" "docker://$image"
      [ -s "$digest_file" ] || fail
      echo "$repository@$(cat "$digest_file")" > "$digest_file"
    fi
    ;;
  layout) builder manifest push --quiet --all --format oci "$list" "oci:$3:${image##*:}" || fail ;;
esac
echo "$command $image ($PLATFORMS, $((SECONDS - start))s)"
