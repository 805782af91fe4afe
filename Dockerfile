# The operator, and the base image of others (docs/base-image.md). `make images` compiles the binary into dist/ first: the image needs no
# toolchain, and the same file builds every architecture.
FROM scratch
# Set by docker and buildah for the wanted platform; a default here would win over that.
ARG TARGETOS
ARG TARGETARCH
LABEL org.opencontainers.image.title="welcome-operator" \
      org.opencontainers.image.description="Runs Welcomes: greeting pages from a Helm chart" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY dist/${TARGETOS}-${TARGETARCH}/welcome-operator /welcome-operator
# Where the Dockerfiles of stock Helm operators put theirs, some of them without saying where that is.
ENV HOME=/opt/helm
WORKDIR ${HOME}
COPY watches.yaml ${HOME}/watches.yaml
COPY helm-charts ${HOME}/helm-charts
USER 65532:65532
ENTRYPOINT ["/welcome-operator"]
