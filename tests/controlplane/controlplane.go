// Package controlplane starts a real kube-apiserver and etcd, without a node, and the operators that are
// tested on them.
package controlplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"demo.welcome.domain/welcome-operator/tests/kit"
	"demo.welcome.domain/welcome-operator/tests/waiting"
)

// ControlPlane is a running kube-apiserver with its etcd, the CRDs of this repository, and an audit log.
type ControlPlane struct {
	// Dir is for files of a run. It is deleted with the control plane.
	Dir string
	// Admin has all rights, and no rate limit.
	Admin *rest.Config
	// Client is the admin's client, without a cache.
	Client client.WithWatch

	env *envtest.Environment
}

// auditPolicy logs the requests of users, or of all if there are none, and the requests by which Mark finds
// positions in the log.
func auditPolicy(users []string) string {
	policy := "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules:\n"
	if len(users) > 0 {
		policy += fmt.Sprintf("- {level: Metadata, users: [%s]}\n- {level: Metadata, verbs: [get], namespaces: [default], resources: [{group: \"\", resources: [configmaps]}]}\n- {level: None}\n",
			strings.Join(users, ", "))
	}
	return policy + "- {level: Metadata}\n"
}

// Start starts a control plane with the binaries in KUBEBUILDER_ASSETS, or else in bin/. Its audit log has
// the requests of users, or of all if none are named. Call Stop even if Start fails.
func Start(users ...string) (*ControlPlane, error) {
	c := &ControlPlane{}
	var err error
	if c.Dir, err = os.MkdirTemp("", "welcome-controlplane-"); err != nil {
		return c, err
	}
	policy := filepath.Join(c.Dir, "audit-policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy(users)), 0o600); err != nil {
		return c, err
	}
	c.env = &envtest.Environment{
		BinaryAssetsDirectory:    cmp.Or(os.Getenv("KUBEBUILDER_ASSETS"), kit.File("bin")),
		CRDDirectoryPaths:        []string{kit.File("config/crd/bases")},
		ErrorIfCRDPathMissing:    true,
		ControlPlaneStartTimeout: time.Minute,
		ControlPlaneStopTimeout:  time.Minute,
	}
	server, etcd := c.env.ControlPlane.GetAPIServer(), &envtest.Etcd{}
	c.env.ControlPlane.Etcd = etcd
	// envtest would delete directories of its own at a restart.
	server.CertDir, etcd.DataDir = filepath.Join(c.Dir, "certificates"), filepath.Join(c.Dir, "etcd")
	if err := errors.Join(os.Mkdir(server.CertDir, 0o700), os.Mkdir(etcd.DataDir, 0o700)); err != nil {
		return c, err
	}
	server.Configure().
		Disable("disable-admission-plugins"). // what ServiceAccounts add to pods counts
		Set("audit-policy-file", policy).
		Set("audit-log-path", c.auditLog()).
		Set("audit-log-maxsize", "1000000").            // megabytes; by default, the log is rotated at 100, and tests would miss its beginning
		Set("service-cluster-ip-range", "10.0.0.0/12"). // for ten thousand Services
		Set("service-node-port-range", "20000-65000")   // for those of type LoadBalancer
	etcd.Configure().Set("quota-backend-bytes", "8589934592")
	started := waiting.While(waiting.Stderr, "kube-apiserver and etcd start")
	c.Admin, err = c.env.Start()
	started()
	if err != nil {
		return c, fmt.Errorf("start the control plane (make test-integration builds what it needs): %w", err)
	}
	c.Admin.QPS = -1
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme)); err != nil {
		return c, err
	}
	c.Client, err = client.NewWithWatch(c.Admin, client.Options{Scheme: scheme})
	return c, err
}

// Stop ends the control plane and removes everything of it.
func (c *ControlPlane) Stop() error {
	var err error
	if c.Admin != nil {
		server, etcd := c.env.ControlPlane.GetAPIServer(), c.env.ControlPlane.Etcd
		err = errors.Join(c.kill("kube-apiserver", server.Stop), c.kill("etcd", etcd.Stop), c.env.WebhookInstallOptions.Cleanup())
	}
	if c.Dir != "" {
		err = errors.Join(err, os.RemoveAll(c.Dir))
	}
	return err
}

// RestartAPIServer kills kube-apiserver and starts it again on the same port.
func (c *ControlPlane) RestartAPIServer() error {
	server := c.env.ControlPlane.GetAPIServer()
	if err := c.kill("kube-apiserver", server.Stop); err != nil {
		return err
	}
	return server.Start()
}

