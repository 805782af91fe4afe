# welcome-operator: every command of the project. `make` lists them.
SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

# ---- Versions: one block. Tool versions live in tools/*/go.mod, library versions in go.mod. ----
VERSION            ?= 0.1.0
KUBERNETES_VERSION := 1.35.4
IMAGE_TAG_BASE     ?= demo.welcome.domain/welcome-operator
IMG                ?= $(IMAGE_TAG_BASE):v$(VERSION)
OPERAND_IMG        ?= demo.welcome.domain/welcome:v$(VERSION)
BUNDLE_IMG         ?= $(IMAGE_TAG_BASE)-bundle:v$(VERSION)
# OLM looks for new versions under the tag that it knows.
CATALOG_IMG        ?= $(IMAGE_TAG_BASE)-catalog:latest
SCORECARD_IMG      ?= $(IMAGE_TAG_BASE)-scorecard:v$(VERSION)

# ---- Where a cluster is needed, KUBECONFIG wins over the local one. ----
ROOT := $(CURDIR)
BIN  := $(ROOT)/bin
export PATH := $(BIN):$(PATH)
export CGO_ENABLED := 0

# What `make verify` makes again in a copy, and the tools for it.
GENERATED      := manifests bundle
GENERATE_TOOLS := $(BIN)/kustomize $(BIN)/operator-sdk

##@ General

