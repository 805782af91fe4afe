#!/usr/bin/env bash
# Makes all of a release in dist/release, and nothing elsewhere, from the binaries that make has compiled. The same sources give the same bytes, whoever makes them and
# where, but for the signature. Called by `make release`; docs/release.md says what to do with it.
# Usage: hack/release.sh VERSION OPERATOR_IMAGE OPERAND_IMAGE SCORECARD_IMAGE BUNDLE_IMAGE CATALOG_IMAGE COSIGN_KEY
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/.."
version=$1 operator_image=$2 operand_image=$3 scorecard_image=$4 bundle_image=$5 catalog_image=$6 cosign_key=$7
export LC_ALL=C BUILDER=buildah # docker makes other bytes each time
out=dist/release

if ! grep -q "^  - name: welcome-operator.v$version\$" catalog/template.yaml; then
  echo "release: no channel of catalog/template.yaml has welcome-operator.v$version: add it, and its bundle (docs/release.md)" >&2
  exit 1
fi
if [ -n "$cosign_key" ] && [ ! -r "$cosign_key" ]; then
  echo "release: COSIGN_KEY is $cosign_key, which can't be read: bin/cosign generate-key-pair makes one" >&2
  exit 1
fi
rm -rf $out
mkdir -p $out/images $out/sbom
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# image NAME IMAGE DOCKERFILE CONTEXT: builds it as $out/images/NAME, and prints its name by digest.
image() {
  hack/multiarch.sh build "$2" "$3" "$4" >&2
  hack/multiarch.sh layout "$2" "$out/images/$1" >&2
  echo "${2%:*}@$(jq --raw-output '.manifests[0].digest' "$out/images/$1/index.json")"
}
operator=$(image welcome-operator "$operator_image" Dockerfile .)
operand=$(image welcome "$operand_image" welcome/Dockerfile .)
scorecard=$(image welcome-operator-scorecard "$scorecard_image" tests/scorecard/Dockerfile .)
hack/deployment.sh "$operator" "$operand" > $out/install.yaml

hack/bundle.sh "$version" "$operator" "$operand" "$scorecard" true $out
bundle=$(image welcome-operator-bundle "$bundle_image" $out/bundle.Dockerfile $out)

# Earlier bundles are pulled from where they have been published; this one is there only once the release is.
configs=$out/catalog/configs/welcome-operator
mkdir -p "$configs"
{ sed "/^- schema: olm.bundle\$/{N;/:v$version\$/d}; s|demo.welcome.domain/welcome-operator-bundle|${bundle_image%:*}|" catalog/template.yaml \
    | bin/opm alpha render-template basic -o yaml - \
    && bin/opm render -o yaml --alpha-image-ref-template "$bundle" $out/bundle
} > "$configs/catalog.yaml" 2> "$log" && bin/opm validate $out/catalog/configs >> "$log" 2>&1 \
  || { cat "$log" >&2; echo "release: cannot make the catalog: see above" >&2; exit 1; }
image welcome-operator-catalog "$catalog_image" catalog/Dockerfile $out/catalog > /dev/null

for chart in helm-charts/*; do
  chart_version=$(sed -n 's/^version: //p' "$chart/Chart.yaml")
  tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --directory=helm-charts --create "${chart##*/}" \
    | gzip --no-name --best > "$out/${chart##*/}-$chart_version.tgz"
done
cp dist/plugins/kubectl-welcome-* $out
for binary in dist/linux-*/{welcome-operator,welcome,scorecard} dist/plugins/kubectl-welcome-*; do
  name=${binary#dist/}
  name=${name#plugins/}
  go run ./hack/sbom "$binary" "v$version" > "$out/sbom/${name//\//-}.cdx.json"
done

(cd $out && find . -type f ! -name SHA256SUMS -printf '%P\0' | sort --zero-terminated | xargs --null sha256sum > SHA256SUMS)
if [ -n "$cosign_key" ]; then
  # With the key alone: no log of transparency hears of it, and no authority tells the time.
  echo '{"mediaType": "application/vnd.dev.sigstore.signingconfig.v0.2+json"}' > "$log"
  bin/cosign sign-blob --yes --key "$cosign_key" --signing-config "$log" --bundle $out/SHA256SUMS.sigstore.json $out/SHA256SUMS
fi
echo "release v$version in $out, ${SECONDS}s: $(find $out -type f | wc -l) files, $(du -sh $out | cut -f1). Next: docs/release.md, Publish"
