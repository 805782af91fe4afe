#!/usr/bin/env bash
# Builds kube-apiserver, and the etcd that it is made for, of any Kubernetes that the module proxy has. Called by
# `make test-integration KUBERNETES_VERSION=…` with the version, where the binaries go, and kube-apiserver's linker flags.
set -euo pipefail
version=$1 out=$2 ldflags=$3

module=$(mktemp -d)
trap 'rm -rf "$module"' EXIT
cd "$module"
if ! answer=$(go mod download -json "k8s.io/kubernetes@v$version"); then
  echo "Kubernetes $version can't be downloaded: $(sed -n 's/^\t"Error": "\(.*\)",\?$/\1/p' <<< "$answer")" >&2
  exit 1
fi
source=$(sed -n 's/^\t"Dir": "\(.*\)",\?$/\1/p' <<< "$answer")
# Kubernetes' own go.mod, with its parts taken from where they are published: k8s.io/api 0.32.13, and so on.
sed -E "s|^module .*|module kubernetes|; s|=> \./staging/src/(.*)|=> \1 v0.${version#1.}|" "$source/go.mod" > go.mod
install -m 644 "$source/go.sum" .
go mod edit -require="k8s.io/kubernetes@v$version"
# The proxy lacks some parts that no API server is made of, such as the samples: empty modules take their place.
parts=$(sed -nE "s|.*=> (k8s.io/\S+) (v0\.\S+)|\1@\2|p" go.mod)
# shellcheck disable=SC2086 # one word each
for part in $(cd / && go list -m -e -f '{{if .Error}}{{.Path}}{{end}}' $parts); do
  mkdir -p "none/$part"
  echo "module $part" > "none/$part/go.mod"
  go mod edit -replace="$part=./none/$part"
done
mkdir -p "$out"

echo "building kube-apiserver $version and its etcd (about 3 minutes on 2 cores, less with warm caches) ..."
start=$SECONDS
go build -mod=mod -trimpath -ldflags '-s -w' -o "$out/etcd" go.etcd.io/etcd/server/v3
go build -mod=mod -trimpath -ldflags "$ldflags" -o "$out/kube-apiserver" k8s.io/kubernetes/cmd/kube-apiserver
echo "built them in $((SECONDS - start)) s"
