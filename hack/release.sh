#!/usr/bin/env bash
# Makes all of a release in dist/release, and nothing elsewhere, from the binaries that make has compiled. The same sources give the same bytes, whoever makes them and
# where, but for the signature. Called by `make release`; docs/release.md says what to do with it.
# Usage: PLATFORMS=… PLUGINS="FILE …" hack/release.sh VERSION OPERATOR_IMAGE OPERAND_IMAGE SCORECARD_IMAGE BUNDLE_IMAGE CATALOG_IMAGE COSIGN_KEY
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/.."
. hack/builder.sh
version=$1 operator_image=$2 operand_image=$3 scorecard_image=$4 bundle_image=$5 catalog_image=$6 cosign_key=$7
export LC_ALL=C BUILDER=buildah # docker makes other bytes each time
unset API_SERVER_PORT           # of somebody's cluster
out=dist/release

if ! grep -q "^  - name: welcome-operator.v$version\$" catalog/template.yaml; then
  echo "release: no channel of catalog/template.yaml has welcome-operator.v$version: add it, and its bundle (docs/release.md)" >&2
  exit 1
fi
case $cosign_key in
  '' | *://* | pkcs11:*) ;; # none, or where cosign finds it
  *) if [ ! -r "$cosign_key" ]; then
       echo "release: COSIGN_KEY is $cosign_key, which can't be read: bin/cosign generate-key-pair makes one" >&2
       exit 1
     fi ;;
esac
rm -rf $out
mkdir -p $out/images $out/sbom
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
log=$work/log

# image NAME IMAGE DOCKERFILE CONTEXT: builds it as $out/images/NAME, and prints its name by digest.
image() {
  local repository digest
  repository=$(repository_of "$2")
  hack/multiarch.sh build "$2" "$3" "$4" >&2
  hack/multiarch.sh layout "$2" "$out/images/$1" >&2
  digest=$(jq --exit-status --raw-output '.manifests[0].digest' "$out/images/$1/index.json")
  echo "$repository@$digest"
}
operator=$(image welcome-operator "$operator_image" Dockerfile .)
operand=$(image welcome "$operand_image" welcome/Dockerfile .)
scorecard=$(image welcome-operator-scorecard "$scorecard_image" tests/scorecard/Dockerfile .)
hack/deployment.sh "$operator" "$operand" > $out/install.yaml

hack/bundle.sh "$version" "$operator" "$operand" "$scorecard" true $out
bundle=$(image welcome-operator-bundle "$bundle_image" $out/bundle.Dockerfile $out)

bundle_repository=$(repository_of "$bundle_image")
# Earlier bundles are pulled from where they have been published; this one is there only once the release is.
configs=$out/catalog/configs/welcome-operator
mkdir -p "$configs"
{ sed "/^- schema: olm.bundle\$/{N;/:v$version\$/d}; s|demo.welcome.domain/welcome-operator-bundle|$bundle_repository|" catalog/template.yaml \
    | bin/opm alpha render-template basic -o yaml - \
    && bin/opm render -o yaml --alpha-image-ref-template "$bundle" $out/bundle
} > "$configs/catalog.yaml" 2> "$log" && bin/opm validate $out/catalog/configs >> "$log" 2>&1 \
  || { cat "$log" >&2; echo "release: cannot make the catalog: see above" >&2; exit 1; }
image welcome-operator-catalog "$catalog_image" catalog/Dockerfile $out/catalog > /dev/null

# By itself, the chart has the release's version, and its page.
cp -r helm-charts/welcome "$work"
sed -i "s|^image: .*|image: $operand|" "$work/welcome/values.yaml"
sed -i "s|^version: .*|version: $version|; s|^appVersion: .*|appVersion: $version|" "$work/welcome/Chart.yaml"
grep -q "^image: $operand\$" "$work/welcome/values.yaml"
tar --sort=name --mode=u=rwX,go=rX --mtime=@0 --owner=0 --group=0 --numeric-owner --directory="$work" --create welcome | gzip --no-name --best > "$out/welcome-$version.tgz"
cp $PLUGINS $out
sbom() { go run ./hack/sbom "$1" "v$version" > "$out/sbom/$2.cdx.json"; }
for plugin in $PLUGINS; do sbom "$plugin" "${plugin##*/}"; done
for platform in ${PLATFORMS//,/ }; do
  for binary in welcome-operator welcome scorecard; do sbom "dist/${platform//\//-}/$binary" "$binary-${platform//\//-}"; done
done

(cd $out && find . -type f ! -name SHA256SUMS -printf '%P\0' | sort --zero-terminated | xargs --null sha256sum > SHA256SUMS)
if [ -n "$cosign_key" ]; then
  # With the key alone: no log of transparency hears of it, and no authority tells the time.
  echo '{"mediaType": "application/vnd.dev.sigstore.signingconfig.v0.2+json"}' > "$work/signing"
  bin/cosign sign-blob --yes --key "$cosign_key" --signing-config "$work/signing" --bundle $out/SHA256SUMS.sigstore.json $out/SHA256SUMS
fi
echo "release v$version in $out, ${SECONDS}s: $(find $out -type f | wc -l) files, $(du -sh $out | cut -f1). Next: docs/release.md, Publish"
