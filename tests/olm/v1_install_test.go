package olm

import (
	"context"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/cert"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

const olmV1Namespace = "olmv1-system"

var (
	operatorControllerImage = registry + "/operator-framework/operator-controller:test"
	catalogdImage           = registry + "/operator-framework/catalogd:test"
)

// installOLMv1 applies the manifest of OLM v1's own module, and waits until both of its programs run.
func installOLMv1(ctx context.Context) error {
	// Remove what a failed run has left: it has another certificate.
	if err := uninstallOLMv1(ctx); err != nil {
		return err
	}
	manifest, err := readOLMv1(ctx)
	if err != nil {
		return err
	}
	if err := kubectl(ctx, manifest, "apply", "--server-side", "--force-conflicts", "-f", "-"); err != nil {
		return err
	}
	return kubectl(ctx, "", "--namespace="+olmV1Namespace, "rollout", "status", "deployment", "--timeout=180s")
}

func uninstallOLMv1(ctx context.Context) error {
	manifest, err := readOLMv1(ctx)
	if err != nil {
		return err
	}
	return kubectl(ctx, manifest, "delete", "--ignore-not-found", "--timeout=120s", "-f", "-")
}

// readOLMv1 returns OLM v1's manifest, with the images of these tests, and for a cluster without cert-manager: with
// certificates in place of the objects by which cert-manager would issue them.
func readOLMv1(ctx context.Context) (string, error) {
	module, err := moduleDir(ctx, "tools/olmv1", "github.com/operator-framework/operator-controller")
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(filepath.Join(module, "manifests", "standard.yaml"))
	if err != nil {
		return "", err
	}
	objects, err := kit.Objects([]byte(strings.NewReplacer(
		"quay.io/operator-framework/operator-controller:devel", operatorControllerImage,
		"quay.io/operator-framework/catalogd:devel", catalogdImage,
	).Replace(string(text))))
	if err != nil {
		return "", err
	}
	certificate, key, err := cert.GenerateSelfSignedCertKey("catalogd-service."+olmV1Namespace+".svc", nil, nil)
	if err != nil {
		return "", err
	}
	// Both programs pull images by themselves, and verify the registry by its CA.
	registryCA, err := os.ReadFile(os.Getenv("SSL_CERT_FILE"))
	if err != nil {
		return "", err
	}
	all := kit.List("v1", "")
	for _, object := range objects {
		if strings.HasPrefix(object.GetAPIVersion(), "cert-manager.io/") {
			continue
		}
		if object.GetKind() == "MutatingWebhookConfiguration" {
			webhook := object.Object["webhooks"].([]any)[0].(map[string]any)
			webhook["clientConfig"].(map[string]any)["caBundle"] = base64.StdEncoding.EncodeToString(certificate)
		}
		all.Items = append(all.Items, *object)
	}
	for _, name := range []string{"catalogd-service-cert-git-version", "olmv1-cert"} {
		secret := kit.Object("v1", "Secret")
		secret.SetNamespace(olmV1Namespace)
		secret.SetName(name)
		secret.Object["stringData"] = map[string]any{"tls.crt": string(certificate), "tls.key": string(key), "ca.crt": string(certificate) + string(registryCA)}
		all.Items = append(all.Items, *secret)
	}
	manifest, err := all.MarshalJSON()
	return string(manifest), err
}

func pushImagesOfOLMv1(ctx context.Context) error {
	return pushAll(ctx, map[string]imageContent{
		// The manifest runs ./catalogd.
		catalogdImage:           {files: []file{{kit.File("bin", "catalogd"), "catalogd"}}},
		operatorControllerImage: {files: []file{{kit.File("bin", "operator-controller"), "operator-controller"}}},
	})
}

func olmV1Object(kind, name string) *unstructured.Unstructured {
	object := kit.Object("olm.operatorframework.io/v1", kind)
	object.SetName(name)
	return object
}
