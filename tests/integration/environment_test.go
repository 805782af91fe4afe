// Package integration runs the operator's real binary, with the rights of config/rbac and no others, against a real
// kube-apiserver and etcd. There is no kubelet and no garbage collector: what is deleted here, the operator deleted.
package integration

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

const (
	// operatorNamespace and operatorAccount are what config/rbac calls them before kustomize gives them their final names.
	operatorNamespace = "system"
	operatorAccount   = "controller-manager"
	// image is what RELATED_IMAGE_WELCOME says.
	image = "demo.welcome.domain/welcome:integration"
)

// env is what all tests share.
var env struct {
	root     string // of the repository
	dir      string // for what the tests write
	binary   string // the operator
	kubectl  string
	auditLog string
	admin    *rest.Config
	client   client.Client // the admin's, without a cache
}

var ctx = context.Background()

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	logf.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	stop, err := setUp()
	defer stop()
	if err != nil {
		log.Print(err)
		return 1
	}
	defer func() {
		if shared != nil {
			shared.stop()
		}
	}()
	code := m.Run()
	if code == 0 && flag.Lookup("test.run").Value.String() == "" {
		if err := everyRightWasUsed(); err != nil {
			log.Print(err)
			return 1
		}
	}
	return code
}

// setUp builds the operator and starts a control plane. What it returns must be called even if it fails.
func setUp() (stop func(), err error) {
	stop = func() {}
	if env.root, err = filepath.Abs("../.."); err != nil {
		return stop, err
	}
	if env.dir, err = os.MkdirTemp("", "welcome-integration-"); err != nil {
		return stop, err
	}
	stop = func() { _ = os.RemoveAll(env.dir) }
	env.binary = filepath.Join(env.dir, "welcome-operator")
	env.kubectl = filepath.Join(env.root, "bin", "kubectl")
	env.auditLog = filepath.Join(env.dir, "audit.log")

	start := time.Now()
	build := exec.Command("go", "build", "-o", env.binary, ".")
	build.Dir = env.root
	if out, err := build.CombinedOutput(); err != nil {
		return stop, fmt.Errorf("build the operator: %w\n%s", err, out)
	}
	log.Printf("built the operator in %s", time.Since(start).Round(time.Millisecond))

	start = time.Now()
	policy := filepath.Join(env.dir, "audit-policy.yaml")
	if err := os.WriteFile(policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n"), 0o600); err != nil {
		return stop, err
	}
	controlPlane := &envtest.Environment{
		BinaryAssetsDirectory:    filepath.Join(env.root, "bin"),
		CRDDirectoryPaths:        []string{filepath.Join(env.root, "config/crd/bases")},
		ErrorIfCRDPathMissing:    true,
		ControlPlaneStartTimeout: time.Minute,
		ControlPlaneStopTimeout:  time.Minute,
	}
	controlPlane.ControlPlane.GetAPIServer().Configure().Set("audit-policy-file", policy).Set("audit-log-path", env.auditLog)
	env.admin, err = controlPlane.Start()
	dir := env.dir
	stop = func() {
		if err := controlPlane.Stop(); err != nil {
			log.Printf("stop the control plane: %v", err)
		}
		_ = os.RemoveAll(dir)
	}
	if err != nil {
		return stop, fmt.Errorf("start the control plane (make test-integration builds what it needs): %w", err)
	}
	if env.client, err = client.New(env.admin, client.Options{}); err != nil {
		return stop, err
	}
	log.Printf("started the control plane in %s", time.Since(start).Round(time.Millisecond))
	return stop, applyRights()
}

// applyRights gives the operator's ServiceAccount what config/rbac says.
func applyRights() error {
	if err := env.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: operatorNamespace}}); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(env.root, "config/rbac/*.yaml"))
	if err != nil {
		return err
	}
	for _, file := range files {
		if filepath.Base(file) == "kustomization.yaml" {
			continue
		}
		objects, err := readObjects(file)
		if err != nil {
			return err
		}
		for _, object := range objects {
			if err := env.client.Create(ctx, object); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
		}
	}
	return nil
}

// readObjects reads all documents of a YAML file.
func readObjects(file string) ([]*unstructured.Unstructured, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	for _, document := range strings.Split(string(text), "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
	return objects, nil
}

// token of a ServiceAccount, valid for longer than all tests take.
func token(namespace, account string) (string, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](3600)}}
	owner := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account}}
	if err := env.client.SubResource("token").Create(ctx, owner, request); err != nil {
		return "", fmt.Errorf("token of ServiceAccount %s/%s: %w", namespace, account, err)
	}
	return request.Status.Token, nil
}

// writeKubeconfig writes one that logs in with a token, or as the admin without one.
func writeKubeconfig(file, token string) error {
	user := &clientcmdapi.AuthInfo{Token: token}
	if token == "" {
		user = &clientcmdapi.AuthInfo{ClientCertificateData: env.admin.CertData, ClientKeyData: env.admin.KeyData}
	}
	return clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"it": {Server: env.admin.Host, CertificateAuthorityData: env.admin.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"it": user},
		Contexts:       map[string]*clientcmdapi.Context{"it": {Cluster: "it", AuthInfo: "it"}},
		CurrentContext: "it",
	}, file)
}
