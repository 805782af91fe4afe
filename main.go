package main

import (
	_ "github.com/operator-framework/helm-operator-plugins/pkg/reconciler"
	_ "github.com/operator-framework/helm-operator-plugins/pkg/watches"
	_ "helm.sh/helm/v3/pkg/action"
	_ "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	_ "k8s.io/apiserver/pkg/server"
	_ "sigs.k8s.io/controller-runtime/pkg/manager"
	_ "sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	_ "sigs.k8s.io/controller-runtime/pkg/envtest"
	_ "github.com/chromedp/chromedp"
	_ "github.com/vishvananda/netlink"
	_ "github.com/google/go-containerregistry/pkg/registry"
	_ "github.com/google/go-containerregistry/pkg/v1/remote"
	_ "sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

func main() {}
