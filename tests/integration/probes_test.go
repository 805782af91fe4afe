package integration

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// Without rights the caches never fill. When the rights come, the operator becomes ready by itself.
func TestReadyWhenCachesAreFilled(t *testing.T) {
	s := newScene(t)
	s.must(env.Client.Create(ctx, &corev1.ServiceAccount{ObjectMeta: objectMeta(operatorNamespace, "late")}))
	operator := s.launch(settings{account: "late"})
	told := s.launch(settings{account: "late", noPolicy: true}) // that for the first is its, too
	s.await("the operator says why it is not ready", func() error {
		err := operator.ready()
		if err == nil {
			t.Fatal("ready without the right to read anything")
		}
		if !strings.Contains(err.Error(), "answers 500") {
			return err
		}
		return nil
	})
	response, err := http.Get("http://" + operator.Probes + "/healthz")
	s.must(err)
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		t.Errorf("/healthz answers %d: a kubelet would restart what only lacks rights", response.StatusCode)
	}
	s.await("the other one is not ready either", func() error {
		if err := told.ready(); err == nil || !strings.Contains(err.Error(), "answers 500") {
			return errors.Join(errors.New("it has not begun"), err)
		}
		return nil
	})
	start := time.Now()
	told.Stop()
	if took := time.Since(start); took >= 30*time.Second { // after which it is killed
		t.Errorf("it was told to end before its caches were filled, and had to be killed")
	}
	s.await("the log says what is missing", func() error { return says(operator.Text(), []string{"forbidden"}) })
	for _, role := range []string{"manager-role", "metrics-auth-role"} {
		s.must(env.Client.Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: objectMeta("", "late-"+role),
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: operatorNamespace, Name: "late"}},
		}))
	}
	s.await("the operator is ready", operator.ready)
}

// Profiles are there for who asks for them, as docs/debugging.md says.
func TestProfiles(t *testing.T) {
	s := newScene(t)
	address, err := kit.FreeAddress()
	s.must(err)
	s.ownOperator(settings{namespaces: []string{s.namespace}, args: []string{"--pprof-bind-address=" + address}})
	response, err := http.Get("http://" + address + "/debug/pprof/heap")
	s.must(err)
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		t.Errorf("the answer is %s", response.Status)
	}
}
