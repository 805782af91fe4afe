#!/usr/bin/env bash
# Makes the operators in examples/ anew: of the charts, which people wrote, by the commands in the README there, and by nothing else. Called by
# `make manifests`, and so by `make verify` in a copy, which fails where that is not what is committed.
set -euo pipefail
cd "$(dirname "$0")/.."
new=$(mktemp -d) # what can't be made anew stays as it is
trap 'rm -rf "$new"' EXIT
dirs=$(sed -n 's/^make kind .*INTO=//p' examples/README.md) # another operator there is somebody's
for dir in $dirs; do
  mkdir -p "$new/$dir"
  cp -Rp "$dir/helm-charts" "$new/$dir"
done
sed -n "/^make kind /{s/^make/& --no-print-directory/; s|=examples/|=$new/examples/|g; p; }" examples/README.md | bash -euo pipefail >/dev/null
for dir in $dirs; do
  rm -rf "$dir"
  mv "$new/$dir" "$dir"
done
echo "examples/README.md → examples/*-operator"
