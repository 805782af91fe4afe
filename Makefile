# welcome-operator: every command of the project. `make` lists them.
SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules
ifneq ($(words $(CURDIR)),1)
$(error make knows no names with spaces, as in $(CURDIR): clone or move the repository to a directory without any)
endif
# The recipes and hack/*.sh take these for granted, and fail half-way with those of macOS.
ifneq ($(filter-out 3.%,$(MAKE_VERSION)) $(shell { shopt -s inherit_errexit && sed --version && date --version && xargs --version; } >/dev/null 2>&1 && echo newer),$(MAKE_VERSION) newer)
$(error this needs make 4, bash 4.4 and the sed, coreutils and findutils of GNU: CONTRIBUTING.md says how to get them on macOS)
endif

# ---- Versions: one block. Tool versions live in tools/*/go.mod, library versions in go.mod. ----
VERSION            ?= 0.1.0
TOOLS_KUBERNETES_VERSION := $(shell awk '$$1 == "k8s.io/kubernetes" {print substr($$2, 2)}' tools/kubernetes/go.mod)
# Another one is for the integration tests alone: make test-integration KUBERNETES_VERSION=1.32.13
KUBERNETES_VERSION := $(TOOLS_KUBERNETES_VERSION)
IMAGE_TAG_BASE     ?= demo.welcome.domain/welcome-operator
IMG                ?= $(IMAGE_TAG_BASE):v$(VERSION)
OPERAND_IMG        ?= demo.welcome.domain/welcome:v$(VERSION)
BUNDLE_IMG         ?= $(IMAGE_TAG_BASE)-bundle:v$(VERSION)
# OLM looks for new versions under the tag that it knows.
CATALOG_IMG        ?= $(IMAGE_TAG_BASE)-catalog:latest
SCORECARD_IMG      ?= $(IMAGE_TAG_BASE)-scorecard:v$(VERSION)

# ---- Where a cluster is needed, KUBECONFIG wins over the local one. ----
ROOT := $(CURDIR)
BIN  := bin
CALLERS_PATH := $(PATH)
export PATH := $(ROOT)/$(BIN):$(PATH)
export CGO_ENABLED := 0
# Tests and what make runs share with the binaries what is compiled: minutes with cold caches.
export GOFLAGS := $(filter-out -trimpath,$(GOFLAGS)) -trimpath

# What `make verify` makes again in a copy, and the tools for it.
GENERATED      := manifests bundle
GENERATE_TOOLS := $(BIN)/kustomize $(BIN)/operator-sdk

##@ General

