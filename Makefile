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
CATALOG_IMG        ?= $(IMAGE_TAG_BASE)-catalog:v$(VERSION)

# ---- Where a cluster is needed, KUBECONFIG wins over the local one. ----
ROOT := $(CURDIR)
BIN  := $(ROOT)/bin
export PATH := $(BIN):$(PATH)
export CGO_ENABLED := 0

# What `make verify` makes again in a copy, and the tools for it.
GENERATED      := manifests
GENERATE_TOOLS :=

##@ General

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n\033[1m%s\033[0m\n", substr($$0, 5)} /^[a-zA-Z0-9_-]+:.*## / {printf "  \033[36m%-18s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Build

.PHONY: build
build: ## Compile the operator to bin/welcome-operator
	go build -trimpath -ldflags "-s -w" -o bin/welcome-operator .

# dist/linux-<arch>/: the static binaries that go into the images. Whether one is up to date is for Go to know. Without
# VCS stamping, a commit that changes no code of a binary changes no image either.
ARCH ?= $(shell go env GOARCH)
GO_IMAGE_BUILD = GOOS=linux GOARCH=$* go build -trimpath -buildvcs=false -ldflags "-s -w" -o $@

.PHONY: FORCE
dist/linux-%/welcome: FORCE
	$(GO_IMAGE_BUILD) ./welcome
dist/linux-%/welcome-operator: FORCE
	$(GO_IMAGE_BUILD) .

##@ Test

.PHONY: test-unit
test-unit: ## Run every test that needs no cluster (the browser ones need Debian's chromium)
	go test $$(go list ./... | grep -vE '/tests/(integration|e2e|olm|bench|chaos)(/|$$)')

.PHONY: lint
lint: $(BIN)/golangci-lint ## Run the linters of .golangci.yaml
	golangci-lint run

.PHONY: verify
verify: $(GENERATE_TOOLS) ## Fail if a generated file is out of date, or PROJECT, watches.yaml, CRD, samples and chart disagree
	hack/verify.sh $(GENERATED)
	go test -count=1 ./hack

.PHONY: load
load: ## Load a page and report latencies: make load URL=http://127.0.0.1:8080/hello/ [RATE=1000] [DURATION=30s]
	go run ./tests/load -url "$(URL)" -rate "$(or $(RATE),1000)" -duration "$(or $(DURATION),30s)"

.PHONY: screenshots
screenshots: ## Take the screenshots of the README anew (docs/images) in light and dark
	go test ./welcome -count=1 -run TestBrowserLayout
	mkdir -p docs/images
	cp dist/screenshots/greeting-desktop-light.png docs/images/page-light.png
	cp dist/screenshots/greeting-desktop-dark.png docs/images/page-dark.png
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

.PHONY: deploy
deploy: $(BIN)/kubectl $(BIN)/kustomize ## Deploy the operator with IMG and OPERAND_IMG
	@hack/deployment.sh '$(IMG)' '$(OPERAND_IMG)' | kubectl apply --server-side -f -
	kubectl -n welcome-operator-system rollout status deployment/welcome-operator-controller-manager --timeout=180s
	@echo 'Next: kubectl apply -f config/samples/webapp_v1_welcome.yaml'

.PHONY: undeploy
undeploy: $(BIN)/kubectl $(BIN)/kustomize ## Delete all Welcomes, then the operator and its CRD
	@if kubectl get crd welcomes.webapp.demo.welcome.domain >/dev/null 2>&1; then \
		kubectl delete welcomes --all --all-namespaces --timeout=120s; fi
	@hack/deployment.sh '$(IMG)' '$(OPERAND_IMG)' | kubectl delete --ignore-not-found --timeout=120s -f -

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

$(BIN)/pause: tests/cluster/pause/main.go
	go build -trimpath -ldflags '-s -w' -o $@ ./tests/cluster/pause

##@ Local cluster (state in .cluster/; everything is removed by cluster-down)

CLUSTER_TOOLS := $(addprefix $(BIN)/,etcd $(KUBERNETES_TOOLS) coredns pause)

.PHONY: cluster
cluster: $(CLUSTER_TOOLS) ## Start a real one-node Kubernetes on this machine (Linux, root)
	go run ./tests/cluster up

.PHONY: cluster-down
cluster-down: ## Stop it and remove everything of it
	go run ./tests/cluster down