// RestartEtcd kills etcd and starts it again with its data.
func (c *ControlPlane) RestartEtcd() error {
	etcd := c.env.ControlPlane.Etcd
	if err := c.kill("etcd", etcd.Stop); err != nil {
		return err
	}
	return etcd.Start()
}

// BackUpEtcd copies the data of etcd as they are at this moment, and returns the directory with the copy.
func (c *ControlPlane) BackUpEtcd() (dir string, err error) {
	pid, err := c.PID("etcd")
	if err != nil {
		return "", err
	}
	if dir, err = os.MkdirTemp(c.Dir, "backup-"); err != nil {
		return "", err
	}
	return dir, errors.Join(freeze(pid), os.CopyFS(dir, os.DirFS(c.env.ControlPlane.Etcd.DataDir)), syscall.Kill(pid, syscall.SIGCONT))
}

// RestoreEtcd kills etcd and kube-apiserver, and starts them again with the data in dir: what was written since they
// were copied is lost, and resource versions that were used are used again.
func (c *ControlPlane) RestoreEtcd(dir string) error {
	server, etcd := c.env.ControlPlane.GetAPIServer(), c.env.ControlPlane.Etcd
	if err := errors.Join(c.kill("kube-apiserver", server.Stop), c.kill("etcd", etcd.Stop)); err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(etcd.DataDir), os.CopyFS(etcd.DataDir, os.DirFS(dir)), os.Chmod(etcd.DataDir, 0o700)); err != nil {
		return err
	}
	return errors.Join(etcd.Start(), server.Start())
}

// kill ends a program of the control plane at once: upon a signal to stop, kube-apiserver would wait a minute
// for its watches. stop is envtest's, which hides its process, and has to know that this is gone.
func (c *ControlPlane) kill(program string, stop func() error) error {
	pid, err := c.PID(program)
	if err != nil {
		return err
	}
	if pid > 0 {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			return fmt.Errorf("kill %s: %w", program, err)
		}
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if err := stop(); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

// PID is the process ID of kube-apiserver or etcd, 0 if it does not run.
func (c *ControlPlane) PID(program string) (int, error) {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return 0, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // gone meanwhile
		}
		binary, arguments, _ := strings.Cut(string(text), "\x00")
		if filepath.Base(binary) == program && strings.Contains(arguments, c.Dir) {
			return strconv.Atoi(filepath.Base(filepath.Dir(file)))
		}
	}
	return 0, nil
}

// AddUser returns the configuration of a client for a new user with all rights. The audit log has the user's
// name.
func (c *ControlPlane) AddUser(name string) (*rest.Config, error) {
	user, err := c.env.AddUser(envtest.User{Name: name, Groups: []string{"system:masters"}}, nil)
	if err != nil {
		return nil, fmt.Errorf("add user %s: %w", name, err)
	}
	login := user.Config()
	login.Host = c.Admin.Host
	return login, nil
}

// As is the configuration of a client with a token.
func (c *ControlPlane) As(token string) *rest.Config {
	login := rest.AnonymousClientConfig(c.Admin)
	login.BearerToken = token
	return login
}

// Token is a token of a ServiceAccount, valid for longer than any test takes.
func (c *ControlPlane) Token(ctx context.Context, namespace, account string) (string, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(24 * 3600))}}
	owner := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account}}
	if err := c.Client.SubResource("token").Create(ctx, owner, request); err != nil {
		return "", fmt.Errorf("token of ServiceAccount %s/%s: %w", namespace, account, err)
	}
	return request.Status.Token, nil
}

// Kubeconfig writes a kubeconfig for a client configuration, and returns its path.
func (c *ControlPlane) Kubeconfig(name string, login *rest.Config) (file string, err error) {
	file = filepath.Join(c.Dir, name+".kubeconfig")
	// Tests that run in parallel write the admin's again while a kubectl of others reads it.
	draft, err := os.CreateTemp(c.Dir, name+"-")
	if err != nil {
		return "", err
	}
	if err := draft.Close(); err != nil {
		return "", err
	}
	if err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"test": {Server: login.Host, CertificateAuthorityData: login.CAData}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"test": {
			Token: login.BearerToken, ClientCertificateData: login.CertData, ClientKeyData: login.KeyData,
		}},
		Contexts:       map[string]*clientcmdapi.Context{"test": {Cluster: "test", AuthInfo: "test"}},
		CurrentContext: "test",
	}, draft.Name()); err != nil {
		return "", err
	}
	return file, os.Rename(draft.Name(), file)
}

func (c *ControlPlane) auditLog() string { return filepath.Join(c.Dir, "audit.log") }