.PHONY: demo
demo: $(BIN)/kubectl ## See it work: start a cluster (unless KUBECONFIG is set), deploy the operator and a Welcome, and read its page
	@IMG=$(IMG) OPERAND_IMG=$(OPERAND_IMG) hack/demo.sh

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n\033[1m%s\033[0m\n", substr($$0, 5)} /^[a-zA-Z0-9_-]+:.*## / {printf "  \033[36m%-19s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Build

# What the metric welcome_operator_build_info tells.
VERSION_VARIABLE := demo.welcome.domain/welcome-operator/internal/operator.version

# What keeps the binaries small. Kubernetes' generated code, that of OpenAPI, kustomize and others are a large part of the operator and little used by it: not
# inlined, they take 3.5 MB less, and to decode or copy a typed Deployment takes 1.5 microseconds more. Functions begin at multiples
# of 16 bytes, as on arm64, instead of amd64's 32: 0.7 MB less.
NOT_INLINED := k8s.io/api k8s.io/client-go/kubernetes k8s.io/client-go/applyconfigurations k8s.io/apiextensions-apiserver sigs.k8s.io/kustomize github.com/google/gnostic-models k8s.io/kubectl \
	k8s.io/kube-openapi sigs.k8s.io/structured-merge-diff k8s.io/cli-runtime sigs.k8s.io/cli-utils github.com/Masterminds github.com/ProtonMail oras.land google.golang.org/protobuf
GO_BUILD := go build $(NOT_INLINED:%=-gcflags=%/...=-l) -ldflags "-s -w -funcalign=16 -X $(VERSION_VARIABLE)=v$(VERSION) -X main.version=v$(VERSION)"

.PHONY: build
build: ## Compile the operator to bin/welcome-operator, and the plugin to bin/kubectl-welcome
	$(GO_BUILD) -o bin/welcome-operator .
	$(GO_BUILD) -o bin/kubectl-welcome ./cmd/kubectl-welcome

.PHONY: install-plugin
install-plugin: ## Put `kubectl welcome`, with its completion, where kubectl finds it [PLUGIN_DIR=a directory on PATH]
	$(GO_BUILD) -o bin/kubectl-welcome ./cmd/kubectl-welcome
	@PATH='$(CALLERS_PATH)' hack/install-plugin.sh bin/kubectl-welcome '$(PLUGIN_DIR)'

.PHONY: kind
kind: $(if $(INTO),,$(BIN)/kustomize $(BIN)/operator-sdk) ## Serve a chart as one more kind, or another version of a kind's chart: make kind CHART=dir|tgz GROUP=apps.example.com VERSION=v1 KIND=MyApp [PIN="path=value path=value"] [ALLOW="path path"] [INTO=../myapp-operator]
	@go run ./hack/manifests kind -chart='$(CHART)' -group='$(GROUP)' -version='$(VERSION)' -kind='$(KIND)' -pin='$(PIN)' -allow='$(ALLOW)' -into='$(INTO)'
ifdef INTO
	@find '$(INTO)' -type f; echo 'Next: read the above, then CONTRIBUTING.md, An operator of its own'
else
	@env --unset=VERSION --unset=MAKEFLAGS $(MAKE) --no-print-directory bundle # VERSION is that of the kind
	@git status --short --untracked-files=all; echo 'Next: read the above, make verify, make images push deploy [IMG=… OPERAND_IMG=…], kubectl apply -f its sample in config/samples'
endif

.PHONY: manifests
manifests: ## Derive from watches.yaml and the charts: CRDs, rights, policy, lists, PROJECT, the chart's table of values; the drawing of imports; examples/ [INTO=../myapp-operator]
	go run ./hack/manifests $(INTO)
ifndef INTO
	@hack/imports.sh
	@hack/examples.sh
endif

# dist/linux-<arch>/: the static binaries that go into the images. Whether one is up to date is for Go to know. Without
# VCS stamping, a commit that changes no code of a binary changes no image either.
ARCH ?= $(shell go env GOARCH)
# go-build-for,<os>,<architecture>,<package>
define go-build-for
	@echo 'compiling $@ ...'
	@GOOS=$(1) GOARCH=$(2) $(GO_BUILD) -buildvcs=false -o $@ $(3)
endef

.PHONY: FORCE
dist/linux-%/welcome: FORCE
	$(call go-build-for,linux,$*,./welcome)
dist/linux-%/welcome-operator: FORCE
	$(call go-build-for,linux,$*,.)
dist/linux-%/scorecard: FORCE
	$(call go-build-for,linux,$*,./tests/scorecard)

.PHONY: images
images: dist/linux-$(ARCH)/welcome dist/linux-$(ARCH)/welcome-operator ## Build the images IMG and OPERAND_IMG with docker or buildah
	@hack/image.sh build $(OPERAND_IMG) welcome/Dockerfile $(ARCH)
	@hack/image.sh build $(IMG) Dockerfile $(ARCH)

.PHONY: page
page: dist/linux-$(ARCH)/welcome ## Build the page alone, OPERAND_IMG, and bring it to where the cluster pulls it from
	@hack/image.sh build $(OPERAND_IMG) welcome/Dockerfile $(ARCH)
	@hack/image.sh push $(OPERAND_IMG)

.PHONY: push
push: ## Bring the images to where the cluster pulls them from: the local cluster's registry, or the one they name
	@hack/image.sh push $(OPERAND_IMG)
	@hack/image.sh push $(IMG)

##@ Test

# Each rung of the ladder (tests/README.md) begins with what it needs, whatever ran before, and ends with a line that says what
# it proved. Its time has that of what make prepares for it.
BEGUN := $(shell date +%s)
RUNG   = go run ./tests/rung run -name=$(or $(RUNG_NAME),$@) -since=$(BEGUN)

OLM_BINARIES    := olm catalog package-server copy-content cpb
OLM_V1_BINARIES := operator-controller catalogd
# In this order: what is cheap and near the code first. The local cluster is stopped only after a success: a failure wants to
# be looked at. The integration tests wait for this and that: half of them run beside the others, with a control plane of their own, and what the rungs after them need is
# compiled meanwhile, eight minutes with cold caches.
RUNGS := test-unit test-integration test-chaos test-e2e test-olm test-olm-v1
.PHONY: test
test: ## Run every test but the long ones (test-all), the cheapest first, as CI does; ends with a table of what they proved
	@hack/setup.sh
	@rm -rf dist/rungs; mkdir -p dist; failed=; trap 'jobs -p | xargs --no-run-if-empty kill' EXIT; \
	for rung in $(RUNGS); do \
		if [ $$rung = test-integration ]; then nice -n 19 $(MAKE) --no-print-directory compile-ahead > dist/compile-ahead.log 2>&1 & fi; \
		echo "== make $$rung"; $(MAKE) --no-print-directory $$rung || { failed=$$rung; break; }; \
		wait; \
	done; \
	if [ -z "$$failed" ]; then $(MAKE) --no-print-directory cluster-down; fi; \
	echo; go run ./tests/rung table $(RUNGS); \
	if [ -n "$$failed" ]; then echo "make $$failed failed, and the rungs after it did not run" >&2; exit 1; fi

.PHONY: test-unit
test-unit: $(BIN)/kustomize ## Run every test that needs no cluster (hack/setup.sh installs the chromium and promtool that some need)
	@$(RUNG) -proves="decisions, chart, CRD, page (in a browser), alert rules" \
		$$(go list ./... | grep -vE '/tests/(integration|e2e|olm|release|bench|chaos)(/|$$)')

# Where the API server and the etcd of KUBERNETES_VERSION are.
CONTROL_PLANE := $(BIN)$(if $(filter-out $(TOOLS_KUBERNETES_VERSION),$(KUBERNETES_VERSION)),/kubernetes-$(KUBERNETES_VERSION))
.PHONY: test-integration
test-integration: $(addprefix $(CONTROL_PLANE)/,kube-apiserver etcd) $(addprefix $(BIN)/,kube-controller-manager kubectl helm helm-operator helm-operator-plugins) ## Run the operator against a real kube-apiserver and etcd [KUBERNETES_VERSION=1.32.13]
	@KUBEBUILDER_ASSETS=$(ROOT)/$(CONTROL_PLANE) $(RUNG) -parts='^Test[A-H],^Test[^A-H]' \
		-proves="the operator's binary and rights on a real API server $(KUBERNETES_VERSION): install, update, drift, records, hostile neighbours" \
		./tests/integration -count=1 -parallel=6 -timeout=40m

CHAOS = $(RUNG) -v -proves="no Welcome is lost, doubled or stuck, whatever is killed" ./tests/chaos -count=1 -timeout=2h
.PHONY: test-chaos
test-chaos: $(addprefix $(BIN)/,kube-apiserver etcd) ## Kill the operator ten times while Welcomes are created, edited and deleted: the short form of make chaos
	@$(CHAOS) -kills=10

.PHONY: update-golden
update-golden: ## Write down what the chart renders now, for every Welcome in tests/render/testdata
	go test ./tests/render -run TestGolden -update

.PHONY: test-e2e
test-e2e: $(BIN)/kubectl $(BIN)/helm ## Test the working tree in a cluster (the local one, unless KUBECONFIG is set) and a browser [TEST_NAMESPACE=for who may create no namespaces]
	@$(RUNG) -v -proves="kubectl, helm, a browser and Prometheus meet the deployed operator: pages, edits without downtime, restarts, alerts" \
		./tests/e2e -count=1 -timeout=30m

# The same, as somebody who has no cluster: another registry, and the Services through the API server alone.
.PHONY: test-stranger
test-stranger: cluster $(BIN)/helm $(BIN)/kustomize ## Run the e2e tests with only the rights of an admin of two namespaces, in the local cluster (in another: KUBECONFIG=… TEST_NAMESPACE=… make test-e2e)
	@KUBECONFIG=$(ROOT)/.cluster/kubeconfig hack/fresh.sh tests
	@hack/stranger.sh stranger $(ROOT)/dist/stranger/kubeconfig
	@. .cluster/env; $(MAKE) --no-print-directory test-e2e RUNG_NAME=test-stranger KUBECONFIG=$(ROOT)/dist/stranger/kubeconfig TEST_NAMESPACE=stranger SSL_CERT_FILE=$$CLUSTER_CA \
		IMAGE_TAG_BASE=$$CLUSTER_REGISTRY/stranger/welcome-operator OPERAND_IMG=$$CLUSTER_REGISTRY/stranger/welcome:v$(VERSION)

dist/load: FORCE
	go build -o $@ ./tests/load

# olm-rung,<flags>: the images go to the cluster's own registry, where their digests are known and nothing else is needed. There, what is in the working tree is
# version 0.1.0, whatever has been released: no release changes the tests.
define olm-rung
	@KUBECONFIG=$(ROOT)/.cluster/kubeconfig hack/fresh.sh tests
	@set -a; . .cluster/env; set +a; export KUBECONFIG=$(ROOT)/.cluster/kubeconfig SSL_CERT_FILE=$$CLUSTER_CA; \
	$(MAKE) --no-print-directory docker-buildx bundle bundle-build bundle-push catalog-build catalog-push BUNDLE_DIR=dist/olm USE_IMAGE_DIGESTS=true \
		VERSION=0.1.0 CATALOG_TEMPLATE=tests/olm/template.yaml IMAGE_TAG_BASE=$$CLUSTER_REGISTRY/welcome-operator OPERAND_IMG=$$CLUSTER_REGISTRY/welcome:v0.1.0; \
	$(RUNG) -v -proves="$(PROVES)" ./tests/olm -count=1 -timeout=30m $(1)
endef

.PHONY: test-olm
test-olm: PROVES = a real OLM installs the bundle, in two modes here, and upgrades it; operator-sdk validates, runs and scores it
test-olm: cluster $(addprefix $(BIN)/,operator-sdk opm scorecard-test grpc_health_probe helm kubectl kustomize $(OLM_BINARIES)) ## Install, upgrade and judge the bundle with a real OLM in the local cluster
	$(call olm-rung,-skip '^TestV1$$|^TestInstallModes$$/^(Own|Single)Namespace$$')

.PHONY: test-install-modes
test-install-modes: PROVES = a real OLM installs the bundle in every mode
test-install-modes: cluster $(addprefix $(BIN)/,operator-sdk opm helm kubectl kustomize $(OLM_BINARIES)) ## Install the bundle with a real OLM in each of the four modes
	$(call olm-rung,-run '^TestInstallModes$$')

.PHONY: test-olm-v1
test-olm-v1: export BUNDLE_NETWORK_POLICY = true
test-olm-v1: PROVES = a real OLM v1 installs the bundle from the catalog, upgrades it under load, holds back what would break Welcomes, and uninstalls it
test-olm-v1: cluster $(addprefix $(BIN)/,operator-sdk opm kubectl kustomize $(OLM_V1_BINARIES)) ## Install, upgrade and uninstall the bundle with a real OLM v1 in the local cluster
	$(call olm-rung,-run '^TestV1$$' -olm-v1)

.PHONY: test-release
test-release: cluster $(addprefix $(BIN)/,cosign helm kubectl kustomize operator-sdk opm) ## Make a release twice, compare, check its signature, and install it in the local cluster
	@KUBECONFIG=$(ROOT)/.cluster/kubeconfig hack/fresh.sh tests
	@set -a; . .cluster/env; set +a; export KUBECONFIG=$(ROOT)/.cluster/kubeconfig; \
	$(RUNG) -v -proves="a release is the same wherever it is made, is signed, says what it is made of, and is installed by kubectl alone" \
		./tests/release -count=1 -timeout=30m

.PHONY: lint
lint: $(BIN)/golangci-lint ## Run the linters of .golangci.yaml
	golangci-lint run

.PHONY: verify
verify: $(GENERATE_TOOLS) ## Fail if a generated file is out of date, a chart changed and not its version, or an entry of watches.yaml lacks something
	go test -count=1 ./hack
	hack/verify.sh $(GENERATED)

.PHONY: chaos
chaos: $(addprefix $(BIN)/,kube-apiserver etcd) ## Kill the operator KILLS times (default 200), and everything else now and then [SEED=of an earlier run]
	@$(CHAOS) -kills=$(or $(KILLS),200) -seed=$(or $(SEED),0)

# What one long test is run with, its flags after -args.
INTEGRATION := go test ./tests/integration -count=1 -v -timeout=60m
.PHONY: charts
charts: $(addprefix $(BIN)/,kube-apiserver etcd kube-controller-manager kubectl kustomize) ## Try charts as kinds: make charts [CHARTS=DIR,DIR] (default: public ones, fetched from GitHub)
	@charts=$(or $(CHARTS),$$(hack/public-charts.sh $(ROOT)/dist/charts)); $(INTEGRATION) -run '^TestCharts$$' -args -charts=$$charts

.PHONY: public-kinds
public-kinds: cluster $(BIN)/kustomize $(BIN)/operator-sdk ## Make kinds of three public charts, and take a sample of each to Ready on the local cluster (5 minutes)
	@hack/public-kinds.sh

.PHONY: test-all
test-all: test chaos ## Run every test, the long ones too (about two hours)
	$(INTEGRATION) -run '^TestAnyState$$' -args -state-cases=6000
	$(INTEGRATION) -run '^TestMoveFromAStockOperator$$' -args -movers=50
	@$(MAKE) --no-print-directory test-install-modes test-release test-stranger cluster-down

.PHONY: bench
bench: $(addprefix $(BIN)/,kube-apiserver etcd helm-operator helm-operator-plugins) ## Measure ours beside other operators, and write docs/benchmark.md and its plot (about 20 minutes)
	go run ./tests/bench -docs=docs

.PHONY: bench-charts
bench-charts: $(addprefix $(BIN)/,kube-apiserver etcd helm-operator helm-operator-plugins) ## Measure ours and the stock Helm operators with each chart of tests/charts, and write the table into docs/benchmark.md (about 20 minutes)
	go run ./tests/bench -charts -docs=docs

.PHONY: bench-failover
bench-failover: $(addprefix $(BIN)/,kube-apiserver etcd) ## Measure how soon a standby takes over from a leader that is killed, or told to stop, 20 times each, and write the table into docs/benchmark.md (about 6 minutes)
	go run ./tests/bench -failover=20 -docs=docs

.PHONY: bench-scale
bench-scale: $(addprefix $(BIN)/,kube-apiserver etcd) ## Measure ours with N Welcomes (default 100000), and write the table and the plot into docs/benchmark.md in at most about LIMIT (default 150m; N=20000 LIMIT=25m is a short one)
	go run ./tests/bench -scale=$(or $(N),100000) -limit=$(or $(LIMIT),150m) -docs=docs

.PHONY: bench-shards
bench-shards: $(addprefix $(BIN)/,kube-apiserver etcd) ## Measure one, two and four operators that share N Welcomes (default 20000), and write the table into docs/benchmark.md (about 45 minutes)
	go run ./tests/bench -shards=$(or $(N),20000) -docs=docs

.PHONY: bench-diff
bench-diff: $(addprefix $(BIN)/,kube-apiserver etcd) ## Measure kubectl welcome diff of WELCOMES Welcomes (default 1000): time, requests, memory (3 minutes)
	$(INTEGRATION) -run '^TestDiffOfMany$$' -args -diff-welcomes=$(or $(WELCOMES),1000)

.PHONY: load
load: ## Load a page and report latencies: make load URL=http://127.0.0.1:8080/hello/ [RATE=1000] [DURATION=30s]
	go run ./tests/load -url "$(URL)" -rate "$(or $(RATE),1000)" -duration "$(or $(DURATION),30s)"

.PHONY: figures
figures: some-cluster dist/load $(BIN)/kubectl ## Measure how soon a page is there, and how it serves, with the operator that is deployed
	@hack/figures.sh

.PHONY: screenshots
screenshots: $(BIN)/kubectl ## Take the pictures of the README anew (docs/images): of the page, and of the dashboard (as test-e2e, in a cluster)
	go test ./welcome -count=1 -run TestBrowserLayout
	go test ./tests/e2e -count=1 -v -run 'TestPrometheus$$'
	mkdir -p docs/images
	cp dist/screenshots/greeting-desktop-light.png docs/images/page-light.png
	cp dist/screenshots/dashboard.svg docs/images/dashboard.svg
	@ls -l docs/images

.PHONY: recording
recording: some-cluster build $(BIN)/kubectl ## Record the moving picture of `kubectl welcome` in README anew, in the cluster where the operator is deployed
	@KUBECONFIG=$(KUBECONFIG) hack/recording.sh

##@ Deploy (to KUBECONFIG if set, else to the local cluster)

export KUBECONFIG := $(or $(KUBECONFIG),$(ROOT)/.cluster/kubeconfig)

# Without one, kubectl asks this machine, and says that the connection was refused.
.PHONY: some-cluster
some-cluster:
	@if [ '$(KUBECONFIG)' = '$(ROOT)/.cluster/kubeconfig' ] && [ ! -e '$(KUBECONFIG)' ]; then \
		echo 'There is no cluster. Make a local one by `make cluster`, or set KUBECONFIG' >&2; exit 1; fi

# By force, as deploy: what kubectl create has made would else conflict once the CRD has changed.
.PHONY: install
install: some-cluster $(BIN)/kubectl $(BIN)/kustomize ## Install the CRDs
	kustomize build config/crd | kubectl apply --server-side --force-conflicts -f -
	@echo 'Next: make run (outside of the cluster) or make deploy (inside)'

.PHONY: uninstall
uninstall: some-cluster $(BIN)/kubectl $(BIN)/kustomize ## Remove the CRDs and, with them, every custom resource (the operator must still run)
	kustomize build config/crd | kubectl delete --ignore-not-found --timeout=120s -f -

.PHONY: run
run: some-cluster ## Run the operator on this machine against the cluster (stop with ctrl-c)
	$(GO_BUILD) -o bin/welcome-operator .
	@OPERAND_IMG=$(OPERAND_IMG) hack/run.sh

# Where the API server listens, if that is not 443 or 6443 (README says how to find out): the operator's NetworkPolicy lets it go there.
export API_SERVER_PORT ?=
# The manifests: config/shards for several operators (docs/shards.md). Not by the environment, where somebody else's BASE may be.
BASE := config/default

.PHONY: diff
diff: some-cluster ## Show what the charts of the working tree would change in the cluster (changes nothing)
	@$(GO_BUILD) -o bin/kubectl-welcome ./cmd/kubectl-welcome
	@bin/kubectl-welcome diff -A $$(sed -n 's/^  chart: /--chart /p' watches.yaml) || test $$? = 1

# By force: what somebody set by hand (kubectl set image, kubectl scale) would else make the next deploy fail.
.PHONY: deploy
deploy: some-cluster $(BIN)/kubectl $(BIN)/kustomize ## Deploy the operator with IMG and OPERAND_IMG [API_SERVER_PORT=16443] [BASE=config/shards]
	@hack/deployment.sh "$$(hack/image.sh ref $(IMG))" "$$(hack/image.sh ref $(OPERAND_IMG))" $(BASE) | hack/permitted.sh apply | kubectl apply --server-side --force-conflicts -f -
	kubectl -n welcome-operator-system rollout status deployment --selector=app.kubernetes.io/part-of=welcome-operator --timeout=180s
	@echo 'Next: KUBECONFIG=$(KUBECONFIG) bin/kubectl apply -k config/samples'

.PHONY: undeploy
undeploy: some-cluster $(BIN)/kubectl $(BIN)/kustomize ## Delete all custom resources, then the operator and its CRDs [BASE=config/shards]
	@crds=$$(kustomize build config/crd | sed -n 's/^  name: //p'); for crd in $$crds; do \
		found=$$(kubectl get crd $$crd --ignore-not-found --output=name); if [ -n "$$found" ]; then kubectl delete $$crd --all --all-namespaces --timeout=120s; fi; done
	@hack/deployment.sh '$(IMG)' '$(OPERAND_IMG)' $(BASE) | hack/permitted.sh delete | kubectl delete --ignore-not-found --timeout=120s -f -

##@ Packaging for OLM (images for several architectures, bundle, catalog)

# What the images are built for, by cross-compilation.
export PLATFORMS ?= linux/amd64,linux/arm64
# true: the bundle names its images by digest, as catalogs want it. They must have been pushed.
USE_IMAGE_DIGESTS ?= false
# true: the bundle has the operator's NetworkPolicy. docs/olm.md says which catalogs want that.
export BUNDLE_NETWORK_POLICY ?= false
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
	@echo 'Next, with the same variables: make bundle bundle-build bundle-push [USE_IMAGE_DIGESTS=true]'

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
CATALOG_TEMPLATE ?= catalog/template.yaml
.PHONY: catalog-build
catalog-build: $(BIN)/opm ## Build the catalog image from CATALOG_TEMPLATE (its bundles must have been pushed)
	@mkdir -p dist/catalog/configs/welcome-operator
	@sed 's|demo.welcome.domain/welcome-operator-bundle|$(IMAGE_TAG_BASE)-bundle|' $(CATALOG_TEMPLATE) \
		| opm alpha render-template basic -o yaml - > dist/catalog/configs/welcome-operator/catalog.yaml 2> dist/catalog/render.log \
		|| { echo "catalog-build: $$(grep ^Error dist/catalog/render.log)" >&2; exit 1; }
	@opm validate dist/catalog/configs
	@hack/multiarch.sh build $(CATALOG_IMG) catalog/Dockerfile dist/catalog
	@echo 'Next: make catalog-push'

.PHONY: catalog-push
catalog-push: ## Push the catalog image
	@hack/multiarch.sh push $(CATALOG_IMG)
	@echo "Next: sed 's|image: .*|image: $(CATALOG_IMG)|' catalog/catalogsource.yaml | kubectl apply -f -"

# What people put on their PATH.
PLUGINS := $(addprefix dist/plugins/kubectl-welcome-,linux-amd64 linux-arm64 darwin-amd64 darwin-arm64)
dist/plugins/kubectl-welcome-%: FORCE
	$(call go-build-for,$(word 1,$(subst -, ,$*)),$(word 2,$(subst -, ,$*)),./cmd/kubectl-welcome)

.PHONY: release
release: $(call platform-binaries,welcome-operator welcome scorecard) $(PLUGINS) $(addprefix $(BIN)/,kustomize operator-sdk opm $(if $(COSIGN_KEY),cosign)) ## Make all of a release in dist/release: make release VERSION=0.2.0 [COSIGN_KEY=cosign.key]
	@PLUGINS='$(PLUGINS)' hack/release.sh $(VERSION) $(IMG) $(OPERAND_IMG) $(SCORECARD_IMG) $(BUNDLE_IMG) $(CATALOG_IMG) '$(COSIGN_KEY)'

##@ Tools: make bin/kubectl, bin/helm, bin/kustomize, … (built from Go modules, once per change of their go.mod)

# About how many seconds each takes with cold caches on 2 idle cores. What tools of one set share is compiled with the first.
COLD_SECONDS := kube-apiserver=240 kubelet=70 kube-controller-manager=30 kubectl=20 etcd=10 kube-proxy=10 coredns=10 networkpolicies=15 metrics-server=15 kube-scheduler=10 kustomize=5 \
	olm=90 package-server=30 opm=15 catalog=5 copy-content=5 cpb=5 catalogd=100 operator-controller=25 operator-sdk=75 scorecard-test=5 grpc_health_probe=5 \
	helm=40 cosign=110 golangci-lint=50 helm-operator=30 helm-operator-plugins=60

# tool-build,<tool set>,<package>,<flags>: one binary from tools/<tool set> into bin/, with its time.
define tool-build
	@start=$$(date +%s); mkdir -p $(@D); \
	echo 'building $@ from tools/$(1) (about $(patsubst $(@F)=%,%,$(filter $(@F)=%,$(COLD_SECONDS))) s on 2 cores, less with warm caches) ...'; \
	cd tools/$(1) && go build -mod=mod $(3) -o $(ROOT)/$@ $(2); \
	echo "built    $@ in $$(($$(date +%s) - start)) s"
endef

.PHONY: compile-ahead
compile-ahead: $(addprefix $(BIN)/,kubelet kube-scheduler kube-proxy coredns networkpolicies metrics-server $(OLM_BINARIES) $(OLM_V1_BINARIES) opm grpc_health_probe scorecard-test) \
	$(call platform-binaries,welcome-operator welcome scorecard)

KUBERNETES_TOOLS := kube-apiserver kube-controller-manager kube-scheduler kube-proxy kubelet kubectl
# kubernetes-ldflags,<version>: without them a server says that it is v0.0.0.
kubernetes-ldflags = -s -w $(foreach kv,gitVersion=v$(1) gitMajor=$(word 1,$(subst ., ,$(1))) gitMinor=$(word 2,$(subst ., ,$(1))) gitTreeState=clean,-X k8s.io/component-base/version.$(kv))

$(addprefix $(BIN)/,$(KUBERNETES_TOOLS)): tools/kubernetes/go.mod
	$(call tool-build,kubernetes,k8s.io/kubernetes/cmd/$(@F),-ldflags '$(call kubernetes-ldflags,$(TOOLS_KUBERNETES_VERSION))')

$(BIN)/etcd: tools/kubernetes/go.mod
	$(call tool-build,kubernetes,go.etcd.io/etcd/server/v3,-ldflags '-s -w')

$(BIN)/coredns $(BIN)/networkpolicies: $(BIN)/%: tools/kubernetes/go.mod tools/kubernetes/%/main.go
	$(call tool-build,kubernetes,./$*,-ldflags '-s -w')

$(BIN)/metrics-server: tools/kubernetes/go.mod
	$(call tool-build,kubernetes,sigs.k8s.io/metrics-server/cmd/metrics-server,-ldflags '-s -w')

$(BIN)/kustomize: tools/kubernetes/go.mod
	$(call tool-build,kubernetes,sigs.k8s.io/kustomize/kustomize/v5,-ldflags '-s -w')

$(BIN)/kubernetes-%/kube-apiserver $(BIN)/kubernetes-%/etcd: hack/kubernetes.sh
	@hack/kubernetes.sh $* $(ROOT)/$(@D) '$(call kubernetes-ldflags,$*)'

$(BIN)/golangci-lint: tools/golangci-lint/go.mod
	$(call tool-build,golangci-lint,github.com/golangci/golangci-lint/v2/cmd/golangci-lint,-ldflags '-s -w')

$(BIN)/cosign: tools/cosign/go.mod
	$(call tool-build,cosign,github.com/sigstore/cosign/v3/cmd/cosign,-ldflags '-s -w')

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

OLM_TAGS := json1$(comma)containers_image_openpgp$(comma)exclude_graphdriver_btrfs$(comma)exclude_graphdriver_devicemapper

$(addprefix $(BIN)/,$(OLM_BINARIES)): tools/olm/go.mod
	$(call tool-build,olm,$(OPERATOR_FRAMEWORK)/operator-lifecycle-manager/$(if $(filter cpb,$(@F)),util,cmd)/$(@F),-tags $(OLM_TAGS) -ldflags '-s -w')

$(addprefix $(BIN)/,$(OLM_V1_BINARIES)): tools/olmv1/go.mod
	$(call tool-build,olmv1,$(OPERATOR_FRAMEWORK)/operator-controller/cmd/$(@F),-tags containers_image_openpgp -ldflags '-s -w')

$(BIN)/opm: tools/olm/go.mod
	$(call tool-build,olm,$(OPERATOR_FRAMEWORK)/operator-registry/cmd/opm,-tags $(OLM_TAGS) -ldflags '-s -w')

$(BIN)/pause: tests/cluster/pause/main.go
	go build -ldflags '-s -w' -o $@ ./tests/cluster/pause

##@ Local cluster (state in .cluster/; everything is removed by cluster-down)

CLUSTER_TOOLS := $(addprefix $(BIN)/,etcd $(KUBERNETES_TOOLS) coredns networkpolicies metrics-server pause)

.PHONY: cluster-check
cluster-check:
	@go run ./tests/cluster check

.PHONY: cluster
cluster: cluster-check $(CLUSTER_TOOLS) ## Start a real one-node Kubernetes on this machine (Linux, root)
	go run ./tests/cluster up

.PHONY: cluster-down
cluster-down: ## Stop it and remove everything of it
	go run ./tests/cluster down
