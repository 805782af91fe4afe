#!/usr/bin/env bash
# Writes DIR/bundle and DIR/bundle.Dockerfile: what OLM installs. The same input gives the same bytes. Called by `make bundle`.
# BUNDLE_NETWORK_POLICY=true: with the operator's NetworkPolicy, which some catalogs refuse and others want (docs/olm.md).
# Usage: [BUNDLE_NETWORK_POLICY=true] hack/bundle.sh VERSION OPERATOR_IMAGE OPERAND_IMAGE SCORECARD_IMAGE USE_IMAGE_DIGESTS DIR
set -euo pipefail
cd "$(dirname "$0")/.."
version=$1 operator_image=$2 operand_image=$3 scorecard_image=$4 use_image_digests=$5 out=$6

root=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp PROJECT "$work"
flags=(--quiet --version "$version" --channels stable --default-channel stable)
if [ "$use_image_digests" = true ]; then flags+=(--use-image-digests); fi

hack/deployment.sh "$operator_image" "$operand_image" config/manifests \
  | sed "s|demo.welcome.domain/welcome-operator-scorecard:v[^ ]*|$scorecard_image|
         s|containerImage: .*|containerImage: $operator_image|
         s|olm.skipRange: .*|olm.skipRange: <$version|" \
  | go run ./hack/csv \
  | (cd "$work" && "$root/bin/operator-sdk" generate bundle "${flags[@]}" >generate.log 2>&1) \
  || { cat "$work/generate.log" >&2; echo "bundle: cannot generate the bundle: see above" >&2; exit 1; }

# The generator stamps the time of the build; the base has the day of the release.
base=config/manifests/bases/welcome-operator.clusterserviceversion.yaml
csv=$work/bundle/manifests/welcome-operator.clusterserviceversion.yaml
sed -i "s|^    createdAt: .*|$(grep '^    createdAt: ' $base)|" "$csv"
if [ "$use_image_digests" = true ]; then
  # And it lists the images, of two lines each, in another order each time.
  related=$(sed -n '/^  relatedImages:$/,/^  [^ ]/{/^    /p}' "$csv" | paste --delimiters='|' - - | LC_ALL=C sort | tr '|' '\n') \
    awk '/^  [^ ]/ {images = 0} !images; /^  relatedImages:$/ {images = 1; print ENVIRON["related"]}' "$csv" > "$work/sorted"
  mv "$work/sorted" "$csv"
fi

if [ "${BUNDLE_NETWORK_POLICY:-}" != true ]; then rm "$work"/bundle/manifests/*_networkpolicy.yaml; fi

sed -i 's|^COPY |&--chmod=755 |' "$work/bundle.Dockerfile" # whatever the umask is, OLM can read it
cat >> "$work/bundle.Dockerfile" <<'DOCKERFILE'

# What people and scanners look for in any image.
LABEL org.opencontainers.image.title="welcome-operator-bundle"
LABEL org.opencontainers.image.description="welcome-operator, packaged for OLM"
LABEL org.opencontainers.image.licenses="Apache-2.0"
DOCKERFILE

mkdir -p "$out"
rm -rf "$out/bundle"
mv "$work/bundle" "$work/bundle.Dockerfile" "$out"
echo "bundle of version $version in $out/bundle, $out/bundle.Dockerfile. Next: make bundle-build"
