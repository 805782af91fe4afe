#!/usr/bin/env bash
# Builds the images that the examples run, of what Debian's packages have, and brings them to the cluster of `make cluster`, which needs no registry
# but its own: memcached is the real one, my-awesome-cron-image prints the date, and for Java stands our page, for each version of it.
set -euo pipefail
cd "$(dirname "$0")/.."
hack/setup.sh
context=dist/examples
arch=$(go env GOARCH)
rm -rf $context
mkdir -p $context/cron $context/memcached/root

# image IMAGE CONTEXT, with the Dockerfile from standard input
image() {
  cat > "$2/Dockerfile"
  hack/image.sh build "$1" "$2/Dockerfile" "$arch" "$2"
  hack/image.sh push "$1"
}

cp /bin/busybox $context/cron
image demo.welcome.domain/my-awesome-cron-image:v1 $context/cron <<'DOCKERFILE'
FROM scratch
COPY --chmod=755 busybox /busybox
ENTRYPOINT ["/busybox", "date"]
DOCKERFILE

# The program, and the libraries that it is linked with, where it looks for them.
# shellcheck disable=SC2046 # one word each
cp --parents --dereference /usr/bin/memcached $(ldd /usr/bin/memcached | grep -o '/[^ ]*') $context/memcached/root
image demo.welcome.domain/memcached:v1 $context/memcached <<'DOCKERFILE'
FROM scratch
COPY --chmod=755 root /
ENTRYPOINT ["/usr/bin/memcached"]
DOCKERFILE

make --no-print-directory "dist/linux-$arch/welcome" >/dev/null
for version in 17 21; do
  hack/image.sh build demo.welcome.domain/springboot:$version welcome/Dockerfile "$arch"
  hack/image.sh push demo.welcome.domain/springboot:$version
done
