#!/usr/bin/env bash
# Fetches the public charts that TestCharts was tried with, each at its commit, into a directory, and prints that of each, separated by
# commas. Beside some is written what their entry of watches.yaml needs (entry.yaml, which TestCharts reads). A checkout or mirror of owner/repository that is in $MIRRORS as owner+repository is read instead of GitHub.
# `make charts` calls it.
set -euo pipefail
into=${1:?a directory}
mkdir -p "$into/repositories" "$into/charts"

# owner/repository, commit, where in it, charts
charts='
bitnami/charts 5165628ae06697f8f68a670bef7739d93c4b7f44 bitnami apache etcd kafka mariadb memcached minio nats nginx postgresql rabbitmq redis tomcat
prometheus-community/helm-charts cf408a290aec489277a94450bb3511432477a53a charts alertmanager kube-state-metrics prometheus-blackbox-exporter prometheus-mysql-exporter prometheus-nginx-exporter prometheus-pushgateway prometheus-redis-exporter prometheus-snmp-exporter prometheus-statsd-exporter
grafana/helm-charts 7a0ab968961a165318ab95ff678908c3b9bc3240 charts fluent-bit loki-canary promtail
stefanprodan/podinfo eec06d1ea459af4cb4e10e806f8be7c7bd58b361 charts podinfo
traefik/traefik-helm-chart a8a66d0098703627b2cf352c66b1725c196a734a . traefik
nats-io/k8s 957650fba03e2e6ad8b5d54d66358f67a431157b helm/charts nats
goharbor/harbor-helm 70564d52f0ade16a481c6cd29efc8db863b487ce . .
jenkinsci/helm-charts 22055414e808938d0fc0585c4920d57661acce90 charts jenkins
hashicorp/vault-helm aa1c92e4adddbce9660e536dfe5222a88eda6d52 . .
argoproj/argo-helm af0a9310bacbaa4636018dfe22c801a6d33a5c43 charts argo-rollouts argo-events argocd-image-updater argocd-apps argo-workflows argo-cd
'
# entry CHART writes what the entry of a chart needs: names with namespace and name of the custom resource for what is in no namespace, no CRDs among the templates.
entry() {
	local pins= cluster='ClusterRole ClusterRoleBinding'
	case $1 in
	prometheus-community-kube-state-metrics | grafana-fluent-bit | grafana-promtail) ;;
	hashicorp-chart)
		cluster="$cluster MutatingWebhookConfiguration"
		pins='injector.webhook.namespaceSelector.matchLabels.kubernetes\.io/metadata\.name: "{namespace}"'
		;;
	traefik-traefik) cluster="$cluster IngressClass" ;;
	argoproj-argo-rollouts) pins='installCRDs: "false"' ;;
	argoproj-argo-cd | argoproj-argo-events | argoproj-argocd-image-updater) pins='crds.install: "false"' ;;
	argoproj-argo-workflows) pins=$'crds.install: "false"\n    controller.workflowNamespaces[0]: "{namespace}"' ;;
	bitnami-mariadb)
		cluster=
		pins='auth.rootPassword: for-a-test' # without, it asks at each upgrade for the one that it has made
		;;
	grafana-loki-canary)
		cluster=
		pins='lokiAddress: loki:3100'
		;;
	*) return 0 ;;
	esac
	echo '  overrideValues:'
	[ -z "$pins" ] || echo "    $pins"
	[ -n "$cluster" ] || return 0
	echo '    fullnameOverride: "{namespace}-{name}"'
	[ "$1" != traefik-traefik ] || echo '  crds: true' # the only one that has some in crds/
	echo '  allow:'
	echo '    cluster:'
	for kind in $cluster; do
		case $kind in
		*Webhook*) kind=$kind.admissionregistration.k8s.io ;;
		IngressClass) kind=$kind.networking.k8s.io ;;
		*) kind=$kind.rbac.authorization.k8s.io ;;
		esac
		echo "    - {kind: $kind, name: \"{namespace}-{name}*\"}"
	done
}

while read -r repository commit under names; do
	[ -n "$repository" ] || continue
	git="${MIRRORS:-}/${repository/\//+}"
	[ -d "$git/repo" ] && git="$git/repo"
	if [ ! -d "$git" ]; then
		git="$into/repositories/${repository/\//+}"
		[ -d "$git" ] || git clone --quiet --bare --filter=blob:none "https://github.com/$repository" "$git" >&2
	fi
	for name in $names; do
		path="$under/$name" path=${path#./} path=${path#.}
		chart="$into/charts/${repository%%/*}-${name/#./chart}"
		[ -d "$chart" ] || {
			rm -rf "$chart.part"
			mkdir -p "$chart.part" # half of one would pass for one the next time
			git -C "$git" archive "$commit:$path" | tar -x -C "$chart.part"
			# bitnami's charts are kept without the library that they share
			! grep -q 'name: common$' "$chart.part/Chart.yaml" || { mkdir -p "$chart.part/charts/common" && git -C "$git" archive "$commit:$under/common" | tar -x -C "$chart.part/charts/common"; }
			mv "$chart.part" "$chart"
		}
		entry "$(basename "$chart")" > "$chart/entry.yaml"
		[ -s "$chart/entry.yaml" ] || rm "$chart/entry.yaml"
		printf '%s,' "$chart"
	done
done <<<"$charts" | sed 's/,$//'
