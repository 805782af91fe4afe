#!/usr/bin/env bash
# Copies the plugin into the first directory of PATH that people keep programs of their own in, and its completion beside it. Called by `make install-plugin`.
set -euo pipefail
program=$1 dir=$2
if [ -z "$dir" ]; then
  for dir in "${HOME:-/nonexistent}"/{.local/bin,bin,go/bin} /usr/local/bin ''; do
    if [[ :$PATH: == *":$dir:"* && -d $dir && -w $dir ]]; then break; fi
  done
fi
if [ -z "$dir" ]; then
  echo "install-plugin: no usual directory of PATH is yours to write to: make install-plugin PLUGIN_DIR=one" >&2
  exit 1
fi
install -D "$program" "$dir/kubectl-welcome"
# What kubectl runs to complete what follows "kubectl welcome".
printf '#!/bin/sh\nexec kubectl-welcome __complete "$@"\n' > "$dir/kubectl_complete-welcome"
chmod 755 "$dir/kubectl_complete-welcome"
echo "$dir/kubectl-welcome, $dir/kubectl_complete-welcome"
if [[ :$PATH: != *":$dir:"* ]]; then echo "$dir is not on your PATH: export PATH=\"\$PATH:$dir\""; fi
echo 'Next: kubectl welcome status -A'
