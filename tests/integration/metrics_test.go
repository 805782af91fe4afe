package integration

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

var metricsReaderToken = sync.OnceValues(func() (string, error) {
	if err := env.client.Create(ctx, &corev1.ServiceAccount{ObjectMeta: objectMeta("default", "prometheus")}); err != nil {
		return "", err
	}
	if err := env.client.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: objectMeta("", "prometheus"),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "metrics-reader"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: "prometheus"}},
	}); err != nil {
		return "", err
	}
	return token("default", "prometheus")
})

// metricsReader is the token of one who may read metrics.
func metricsReader(t *testing.T) string {
	t.Helper()
	login, err := metricsReaderToken()
	if err != nil {
		t.Fatal(err)
	}
	return login
}

func TestMetrics(t *testing.T) {
	s := newScene(t)
	operator := s.operator()
	s.must(env.client.Create(ctx, &corev1.ServiceAccount{ObjectMeta: objectMeta(s.namespace, "nobody")}))
	powerless, err := token(s.namespace, "nobody")
	s.must(err)

	for name, c := range map[string]struct {
		token string
		want  int
	}{
		"without a token":     {"", http.StatusUnauthorized},
		"without the right":   {powerless, http.StatusForbidden},
		"with metrics-reader": {metricsReader(t), http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			status, body := operator.scrape(t, c.token)
			if status != c.want {
				t.Errorf("got %d, want %d: %s", status, c.want, body)
			}
			if has := strings.Contains(body, "controller_runtime_reconcile_total"); has != (c.want == http.StatusOK) {
				t.Errorf("there are metrics: %v", has)
			}
		})
	}
}
