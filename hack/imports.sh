#!/usr/bin/env bash
# Draws into ARCHITECTURE.md, between its marks, which package of the operator and its plugin imports which, tests left out. Called by `make manifests`.
set -euo pipefail
cd "$(dirname "$0")/.."
drawing=$(mktemp)
trap 'rm -f "$drawing"' EXIT
module=$(go list -m)
id() { tr / _ <<< "${1//-/_}"; }
{
  echo '```mermaid'
  echo 'flowchart TD'
  # A box with the first sentence of the package's comment, without its first two words and what follows a colon.
  go list -f '{{.ImportPath}} {{.Doc}}' . ./config ./cmd/... ./internal/... | sed -E "s|^$module/?([^ ]*) [^ ]+ [^ ]+ ([^:]*[^:.]).*|\1 \2|; s|^ |main |" \
    | while read -r package doc; do echo "    $(id "$package")[\"<b>$package</b><br/>$doc\"]"; done
  go list -f '{{$from := .ImportPath}}{{range .Imports}}{{$from}} {{.}}{{"\n"}}{{end}}' . ./config ./cmd/... ./internal/... \
    | sed -nE "s|^$module/?([^ ]*) $module/([^ ]*)$|\1 \2|p" | sed 's|^ |main |' \
    | while read -r from to; do echo "    $(id "$from") --> $(id "$to")"; done
  echo '```'
} > "$drawing"
sed -i -e "/^<!-- imports: /r $drawing" -e '/^<!-- imports: /,/^<!-- end of imports -->/{/^<!-- /!d}' ARCHITECTURE.md
echo "imports → ARCHITECTURE.md"
