package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/controlplane"
	"demo.welcome.domain/welcome-operator/tests/kit"
	"demo.welcome.domain/welcome-operator/tests/render"
)

// bench is what measures all contenders.
type bench struct {
	*controlplane.ControlPlane
	renderer *render.Renderer
	// reader is the token of an account that may read metrics.
	reader      string
	kubeconfigs map[string]string // by user
	programs    map[string]string // by user
	crd         *apiextensionsv1.CustomResourceDefinition
	// deployedEnv are the environment variables of config/manager, which set Go's garbage collection.
	deployedEnv []string
}

func newBench(ctx context.Context, plane *controlplane.ControlPlane) (*bench, error) {
	b := &bench{ControlPlane: plane, kubeconfigs: map[string]string{}, programs: map[string]string{}, crd: &apiextensionsv1.CustomResourceDefinition{}}
	var err error
	if err = os.Setenv("RELATED_IMAGE_WELCOME", image); err != nil { // for the renderer
		return nil, err
	}
	if b.renderer, err = render.LoadRenderer(kit.Root()); err != nil {
		return nil, err
	}
	if b.reader, err = b.metricsReader(ctx); err != nil {
		return nil, err
	}
	watches, err := os.ReadFile(kit.File("watches.yaml"))
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(b.Dir, "watches.yaml"), append(watches, "  watchDependentResources: false\n"...), 0o600); err != nil {
		return nil, err
	}
	if b.deployedEnv, err = readEnv(kit.File("config/manager/manager.yaml")); err != nil {
		return nil, err
	}
	return b, b.Client.Get(ctx, client.ObjectKey{Name: kit.CRD}, b.crd)
}

// readEnv returns the environment variables of a Deployment's first container.
func readEnv(file string) (env []string, err error) {
	deployment, err := kit.Read[appsv1.Deployment](file)
	if err != nil {
		return nil, err
	}
	for _, variable := range deployment.Spec.Template.Spec.Containers[0].Env {
		env = append(env, variable.Name+"="+variable.Value)
	}
	return env, nil
}

// metricsReader returns the token of a ServiceAccount that may read metrics.
func (b *bench) metricsReader(ctx context.Context) (token string, err error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "metrics-reader"}}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: account.Name}, Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: account.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: account.Namespace, Name: account.Name}},
	}
	for _, object := range []client.Object{account, role, binding} {
		if err := b.Client.Create(ctx, object); err != nil {
			return "", fmt.Errorf("set up the reader of metrics: %w", err)
		}
	}
	return b.Token(ctx, account.Namespace, account.Name)
}

// prepare creates a contender's namespace and user, builds its program, and installs the CRD that it needs.
func (b *bench) prepare(ctx context.Context, c contender) error {
	if err := b.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.user}}); err != nil {
		return err
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := b.Client.Get(ctx, client.ObjectKeyFromObject(b.crd), crd); err != nil {
		return err
	}
	crd.Spec.Versions = b.crd.DeepCopy().Spec.Versions
	if c.scaffolded {
		anything := apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
		crd.Spec.Versions[0].Schema.OpenAPIV3Schema = &apiextensionsv1.JSONSchemaProps{
			Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": anything, "status": anything},
		}
		crd.Spec.Versions[0].Subresources.Scale = nil
	}
	if err := b.Client.Update(ctx, crd); err != nil {
		return fmt.Errorf("change the CRD: %w", err)
	}
	if c.program == "" {
		return nil
	}
	login, err := b.AddUser(c.user)
	if err != nil {
		return err
	}
	if b.kubeconfigs[c.user], err = b.Kubeconfig(c.user, login); err != nil {
		return err
	}
	return b.build(c)
}
