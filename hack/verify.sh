#!/usr/bin/env bash
# Regenerates everything that is generated, in a copy, and fails on any difference. The copy holds
# what is in the working tree, so the check is the same before and after a commit, and the tree
# itself is never touched. Called by `make verify`.
set -euo pipefail
cd "$(dirname "$0")/.."
unset $(git rev-parse --local-env-vars) # in a hook of git's, the copy would be this repository
root=$PWD
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT

git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
  if [ -e "$file" ]; then printf '%s\0' "$file"; fi # a deleted file is still listed
done | tar --null --files-from=- -cf - | tar -xf - -C "$copy"
ln -s "$root/bin" "$copy/bin"

cd "$copy"
git init -q
git add -A
git -c user.name=verify -c user.email=verify@example.com -c commit.gpgsign=false -c core.hooksPath=/dev/null commit -qm before
echo "regenerating in a copy: $*"
start=$SECONDS
make --no-print-directory "$@" >regenerate.log 2>&1 || { cat regenerate.log; exit 1; }
rm regenerate.log
if [ -n "$(git status --porcelain)" ]; then
  git --no-pager diff
  git status --short
  echo "verify: generated files are out of date: run 'make $*', read the diff and commit it" >&2
  exit 1
fi
echo "generated files are up to date ($((SECONDS - start))s)"
