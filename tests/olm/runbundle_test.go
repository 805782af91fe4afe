package olm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// TestRunBundle does what somebody does who tries the operator: run bundle, a page, bundle-upgrade, and cleanup
// while there are Welcomes. In between, two bundles that cannot be installed leave the operator as it is.
func TestRunBundle(t *testing.T) {
	pushReleases(t.Context(), t)
	ns := namespace(t, "olm-run-bundle", "baseline") // operator-sdk's registry pod does not satisfy "restricted"
	visitors := namespace(t, "olm-run-bundle-visitors", "restricted")

	start := time.Now()
	run(t, "operator-sdk", "run", "bundle", bundleImage("0.1.0"), "--namespace", ns, "--timeout", "4m",
		"--index-image", opmImage, "--decompression-image", busyboxImage)
	awaitVersion(t, ns, "0.1.0")
	run(t, "kubectl", "apply", "-n", visitors, "-f", kit.File("config/samples/webapp_v1_welcome.yaml"))
	sample := welcome(visitors, "welcome-sample")
	awaitPage(t, sample, "myfriends")
	t.Logf("from `run bundle` to the page: %s", since(start))
	_, podsBefore := identities(t, sample)

	run(t, "operator-sdk", "run", "bundle-upgrade", bundleImage("0.2.0"), "--namespace", ns, "--timeout", "4m")
	awaitVersion(t, ns, "0.2.0")
	_, podsAfter := identities(t, sample)
	if podsBefore[sample.GetName()] != podsAfter[sample.GetName()] {
		t.Errorf("the upgrade changed the pods of the page from %s to %s", podsBefore, podsAfter)
	}
	operators := operatorPods(t, ns)

	for _, bad := range []struct{ name, image string }{
		{"registry that cannot be reached", "127.0.0.1:1/welcome-operator-bundle:v0.3.0"},
		{"bundle for another architecture", bundleImage("0.5.0")},
	} {
		name := bad.name
		out, err := command(t.Context(), t.TempDir(), "operator-sdk", "run", "bundle-upgrade", bad.image,
			"--namespace", ns, "--timeout", "40s").CombinedOutput()
		if err == nil {
			t.Errorf("bundle-upgrade to a %s succeeded:\n%s", name, out)
		}
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		t.Logf("%s: %s", name, lines[len(lines)-1])
		if last := lines[len(lines)-1]; !strings.Contains(last, "level=fatal") {
			t.Errorf("bundle-upgrade to a %s did not end with one clear line:\n%s", name, out)
		}
		if running := operatorPods(t, ns); !slices.Equal(running, operators) {
			t.Errorf("operator pods after a %s: %v, before %v", name, running, operators)
		}
		greet(t, sample, "you")
		awaitPage(t, sample, "you")
		greet(t, sample, "myfriends")
		awaitPage(t, sample, "myfriends")
	}

	others := []string{"first", "second"}
	for _, name := range others {
		w := welcome(visitors, name)
		create(t, w)
		awaitPage(t, w, name)
	}
	run(t, "operator-sdk", "cleanup", packageName, "--namespace", ns, "--timeout", "2m")
	await(t, 2*time.Minute, "everything removed", func(ctx context.Context) error {
		left, err := children(ctx, visitors)
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("still there: %v", left)
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if crdErr := api.Get(ctx, client.ObjectKey{Name: kit.CRD}, crd); !apierrors.IsNotFound(crdErr) {
			err = errors.Join(err, fmt.Errorf("the CRD is still there: %w", crdErr))
		}
		return err
	})
}
