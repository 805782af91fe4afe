#!/usr/bin/env bash
# Makes kinds of public charts in a clone of what is committed, and takes a sample of each to Ready on the local cluster, with the rights and in the bounds that
# were made of it: prints what was made, how long it took, and that nothing was edited. Nothing of the charts stays in this repository. Their programs cannot be
# pulled here: busybox' httpd stands for each, and answers at its port what its probes ask for. `make public-kinds` calls it.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD clone=$PWD/dist/public-kinds
export KUBECONFIG=$clone/.cluster/kubeconfig KUBECACHEDIR=$clone/dist/kube-cache # what other clusters know is none of this one
hack/public-charts.sh dist/charts >/dev/null
rm -rf "$clone"
git clone --quiet . "$clone"
cp -al bin "$clone"
ln -s "$root/.cluster" "$clone/.cluster"
cd "$clone"
mkdir -p dist/standin/www/-
touch dist/standin/www/{health,-/healthy,-/ready}
cp /bin/busybox dist/standin

# chart, port of its program, and what of its values is its image
while read -r chart port image; do
	kind=$(tr -d - <<<"${chart#prometheus-}") kind=${kind^}
	start=$(date +%s)
	# The arguments of the chart are words that the shell does not look at.
	printf 'FROM scratch\nCOPY --chmod=755 busybox /bin/busybox\nCOPY --chmod=755 www /www\nENTRYPOINT ["/bin/busybox", "sh", "-c", "exec /bin/busybox httpd -f -p %s -h /www"]\n' "$port" > dist/standin/Dockerfile
	hack/image.sh build "demo.welcome.domain/standin:v$port" dist/standin/Dockerfile "$(go env GOARCH)" dist/standin
	hack/image.sh push "demo.welcome.domain/standin:v$port"
	git add --all && git -c user.name=x -c user.email=x@example.com -c commit.gpgsign=false -c core.hooksPath=/dev/null commit --quiet --allow-empty --message before
	make --no-print-directory kind CHART="$root/dist/charts/charts/prometheus-community-$chart" GROUP=public.example.com VERSION=v1 KIND="$kind" \
		PIN="$image image.tag=v$port" > dist/kind.log || { cat dist/kind.log; exit 1; }
	echo "$chart: $(git status --short --untracked-files=all | wc -l) files made or changed, none by hand:"
	git status --short --untracked-files=all | grep -v " helm-charts/"
	make --no-print-directory images push deploy >/dev/null
	kubectl apply --filename "config/samples/public_v1_${kind,,}.yaml"
	kubectl wait --for=condition=Ready --timeout=120s "${kind,,}.public.example.com" --all
	echo "$chart: from nothing to Ready in $(($(date +%s) - start)) s"
done <<<'prometheus-pushgateway 9091 image.registry=demo.welcome.domain image.repository=standin
prometheus-statsd-exporter 9102 image.repository=demo.welcome.domain/standin
prometheus-blackbox-exporter 9115 image.registry=demo.welcome.domain image.repository=standin'
go test -count=1 ./hack -run 'TestKinds|TestSamples'
make --no-print-directory undeploy >/dev/null
