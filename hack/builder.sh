# What builds images: docker, or buildah where no docker engine answers; and how they are called. Sourced in the root of the repository.

# The store is the checkout's own: another one's image of the same name is never taken for it. vfs and chroot need
# no more rights than root in a container has.
builder() {
  BUILDAH_ISOLATION=chroot buildah --storage-driver vfs --root "$PWD/dist/containers/root" --runroot "$PWD/dist/containers/run" "$@"
}
# BUILDER=buildah: not docker, even where it is.
has_docker() { [ "${BUILDER:-}" != buildah ] && command -v docker >/dev/null && docker info >/dev/null 2>&1; }
# What is in dist/ need not be compiled again.
target_of() { if grep -q ' AS dist$' "$1"; then echo --target=dist; fi; }

# repository_of is IMAGE without its tag. A colon before the last slash is that of a registry's port.
repository_of() {
  case ${1##*/} in
    *:*) echo "${1%:*}" ;;
    *) echo "$1 has no tag: name one, as in $1:v1" >&2; return 1 ;;
  esac
}

# digest_file_of is the file with IMAGE by the digest that was last pushed from here.
digest_file_of() {
  mkdir -p dist/images
  echo "dist/images/${1//[\/:]/_}.digest"
}

# docker_digest is IMAGE by its digest in the repository that it names: docker knows one for each to which it was pushed.
docker_digest() {
  local name
  name=$(repository_of "$1") || return
  name=${name#docker.io/} name=${name#library/} # as docker calls them
  docker inspect --format '{{range .RepoDigests}}{{println .}}{{end}}' "$1" | grep --max-count=1 "^$name@"
}
