//go:build linux

package main

import (
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"text/template"
)

// component is one daemon of the cluster.
type component struct {
	name string
	path string
	args []string
}

const (
	apiPort      = 6443
	registryPort = 5000
)

func (c *cluster) apiAddress() string      { return fmt.Sprintf("%s:%d", c.Network.Node, apiPort) }
func (c *cluster) registryAddress() string { return fmt.Sprintf("%s:%d", c.Network.Node, registryPort) }

// foundation lists the components that need no API server.
func (c *cluster) foundation() []component {
	n := c.Network
	return []component{
		{"etcd", c.bin("etcd"), []string{
			"--name=" + c.Name,
			"--data-dir=" + filepath.Join(c.Dir, "etcd"),
			"--listen-client-urls=http://127.0.0.1:2379",
			"--advertise-client-urls=http://127.0.0.1:2379",
			"--listen-peer-urls=http://127.0.0.1:2380",
			"--initial-advertise-peer-urls=http://127.0.0.1:2380",
			"--initial-cluster=" + c.Name + "=http://127.0.0.1:2380",
			"--unsafe-no-fsync",
			"--log-level=warn",
		}},
		{"registry", "/proc/self/exe", []string{registryCommand}},
		{"containerd", "containerd", []string{"--config=" + c.config("containerd.toml")}},
		{"kube-apiserver", c.bin("kube-apiserver"), []string{
			"--etcd-servers=http://127.0.0.1:2379",
			"--advertise-address=" + n.Node.String(),
			fmt.Sprintf("--secure-port=%d", apiPort),
			"--service-cluster-ip-range=" + n.Services.String(),
			"--tls-cert-file=" + c.pki("kube-apiserver.crt"),
			"--tls-private-key-file=" + c.pki("kube-apiserver.key"),
			"--client-ca-file=" + c.pki("ca.crt"),
			"--authorization-mode=Node,RBAC",
			"--enable-admission-plugins=NodeRestriction",
			"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
			"--service-account-key-file=" + c.pki("service-account.key"),
			"--service-account-signing-key-file=" + c.pki("service-account.key"),
			"--kubelet-certificate-authority=" + c.pki("ca.crt"),
			"--kubelet-client-certificate=" + c.pki("kubelet-client.crt"),
			"--kubelet-client-key=" + c.pki("kubelet-client.key"),
			// The node's name resolves nowhere, so logs and exec need its address.
			"--kubelet-preferred-address-types=InternalIP",
			// Aggregated APIs, such as OLM's package server.
			"--requestheader-client-ca-file=" + c.pki("front-proxy-ca.crt"),
			"--requestheader-allowed-names=front-proxy-client",
			"--requestheader-username-headers=X-Remote-User",
			"--requestheader-group-headers=X-Remote-Group",
			"--requestheader-extra-headers-prefix=X-Remote-Extra-",
			"--proxy-client-cert-file=" + c.pki("front-proxy-client.crt"),
			"--proxy-client-key-file=" + c.pki("front-proxy-client.key"),
			// Tests count requests in it.
			"--audit-policy-file=" + c.config("audit-policy.yaml"),
			"--audit-log-path=" + c.log("audit"),
			"--audit-log-maxsize=100",
			"--audit-log-maxbackup=2",
		}},
	}
}

// clients lists the components that need the API server.
func (c *cluster) clients() []component {
	return []component{
		{"kube-controller-manager", c.bin("kube-controller-manager"), []string{
			"--kubeconfig=" + c.config("kube-controller-manager.kubeconfig"),
			"--leader-elect=false",
			"--use-service-account-credentials",
			"--root-ca-file=" + c.pki("ca.crt"),
			"--service-account-private-key-file=" + c.pki("service-account.key"),
			"--cluster-signing-cert-file=" + c.pki("ca.crt"),
			"--cluster-signing-key-file=" + c.pki("ca.key"),
			// With the default of 20 the first Deployment waits 4 s for its controller.
			"--kube-api-qps=200",
			"--kube-api-burst=400",
			// With the defaults of 15 s and 5 min, a test of an autoscaler takes as long.
			"--horizontal-pod-autoscaler-sync-period=5s",
			"--horizontal-pod-autoscaler-downscale-stabilization=15s",
		}},
		{"kube-scheduler", c.bin("kube-scheduler"), []string{
			"--kubeconfig=" + c.config("kube-scheduler.kubeconfig"),
			"--leader-elect=false",
		}},
		{"kubelet", c.bin("kubelet"), []string{
			"--config=" + c.config("kubelet.yaml"),
			"--kubeconfig=" + c.config("kubelet.kubeconfig"),
			"--node-ip=" + c.Network.Node.String(),
			"--hostname-override=" + c.Name,
		}},
		{"kube-proxy", c.bin("kube-proxy"), []string{
			"--config=" + c.config("kube-proxy.yaml"),
			"--hostname-override=" + c.Name,
		}},
		{"networkpolicies", c.bin("networkpolicies"), []string{
			"--kubeconfig=" + c.kubeconfig(),
			"--hostname-override=" + c.Name,
			"--service-cluster-ip-range=" + c.Network.Services.String(),
			"--loadbalancer-ip-range=" + c.Network.Balanced.String(),
		}},
		{"balancer", "/proc/self/exe", []string{balancerCommand}},
	}
}

//go:embed files
var files embed.FS

// writeConfigs fills the templates of files/ into .cluster/config.
func (c *cluster) writeConfigs() error {
	templates, err := template.ParseFS(files, "files/*")
	if err != nil {
		return err
	}
	for _, t := range templates.Templates() {
		file, err := os.Create(c.config(t.Name()))
		if err != nil {
			return err
		}
		err = t.Execute(file, map[string]any{
			"Name": c.Name, "Dir": c.Dir, "Network": c.Network, "Registry": c.registryAddress(),
			"PauseImage": pauseImage, "CoreDNSImage": coreDNSImage, "MetricsServerImage": metricsServerImage,
		})
		if closeErr := file.Close(); err == nil {
			err = closeErr
		}
		if err != nil {
			return fmt.Errorf("write %s: %w", file.Name(), err)
		}
	}
	// containerd finds registries by directory.
	hosts := c.config("registries/_default")
	if err := os.MkdirAll(hosts, 0o755); err != nil {
		return err
	}
	return os.Rename(c.config("hosts.toml"), filepath.Join(hosts, "hosts.toml"))
}
