#!/usr/bin/env bash
# Makes the operators in examples/ anew: of the charts, which people wrote, by the commands in the README there, and by nothing else. Called by
# `make manifests`, and so by `make verify` in a copy, which fails where that is not what is committed.
set -euo pipefail
cd "$(dirname "$0")/.."
sed -n 's/^make kind .*INTO=//p' examples/README.md | while read -r dir; do # another operator there is somebody's
  find "$dir" -mindepth 1 -maxdepth 1 ! -name helm-charts -exec rm -r {} +
done
sed -n '/^make kind /s/^make/& --no-print-directory/p' examples/README.md | bash -euo pipefail >/dev/null
echo "examples/README.md → examples/*-operator"
