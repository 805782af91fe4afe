#!/usr/bin/env bash
# Installs the Debian packages that the local cluster (tests/cluster), the image builds, the browser, the OLM and the Prometheus tests, examples/, and commands of the documents need.
# Does nothing, fast, where all are there, and off Debian, where `make cluster` says what it misses.
set -euo pipefail

packages=(busybox-static containerd runc containernetworking-plugins iptables ipset nftables conntrack buildah curl chromium prometheus jq memcached)

command -v dpkg-query >/dev/null || exit 0
installed() { [ "$(dpkg-query --show --showformat '${db:Status-Status}' "$1" 2>/dev/null || true)" = installed ]; }
missing=()
for package in "${packages[@]}"; do
  case $package in containerd | runc) if installed containerd.io; then continue; fi ;; esac # Docker's own has both
  if ! installed "$package"; then missing+=("$package"); fi
done
if [ ${#missing[@]} -eq 0 ]; then exit 0; fi

install="apt-get install -y --no-install-recommends --no-remove ${missing[*]}"
if [ "$(id -u)" != 0 ]; then
  echo "these packages are missing; as root: $install" >&2
  exit 1
fi
echo "installing ${missing[*]} ..."
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { apt-get update && $install; } > "$log" 2>&1; then
  tail -20 "$log" >&2
  exit 1
fi
# The tests start what they need themselves; a Prometheus of Debian's would take port 9090 for good, and memcached is for an image.
for package in "${missing[@]}"; do
  case $package in
    prometheus | memcached) if [ -d /run/systemd/system ]; then systemctl disable --now --quiet "$package"; fi ;;
  esac
done
