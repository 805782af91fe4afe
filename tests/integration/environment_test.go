// Package integration runs the operator's real binary, with the rights of config/rbac and no others, and
// within the bounds of config/policy, against a real kube-apiserver and etcd. There is no kubelet, and no
// garbage collector unless a test starts it: what is deleted here, the operator deleted.
package integration

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"demo.welcome.domain/welcome-operator/tests/controlplane"
	"demo.welcome.domain/welcome-operator/tests/kit"
)

const (
	// operatorNamespace and operatorAccount are the names in config/rbac, before kustomize sets the final
	// ones.
	operatorNamespace = "system"
	operatorAccount   = "controller-manager"
	// image is the value of RELATED_IMAGE_WELCOME.
	image = "demo.welcome.domain/welcome:integration"
)

// env is what all tests share.
var env struct {
	*controlplane.ControlPlane
	binary string // the operator's program
}

var ctx = context.Background()

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	logf.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	defer func() {
		if shared != nil {
			shared.Stop()
		}
		if err := env.Stop(); err != nil {
			log.Printf("stop the control plane: %v", err)
		}
	}()
	if err := setUp(); err != nil {
		log.Print(err)
		return 1
	}
	code := m.Run()
	if code == 0 {
		if err := everyRightWasUsed(); err != nil {
			log.Print(err)
			return 1
		}
	}
	return code
}

// setUp starts a control plane and builds the operator. The control plane has to be stopped even if setUp
// fails.
func setUp() (err error) {
	start := time.Now()
	if env.ControlPlane, err = controlplane.Start(); err != nil {
		return err
	}
	log.Printf("started the control plane in %s", time.Since(start).Round(time.Millisecond))
	start = time.Now()
	env.binary = filepath.Join(env.Dir, "welcome-operator")
	if err := kit.Build(env.binary, "."); err != nil {
		return err
	}
	log.Printf("built the operator in %s", time.Since(start).Round(time.Millisecond))
	return applyRights()
}

// applyRights gives the operator's ServiceAccount the rights of config/rbac, within the bounds of
// config/policy.
func applyRights() error {
	if err := env.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: operatorNamespace}}); err != nil {
		return err
	}
	objects, err := rights()
	if err != nil {
		return err
	}
	text, err := os.ReadFile(kit.File("config/policy/policy.yaml"))
	if err != nil {
		return err
	}
	policy, err := kit.Objects(text)
	if err != nil {
		return err
	}
	objects = append(objects, policy...)
	for _, object := range objects {
		if err := env.Client.Create(ctx, object); err != nil {
			return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

// rights are all objects of config/rbac.
func rights() (objects []*unstructured.Unstructured, err error) {
	files, err := filepath.Glob(kit.File("config/rbac/*.yaml"))
	for _, file := range files {
		if filepath.Base(file) == "kustomization.yaml" {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		more, err := kit.Objects(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		objects = append(objects, more...)
	}
	return objects, err
}