.PHONY: demo
demo: $(BIN)/kubectl ## See it work: a cluster (unless KUBECONFIG is set), the operator, a Welcome and its page
	@IMG=$(IMG) OPERAND_IMG=$(OPERAND_IMG) hack/demo.sh

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n\033[1m%s\033[0m\n", substr($$0, 5)} /^[a-zA-Z0-9_-]+:.*## / {printf "  \033[36m%-18s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Build

# What the metric welcome_operator_build_info tells.
VERSION_VARIABLE := demo.welcome.domain/welcome-operator/internal/operator.version

.PHONY: build
build: ## Compile the operator to bin/welcome-operator
	go build -trimpath -ldflags "-s -w -X $(VERSION_VARIABLE)=v$(VERSION)" -o bin/welcome-operator .

.PHONY: manifests
manifests: ## Derive the CRDs and the chart's table of values from values.schema.json, values.yaml and watches.yaml
	go run ./hack/crdgen

# dist/linux-<arch>/: the static binaries that go into the images. Whether one is up to date is for Go to know. Without
# VCS stamping, a commit that changes no code of a binary changes no image either.
ARCH ?= $(shell go env GOARCH)
GO_IMAGE_BUILD = GOOS=linux GOARCH=$* go build -trimpath -buildvcs=false -ldflags "-s -w -X $(VERSION_VARIABLE)=v$(VERSION)" -o $@

.PHONY: FORCE
dist/linux-%/welcome: FORCE
	$(GO_IMAGE_BUILD) ./welcome
dist/linux-%/welcome-operator: FORCE
	$(GO_IMAGE_BUILD) .
dist/linux-%/scorecard: FORCE
	$(GO_IMAGE_BUILD) ./tests/scorecard

.PHONY: images
images: dist/linux-$(ARCH)/welcome dist/linux-$(ARCH)/welcome-operator ## Build the images IMG and OPERAND_IMG with docker or buildah
	@hack/image.sh build $(OPERAND_IMG) welcome/Dockerfile $(ARCH)
	@hack/image.sh build $(IMG) Dockerfile $(ARCH)

.PHONY: push
push: ## Bring the images to where the cluster pulls them from: the local cluster's registry, or the one they name
	@hack/image.sh push $(OPERAND_IMG)
	@hack/image.sh push $(IMG)

##@ Test

# In this order: what is cheap and near the code first. The local cluster is stopped only after a success: a failure wants to
# be looked at.
.PHONY: test
test: ## Run every test, from the cheapest to the most real (CI does)
	@hack/setup.sh
	@for rung in test-unit test-integration test-chaos test-e2e test-olm; do \
		start=$$SECONDS; echo "== make $$rung"; $(MAKE) --no-print-directory $$rung; echo "== make $$rung: $$((SECONDS - start))s"; \
	done
	@$(MAKE) --no-print-directory cluster-down

.PHONY: test-unit
test-unit: ## Run every test that needs no cluster (hack/setup.sh installs the chromium and promtool that some need)
	go test $$(go list ./... | grep -vE '/tests/(integration|e2e|olm|bench|chaos)(/|$$)')

.PHONY: test-integration
test-integration: $(addprefix $(BIN)/,kube-apiserver etcd kubectl) ## Run the operator against a real kube-apiserver and etcd
	go test ./tests/integration -count=1 -timeout=15m

.PHONY: test-chaos
test-chaos: ## Kill the operator ten times while Welcomes are created, edited and deleted: the short form of make chaos
	@$(MAKE) --no-print-directory chaos KILLS=10

.PHONY: update-golden
update-golden: ## Write down what the chart renders now, for every Welcome in tests/render/testdata
	go test ./tests/render -run TestGolden -update

.PHONY: test-e2e
test-e2e: $(BIN)/kubectl $(BIN)/helm ## Test the working tree as its users meet it: in a cluster (unless KUBECONFIG is set, the local one) and a browser
	go test ./tests/e2e -count=1 -v -timeout=15m

dist/load: FORCE
	go build -o $@ ./tests/load

OLM_BINARIES := olm catalog package-server copy-content cpb
# The images go to the cluster's own registry, where their digests are known and nothing else is needed.
OLM_TEST_TOOLS := $(addprefix $(BIN)/,operator-sdk opm scorecard-test grpc_health_probe helm kubectl $(OLM_BINARIES))
.PHONY: test-olm
test-olm: cluster $(OLM_TEST_TOOLS) ## Install, upgrade and judge the bundle with a real OLM in the local cluster
	@set -a; . .cluster/env; set +a; export KUBECONFIG=$(ROOT)/.cluster/kubeconfig SSL_CERT_FILE=$$CLUSTER_CA; \
	$(MAKE) --no-print-directory docker-buildx bundle bundle-build bundle-push catalog-build catalog-push BUNDLE_DIR=dist/olm USE_IMAGE_DIGESTS=true \
		IMAGE_TAG_BASE=$$CLUSTER_REGISTRY/welcome-operator OPERAND_IMG=$$CLUSTER_REGISTRY/welcome:v$(VERSION); \
	go test ./tests/olm -count=1 -v -timeout=30m

.PHONY: lint
lint: $(BIN)/golangci-lint ## Run the linters of .golangci.yaml
	golangci-lint run

.PHONY: verify
verify: $(GENERATE_TOOLS) ## Fail if a generated file is out of date, or PROJECT, watches.yaml, CRD, samples and chart disagree
	hack/verify.sh $(GENERATED)
	go test -count=1 ./hack

.PHONY: chaos
chaos: $(addprefix $(BIN)/,kube-apiserver etcd) ## Kill the operator KILLS times (default 200), and everything else now and then [SEED=of an earlier run]
	go test ./tests/chaos -count=1 -v -timeout=2h -kills=$(or $(KILLS),200) -seed=$(or $(SEED),0)

.PHONY: bench
bench: $(addprefix $(BIN)/,kube-apiserver etcd helm-operator helm-operator-plugins) ## Measure ours beside other operators, and write docs/benchmark.md and its plot (about 20 minutes)
	go run ./tests/bench -docs=docs

.PHONY: load
load: ## Load a page and report latencies: make load URL=http://127.0.0.1:8080/hello/ [RATE=1000] [DURATION=30s]
	go run ./tests/load -url "$(URL)" -rate "$(or $(RATE),1000)" -duration "$(or $(DURATION),30s)"

.PHONY: figures
figures: dist/load ## Measure how soon a page is there, and how it serves, with the operator that is deployed
	@hack/figures.sh

.PHONY: screenshots
screenshots: $(BIN)/kubectl ## Take the pictures of the README anew (docs/images): of the page, and of the dashboard (as test-e2e, in a cluster)
	go test ./welcome -count=1 -run TestBrowserLayout
	go test ./tests/e2e -count=1 -v -run 'TestPrometheus$$'
	mkdir -p docs/images
	cp dist/screenshots/greeting-desktop-light.png docs/images/page-light.png
	cp dist/screenshots/dashboard.svg docs/images/dashboard.svg
	@ls -l docs/images

##@ Deploy (to KUBECONFIG if set, else to the local cluster)

export KUBECONFIG ?= $(ROOT)/.cluster/kubeconfig

.PHONY: install
install: $(BIN)/kubectl $(BIN)/kustomize ## Install the CRD
	kustomize build config/crd | kubectl apply --server-side -f -
	@echo 'Next: make run (outside of the cluster) or make deploy (inside)'

.PHONY: uninstall
uninstall: $(BIN)/kubectl $(BIN)/kustomize ## Remove the CRD and, with it, every Welcome (the operator must still run)
	kustomize build config/crd | kubectl delete --ignore-not-found --timeout=120s -f -

.PHONY: run
run: ## Run the operator on this machine against the cluster (stop with ctrl-c)
	RELATED_IMAGE_WELCOME=$(OPERAND_IMG) go run . --metrics-bind-address=127.0.0.1:8443 --health-probe-bind-address=127.0.0.1:8081

# By force: what somebody set by hand (kubectl set image, kubectl scale) would else make the next deploy fail.
.PHONY: deploy
deploy: $(BIN)/kubectl $(BIN)/kustomize ## Deploy the operator with IMG and OPERAND_IMG
	@hack/deployment.sh "$$(hack/image.sh ref $(IMG))" "$$(hack/image.sh ref $(OPERAND_IMG))" | kubectl apply --server-side --force-conflicts -f -
	kubectl -n welcome-operator-system rollout status deployment/welcome-operator-controller-manager --timeout=180s
	@echo 'Next: kubectl apply -f config/samples/webapp_v1_welcome.yaml'

.PHONY: undeploy
undeploy: $(BIN)/kubectl $(BIN)/kustomize ## Delete all Welcomes, then the operator and its CRD
	@if kubectl get crd welcomes.webapp.demo.welcome.domain >/dev/null 2>&1; then \
		kubectl delete welcomes --all --all-namespaces --timeout=120s; fi
	@hack/deployment.sh '$(IMG)' '$(OPERAND_IMG)' | kubectl delete --ignore-not-found --timeout=120s -f -

##@ Packaging for OLM (images for several architectures, bundle, catalog)

# What the images are built for, by cross-compilation.
export PLATFORMS ?= linux/amd64,linux/arm64
# true: the bundle names its images by digest, as catalogs want it. They must have been pushed.
USE_IMAGE_DIGESTS ?= false
# Where bundle/ and bundle.Dockerfile go.
BUNDLE_DIR ?= .

comma := ,
platform-binaries = $(foreach platform,$(subst $(comma), ,$(PLATFORMS)),$(addprefix dist/$(subst /,-,$(platform))/,$(1)))

.PHONY: docker-buildx
docker-buildx: $(call platform-binaries,welcome-operator welcome scorecard) ## Build and push the images of operator, page and scorecard tests for PLATFORMS
	@hack/multiarch.sh build $(IMG) Dockerfile .
	@hack/multiarch.sh push $(IMG)
	@hack/multiarch.sh build $(OPERAND_IMG) welcome/Dockerfile .
	@hack/multiarch.sh push $(OPERAND_IMG)
	@hack/multiarch.sh build $(SCORECARD_IMG) tests/scorecard/Dockerfile .
	@hack/multiarch.sh push $(SCORECARD_IMG)
	@echo 'Next: make bundle bundle-build bundle-push [USE_IMAGE_DIGESTS=true]'

.PHONY: bundle
bundle: $(BIN)/kustomize $(BIN)/operator-sdk ## Generate bundle/ and bundle.Dockerfile
	@hack/bundle.sh $(VERSION) $(IMG) $(OPERAND_IMG) $(SCORECARD_IMG) $(USE_IMAGE_DIGESTS) $(BUNDLE_DIR)

.PHONY: bundle-build
bundle-build: ## Build the bundle image
	@hack/multiarch.sh build $(BUNDLE_IMG) $(BUNDLE_DIR)/bundle.Dockerfile $(BUNDLE_DIR)
	@echo 'Next: make bundle-push'

.PHONY: bundle-push
bundle-push: ## Push the bundle image
	@hack/multiarch.sh push $(BUNDLE_IMG)
	@echo 'Next: make catalog-build catalog-push, or operator-sdk run bundle $(BUNDLE_IMG)'

# The template names bundles of the released repository; IMAGE_TAG_BASE says where they are this time.
.PHONY: catalog-build
catalog-build: $(BIN)/opm ## Build the catalog image from catalog/template.yaml (its bundles must have been pushed)
	@mkdir -p dist/catalog/configs/welcome-operator
	@sed 's|demo.welcome.domain/welcome-operator-bundle|$(IMAGE_TAG_BASE)-bundle|' catalog/template.yaml \
		| opm alpha render-template basic -o yaml - > dist/catalog/configs/welcome-operator/catalog.yaml 2> dist/catalog/render.log \
		|| { echo "catalog-build: $$(grep ^Error dist/catalog/render.log)" >&2; exit 1; }
	@opm validate dist/catalog/configs
	@hack/multiarch.sh build $(CATALOG_IMG) catalog/Dockerfile dist/catalog
	@echo 'Next: make catalog-push'

.PHONY: catalog-push
catalog-push: ## Push the catalog image
	@hack/multiarch.sh push $(CATALOG_IMG)
	@echo 'Next: kubectl apply -f catalog/catalogsource.yaml'

##@ Tools (built from Go modules into bin/, once per change of their go.mod)

KUBERNETES_TOOLS := kube-apiserver kube-controller-manager kube-scheduler kube-proxy kubelet kubectl
KUBERNETES_LDFLAGS := -s -w $(foreach kv,gitVersion=v$(KUBERNETES_VERSION) gitMajor=$(word 1,$(subst ., ,$(KUBERNETES_VERSION))) gitMinor=$(word 2,$(subst ., ,$(KUBERNETES_VERSION))) gitTreeState=clean,-X k8s.io/component-base/version.$(kv))

# tool-build,<tool set>,<package>,<flags>: one binary from tools/<tool set> into bin/, with its time.
define tool-build
	@start=$$(date +%s); mkdir -p $(BIN); printf 'building bin/%s from tools/%s ...\n' '$(@F)' '$(1)'; \
	cd tools/$(1) && go build -mod=mod -trimpath $(3) -o $@ $(2); \
	printf 'built    bin/%s in %ss\n' '$(@F)' "$$(( $$(date +%s) - start ))"
endef

$(addprefix $(BIN)/,$(KUBERNETES_TOOLS)): tools/kubernetes/go.mod
	$(call tool-build,kubernetes,k8s.io/kubernetes/cmd/$(@F),-ldflags '$(KUBERNETES_LDFLAGS)')

$(BIN)/etcd: tools/kubernetes/go.mod
	$(call tool-build,kubernetes,go.etcd.io/etcd/server/v3,-ldflags '-s -w')

$(BIN)/golangci-lint: tools/golangci-lint/go.mod
	$(call tool-build,golangci-lint,github.com/golangci/golangci-lint/v2/cmd/golangci-lint,-ldflags '-s -w')

$(BIN)/coredns: tools/coredns/go.mod tools/coredns/main.go
	$(call tool-build,coredns,.,-ldflags '-s -w')

$(BIN)/kustomize: tools/kustomize/go.mod
	$(call tool-build,kustomize,sigs.k8s.io/kustomize/kustomize/v5,-ldflags '-s -w')

$(BIN)/helm: tools/helm/go.mod
	$(call tool-build,helm,helm.sh/helm/v3/cmd/helm,-ldflags '-s -w')

OPERATOR_FRAMEWORK := github.com/operator-framework
OPERATOR_SDK_VERSION := $(shell awk '$$1 == "$(OPERATOR_FRAMEWORK)/operator-sdk" {print $$2}' tools/operator-sdk/go.mod)
OPERATOR_SDK_LDFLAGS := $(foreach name,Version ImageVersion,-X $(OPERATOR_FRAMEWORK)/operator-sdk/internal/version.$(name)=$(OPERATOR_SDK_VERSION))

$(BIN)/operator-sdk: tools/operator-sdk/go.mod
	$(call tool-build,operator-sdk,$(OPERATOR_FRAMEWORK)/operator-sdk/cmd/operator-sdk,-tags containers_image_openpgp -ldflags '-s -w $(OPERATOR_SDK_LDFLAGS)')

$(BIN)/scorecard-test: tools/operator-sdk/go.mod
	$(call tool-build,operator-sdk,$(OPERATOR_FRAMEWORK)/operator-sdk/images/scorecard-test,-tags containers_image_openpgp -ldflags '-s -w')

# The two stock Helm operators, to compare with (make bench).
$(BIN)/helm-operator: tools/operator-sdk/go.mod
	$(call tool-build,operator-sdk,$(OPERATOR_FRAMEWORK)/operator-sdk/cmd/helm-operator,-ldflags '-s -w')

$(BIN)/helm-operator-plugins: tools/helm-operator-plugins/go.mod
	$(call tool-build,helm-operator-plugins,$(OPERATOR_FRAMEWORK)/helm-operator-plugins,-ldflags '-s -w')

$(BIN)/grpc_health_probe: tools/operator-sdk/go.mod
	$(call tool-build,operator-sdk,github.com/grpc-ecosystem/grpc-health-probe,-ldflags '-s -w')

$(BIN)/opm: tools/opm/go.mod
	$(call tool-build,opm,$(OPERATOR_FRAMEWORK)/operator-registry/cmd/opm,-tags json1$(comma)containers_image_openpgp$(comma)exclude_graphdriver_btrfs$(comma)exclude_graphdriver_devicemapper -ldflags '-s -w')

$(addprefix $(BIN)/,$(OLM_BINARIES)): tools/olm/go.mod
	$(call tool-build,olm,$(OPERATOR_FRAMEWORK)/operator-lifecycle-manager/$(if $(filter cpb,$(@F)),util,cmd)/$(@F),-tags json1$(comma)containers_image_openpgp -ldflags '-s -w')

$(BIN)/pause: tests/cluster/pause/main.go
	go build -trimpath -ldflags '-s -w' -o $@ ./tests/cluster/pause

##@ Local cluster (state in .cluster/; everything is removed by cluster-down)

CLUSTER_TOOLS := $(addprefix $(BIN)/,etcd $(KUBERNETES_TOOLS) coredns pause)

.PHONY: cluster-check
cluster-check:
	@go run ./tests/cluster check

.PHONY: cluster
cluster: cluster-check $(CLUSTER_TOOLS) ## Start a real one-node Kubernetes on this machine (Linux, root)
	go run ./tests/cluster up

.PHONY: cluster-down
cluster-down: ## Stop it and remove everything of it
	go run ./tests/cluster down
