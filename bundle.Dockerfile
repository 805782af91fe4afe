FROM scratch

# Core bundle labels.
LABEL operators.operatorframework.io.bundle.mediatype.v1=registry+v1
LABEL operators.operatorframework.io.bundle.manifests.v1=manifests/
LABEL operators.operatorframework.io.bundle.metadata.v1=metadata/
LABEL operators.operatorframework.io.bundle.package.v1=welcome-operator
LABEL operators.operatorframework.io.bundle.channels.v1=stable
LABEL operators.operatorframework.io.bundle.channel.default.v1=stable
LABEL operators.operatorframework.io.metrics.builder=operator-sdk-v1.42.3
LABEL operators.operatorframework.io.metrics.mediatype.v1=metrics+v1
LABEL operators.operatorframework.io.metrics.project_layout=helm.sdk.operatorframework.io/v1

# Labels for testing.
LABEL operators.operatorframework.io.test.mediatype.v1=scorecard+v1
LABEL operators.operatorframework.io.test.config.v1=tests/scorecard/

# Copy files to locations specified by labels.
COPY --chmod=755 bundle/manifests /manifests/
COPY --chmod=755 bundle/metadata /metadata/
COPY --chmod=755 bundle/tests/scorecard /tests/scorecard/

# What people and scanners look for in any image.
LABEL org.opencontainers.image.title="welcome-operator-bundle"
LABEL org.opencontainers.image.description="welcome-operator, packaged for OLM"
LABEL org.opencontainers.image.licenses="Apache-2.0"
