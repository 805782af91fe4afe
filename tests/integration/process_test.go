package integration

import (
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// settings of an operator process. The zero value is the operator as it is deployed.
type settings struct {
	namespaces []string // of WATCH_NAMESPACE
	watches    string   // text of watches.yaml
	account    string   // ServiceAccount in the operator's namespace
	args       []string
}

// process is a running operator.
type process struct {
	cmd        *exec.Cmd
	logFile    string
	metrics    string // address
	probes     string // address
	credential string // by which the audit log knows it
	ended      chan struct{}
	err        error // how it ended
}

var processes int

// launch starts the operator and does not wait for anything.
func launch(s settings) (*process, error) {
	processes++
	name := filepath.Join(env.dir, fmt.Sprintf("operator-%d", processes))
	if s.account == "" {
		s.account = operatorAccount
	}
	login, err := token(operatorNamespace, s.account)
	if err != nil {
		return nil, err
	}
	if err := writeKubeconfig(name+".kubeconfig", login); err != nil {
		return nil, err
	}
	p := &process{logFile: name + ".log", metrics: freeAddress(), probes: freeAddress(), ended: make(chan struct{})}
	if p.credential, err = credentialOf(login); err != nil {
		return nil, err
	}
	args := []string{"--metrics-bind-address=" + p.metrics, "--health-probe-bind-address=" + p.probes}
	if s.watches != "" {
		if err := os.WriteFile(name+"-watches.yaml", []byte(s.watches), 0o600); err != nil {
			return nil, err
		}
		args = append(args, "--watches-file="+name+"-watches.yaml")
	}
	log, err := os.Create(p.logFile)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	p.cmd = exec.Command(env.binary, append(args, s.args...)...)
	p.cmd.Dir = env.root // charts are relative to it
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.Env = []string{
		"KUBECONFIG=" + name + ".kubeconfig", "HOME=" + env.dir, "RELATED_IMAGE_WELCOME=" + image,
		"WATCH_NAMESPACE=" + strings.Join(s.namespaces, ","),
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// stop ends the operator as a kubelet does, and waits until it is gone.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(30 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

// ready asks /readyz.
func (p *process) ready() error {
	select {
	case <-p.ended:
		return errors.Join(errors.New("the operator ended"), p.err)
	default:
	}
	response, err := http.Get("http://" + p.probes + "/readyz")
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if body, _ := io.ReadAll(response.Body); response.StatusCode != http.StatusOK {
		return fmt.Errorf("/readyz answers %d: %s", response.StatusCode, body)
	}
	return nil
}

// log is everything that the operator has written so far.
func (p *process) log() string {
	text, err := os.ReadFile(p.logFile)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// metric returns the sum of a metric over the label sets that match labels, a regular expression.
func (p *process) metric(t *testing.T, name, labels string) float64 {
	t.Helper()
	status, body := p.scrape(t, metricsReader(t))
	if status != http.StatusOK {
		t.Fatalf("/metrics answers %d: %s", status, body)
	}
	var sum float64
	for _, match := range regexp.MustCompile(`(?m)^`+name+`\{([^}]*)\} (\S+)$`).FindAllStringSubmatch(body, -1) {
		if value, err := strconv.ParseFloat(match[2], 64); err == nil && regexp.MustCompile(labels).MatchString(match[1]) {
			sum += value
		}
	}
	return sum
}

// reconciles is how many have ended so far.
func (p *process) reconciles(t *testing.T) int {
	t.Helper()
	return int(p.metric(t, "controller_runtime_reconcile_total", `controller="welcome-controller"`))
}

// scrape reads /metrics with a token, or without one.
func (p *process) scrape(t *testing.T, token string) (status int, body string) {
	t.Helper()
	request, err := http.NewRequest(http.MethodGet, "https://"+p.metrics+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	// The certificate is self-signed unless one is mounted.
	insecure := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	response, err := insecure.Do(request)
	for start := time.Now(); errors.Is(err, syscall.ECONNREFUSED) && time.Since(start) < patience; response, err = insecure.Do(request) {
		time.Sleep(50 * time.Millisecond) // the caches may be filled before the metrics are served
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// freeAddress is one on which nobody listens.
func freeAddress() string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

// credentialOf reads the ID of a token, which the audit log has for every request.
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
