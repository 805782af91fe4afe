#!/usr/bin/env bash
# Draws into ARCHITECTURE.md, between its marks, which package of the operator imports which, tests left out. Called by `make manifests`.
set -euo pipefail
cd "$(dirname "$0")/.."
drawing=$(mktemp)
trap 'rm -f "$drawing"' EXIT
module=$(go list -m)
{
  echo '```mermaid'
  echo 'flowchart TD'
  # A box with the first sentence of the package's comment, without its first two words and what follows a colon.
  go list -f '{{.ImportPath}} {{.Doc}}' . ./internal/... | sed -E "s|^$module/?([^ ]*) [^ ]+ [^ ]+ ([^:]*[^:.]).*|\1 \2|; s|^ |main |" \
    | while read -r package doc; do echo "    ${package//\//_}[\"<b>$package</b><br/>$doc\"]"; done
  go list -f '{{$from := .ImportPath}}{{range .Imports}}{{$from}} {{.}}{{"\n"}}{{end}}' . ./internal/... \
    | sed -nE "s|^$module/?([^ ]*) $module/([^ ]*)$|\1 \2|p" | sed 's|^ |main |' \
    | while read -r from to; do echo "    ${from//\//_} --> ${to//\//_}"; done
  echo '```'
} > "$drawing"
sed -i -e "/^<!-- imports: /r $drawing" -e '/^<!-- imports: /,/^<!-- end of imports -->/{/^<!-- /!d}' ARCHITECTURE.md
echo "imports → ARCHITECTURE.md"
