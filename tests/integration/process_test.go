package integration

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"demo.welcome.domain/welcome-operator/internal/operator"
	"demo.welcome.domain/welcome-operator/tests/controlplane"
	"demo.welcome.domain/welcome-operator/tests/kit"
	"demo.welcome.domain/welcome-operator/tests/waiting"
)

// settings are the settings of an operator process. The zero value is the operator as it is deployed.
type settings struct {
	namespaces []string // of WATCH_NAMESPACE
	watches    string   // the text of watches.yaml
	account    string   // a ServiceAccount in the operator's namespace
	noPolicy   bool     // bounds the account, or one that the test has made
	args       []string
	program    string                   // runs the operator, if that is not run directly
	env        []string                 // additional environment variables
	through    func(login *rest.Config) // changes the connection to the API server
}

// process is a running operator.
type process struct {
	*controlplane.Operator
	credential string // its ID in the audit log
	account    string
	entries    []operator.Entry // for which the account is bounded
}

var processes atomic.Int32

// launch starts an operator, and waits for nothing.
func launch(s settings) (*process, error) {
	name := fmt.Sprintf("operator-%d", processes.Add(1))
	login, err := env.Token(ctx, operatorNamespace, cmp.Or(s.account, operatorAccount))
	if err != nil {
		return nil, err
	}
	as := env.As(login)
	if s.through != nil {
		s.through(as)
	}
	kubeconfig, err := env.Kubeconfig(name, as)
	if err != nil {
		return nil, err
	}
	if s.watches != "" {
		file := filepath.Join(env.Dir, name+"-watches.yaml")
		if err := os.WriteFile(file, []byte(s.watches), 0o600); err != nil {
			return nil, err
		}
		s.args = append([]string{"--watches-file=" + file}, s.args...)
	}
	p := &process{}
	if p.credential, err = credentialOf(login); err != nil {
		return nil, err
	}
	p.Operator, err = env.RunOperator(name+".log", append([]string{
		"KUBECONFIG=" + kubeconfig, "RELATED_IMAGE_WELCOME=" + image, "WATCH_NAMESPACE=" + strings.Join(s.namespaces, ","),
		"GOGC=200", "GOMEMLIMIT=690MiB", // as in config/manager
	}, s.env...), cmp.Or(s.program, env.binary), s.args...)
	return p, err
}

// ready asks /readyz.
func (p *process) ready() error { return p.Ready(ctx) }

// metric returns the sum of a metric over the label sets that match labels, a regular expression.
func (p *process) metric(t *testing.T, name, labels string) float64 {
	t.Helper()
	status, body := p.scrape(t, metricsReader(t))
	if status != http.StatusOK {
		t.Fatalf("/metrics answers %d: %s", status, body)
	}
	return kit.Metric(body, name, labels)
}

// reconciles is how many reconciles of all kinds have ended so far.
func (p *process) reconciles(t *testing.T) int {
	t.Helper()
	return int(p.metric(t, "controller_runtime_reconcile_total", ""))
}

// scrape reads /metrics with a token, or without one.
func (p *process) scrape(t *testing.T, token string) (status int, body string) {
	t.Helper()
	var failed error
	// The caches may be filled before the metrics are served. Besides, the API server, which is asked who may
	// read them, may be late.
	if err := waiting.For(ctx, t.Logf, "the metrics are served", patience, 50*time.Millisecond, func(ctx context.Context) error {
		status, body, failed = kit.Scrape(ctx, "https://"+p.Metrics+"/metrics", token)
		switch {
		case errors.Is(failed, syscall.ECONNREFUSED):
			return failed
		case status >= http.StatusInternalServerError:
			return fmt.Errorf("they answer %d: %s", status, body)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if failed != nil {
		t.Fatal(failed)
	}
	return status, body
}

// credentialOf reads the ID of a token, which the audit log has with every request.
func credentialOf(token string) (string, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return "", errors.New("the token is no JWT")
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return "", err
	}
	var claims struct {
		ID string `json:"jti"`
	}
	err = json.NewDecoder(bytes.NewReader(payload)).Decode(&claims)
	return "JTI=" + claims.ID, err
}
