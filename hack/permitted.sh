#!/usr/bin/env bash
# Copies manifests from stdin to stdout, without those of kinds that a platform may keep to itself and the caller may not make or delete. Says on stderr what is left out.
# Usage: hack/permitted.sh apply|delete
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/.."
case $1 in apply) verbs='create patch' ;; delete) verbs=delete ;; esac
complaints=$(mktemp)
trap 'rm -f "$complaints"' EXIT

# may VERB KIND: whether the caller may, anywhere. What is no answer ends all: it must not pass for a no.
may() {
  local answer
  answer=$(bin/kubectl auth can-i --all-namespaces "$1" "$2" 2> "$complaints" < /dev/null) || true
  case $answer in
    yes*) ;;
    no*) return 1 ;;
    *) cat "$complaints" >&2; exit 1 ;;
  esac
}

left_out=
for kind in Namespace ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding; do
  for verb in $verbs; do
    if ! may "$verb" "$kind"; then
      left_out+="|$kind"
      echo "$kind: you may not $verb it, left out" >&2
      break
    fi
  done
done
case $1$left_out in
  apply*Namespace*) echo 'welcome-operator-system has to be there.' >&2 ;;&
  apply*Policy*) echo "Without the policy, nothing but RBAC bounds what the operator's token is good for (docs/olm.md)." >&2 ;;
esac
awk -v kinds="^(${left_out#|})\$" '
  function flush() { if (!skip && text != "") printf "---\n%s", text; text = ""; skip = 0 }
  /^---$/ {flush(); next}
  /^kind: / {if ($2 ~ kinds) skip = 1}
  {text = text $0 "\n"}
  END {flush()}'
