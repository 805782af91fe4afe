package olm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// TestUninstall runs what docs/olm.md says, while there are custom resources of every kind.
func TestUninstall(t *testing.T) {
	catalog(t, releasedCatalog)
	ns := namespace(t, "olm-uninstall", "restricted")
	group(t, ns)
	subscribe(t, ns)
	awaitVersion(t, ns, "0.1.0")
	for _, example := range shown(t) {
		object := &unstructured.Unstructured{Object: example}
		object.SetNamespace(ns)
		create(t, object)
		await(t, 2*time.Minute, fmt.Sprintf("%s %s is ready", object.GetKind(), object.GetName()), func(ctx context.Context) error {
			if err := api.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
				return err
			}
			return kit.Ready(object)
		})
	}

	followDocs(t, "## Uninstall", ns)
	await(t, time.Minute, "nothing to be left", func(ctx context.Context) error {
		left, err := children(ctx, ns)
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("left: %v", left)
		}
		return err
	})
	var err error
	for _, kind := range []string{"csv", "subscription"} {
		if left := run(t, "kubectl", "-n", ns, "get", kind, "-o", "name"); left != "" {
			err = errors.Join(err, fmt.Errorf("left: %s", left))
		}
	}
	for _, example := range shown(t) {
		kind := (&unstructured.Unstructured{Object: example}).GroupVersionKind().GroupKind()
		if crds := run(t, "kubectl", "get", "crd", "-o", "jsonpath={range .items[*]}{.spec.names.kind}.{.spec.group} {end}"); strings.Contains(crds, kind.String()+" ") {
			err = errors.Join(err, fmt.Errorf("left: the CRD of %s", kind))
		}
	}
	if left := run(t, "kubectl", "get", "clusterrole", "-l", ofBundles, "-o", "name"); left != "" {
		err = errors.Join(err, fmt.Errorf("left: %s", left))
	}
	if err != nil {
		t.Error(err)
	}
}

// followDocs runs the first commands that docs/olm.md has under a heading, for an operator in ns.
func followDocs(t *testing.T, heading, ns string) {
	t.Helper()
	manual, err := os.ReadFile(kit.File("docs", "olm.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(manual), "\n"+heading+"\n")
	_, section, _ = strings.Cut(section, "```sh\n")
	commands, _, found := strings.Cut(section, "```\n")
	if !found {
		t.Fatalf("docs/olm.md has no commands under %q", heading)
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-euxo", "pipefail", "-c", strings.ReplaceAll(commands, "welcome-operator-system", ns))
	cmd.Env = append(os.Environ(), "PATH="+kit.File("bin")+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
}
