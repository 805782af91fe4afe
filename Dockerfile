# The operator, and the base image of others (docs/base-image.md). `docker build .` compiles it; `make images`, which has compiled it
# before, needs no toolchain: it takes the stage dist, and the same file builds every architecture.
FROM scratch AS image
LABEL org.opencontainers.image.title="welcome-operator" \
      org.opencontainers.image.description="Runs Welcomes: greeting pages from a Helm chart" \
      org.opencontainers.image.licenses="Apache-2.0"
# Where the Dockerfiles of stock Helm operators put theirs, some of them without saying where that is.
ENV HOME=/opt/helm
WORKDIR ${HOME}
# With modes of its own: what was checked out with a strict umask only root could read.
COPY --chmod=644 watches.yaml ${HOME}/watches.yaml
COPY --chmod=755 helm-charts ${HOME}/helm-charts
USER 65532:65532
ENTRYPOINT ["/welcome-operator"]

FROM image AS dist
# Set by docker and buildah for the wanted platform; a default here would win over that.
ARG TARGETOS
ARG TARGETARCH
COPY --chmod=755 dist/${TARGETOS}-${TARGETARCH}/welcome-operator /welcome-operator

# On the machine's own platform, for Go compiles for any other.
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum Makefile main.go ./
COPY internal internal
COPY tools tools
ARG TARGETOS
ARG TARGETARCH
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    make dist/${TARGETOS}-${TARGETARCH}/welcome-operator && mv dist/${TARGETOS}-${TARGETARCH}/welcome-operator /

FROM image
COPY --from=build /welcome-operator /welcome-operator
