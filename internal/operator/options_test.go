package operator

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"demo.welcome.domain/welcome-operator/internal/release"
)

func getenv(values map[string]string) func(string) string {
	return func(name string) string { return values[name] }
}

func TestDefaults(t *testing.T) {
	got, err := ParseOptions(nil, getenv(nil))
	if err != nil {
		t.Fatal(err)
	}
	got.Zap = Options{}.Zap
	want := Options{
		WatchesFile:             "watches.yaml",
		MetricsBindAddress:      ":8443",
		HealthProbeBindAddress:  ":8081",
		LeaderElectionID:        LeaderElectionID,
		LeaseDuration:           5 * time.Second,
		MaxConcurrentReconciles: 4,
		ReconcilePeriod:         10 * time.Hour,
		RolloutLimits:           release.Limits{MaxConcurrent: 10, MaxFailures: 5},
		WatchNamespaces:         []string{},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestParseOptions(t *testing.T) {
	got, err := ParseOptions([]string{
		"--watches-file=other.yaml", "--metrics-bind-address=0", "--health-probe-bind-address=127.0.0.1:9090", "--leader-elect",
		"--leader-election-namespace=here", "--max-concurrent-reconciles=7", "--reconcile-period=1m", "--zap-log-level=debug",
	}, getenv(map[string]string{watchNamespaceEnv: " a,b, c,"}))
	if err != nil {
		t.Fatal(err)
	}
	if got.WatchesFile != "other.yaml" || got.MetricsBindAddress != "0" || got.HealthProbeBindAddress != "127.0.0.1:9090" || !got.LeaderElect ||
		got.LeaderElectionNamespace != "here" || got.MaxConcurrentReconciles != 7 || got.ReconcilePeriod != time.Minute || got.Zap.Level == nil {
		t.Errorf("got %+v", got)
	}
	if want := []string{"a", "b", "c"}; !reflect.DeepEqual(got.WatchNamespaces, want) {
		t.Errorf("namespaces are %q, not %q", got.WatchNamespaces, want)
	}
}

// The arguments of the Deployments that operator-sdk makes for stock Helm operators, and those that it made.
func TestArgumentsOfStockOperators(t *testing.T) {
	for _, args := range [][]string{
		{"--metrics-require-rbac", "--metrics-secure", "--metrics-bind-address=:8443", "--leader-elect", "--leader-election-id=memcached-operator", "--health-probe-bind-address=:8081"},
		{"--metrics-addr=127.0.0.1:8080", "--enable-leader-election", "--leader-election-id=memcached-operator", "--watches-file=./watches.yaml"},
		{"--suppress-override-values", "--enable-http2=true", "--reconcile-period=1m0s", "--max-concurrent-reconciles=1", "--zap-devel", "--leader-elect=true", "--leader-election-id=memcached-operator"},
	} {
		got, err := ParseOptions(args, getenv(nil))
		if err != nil || !got.LeaderElect || got.LeaderElectionID != "memcached-operator" {
			t.Errorf("%q: %+v, %v", args, got, err)
		}
	}
	if got, err := ParseOptions([]string{"--metrics-addr=127.0.0.1:8080"}, getenv(nil)); err != nil || got.MetricsBindAddress != "127.0.0.1:8080" {
		t.Errorf("%+v, %v", got, err)
	}
}

// An error names the flag or the variable, and what it was given.
func TestParseOptionsErrors(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		env  map[string]string
		want []string
	}{
		"unknown flag":          {args: []string{"--no-such-flag"}, want: []string{"--no-such-flag"}},
		"argument":              {args: []string{"run"}, want: []string{`"run"`, "--help"}},
		"no watches file":       {args: []string{"--watches-file="}, want: []string{"--watches-file"}},
		"metrics without port":  {args: []string{"--metrics-bind-address=localhost"}, want: []string{"--metrics-bind-address", `"localhost"`}},
		"metrics of nobody":     {args: []string{"--metrics-per-resource", "--metrics-bind-address=0"}, want: []string{"--metrics-per-resource", "--metrics-bind-address"}},
		"probes without port":   {args: []string{"--health-probe-bind-address=0"}, want: []string{"--health-probe-bind-address", `"0"`}},
		"profiles without port": {args: []string{"--pprof-bind-address=localhost"}, want: []string{"--pprof-bind-address", `"localhost"`}},
		"port that is none":     {args: []string{"--health-probe-bind-address=:99999"}, want: []string{"--health-probe-bind-address", ":99999"}},
		"no workers":            {args: []string{"--max-concurrent-reconciles=0"}, want: []string{"--max-concurrent-reconciles", "0"}},
		"workers are no number": {args: []string{"--max-concurrent-reconciles=many"}, want: []string{"--max-concurrent-reconciles", `"many"`}},
		"negative period":       {args: []string{"--reconcile-period=-1s"}, want: []string{"--reconcile-period", "-1s"}},
		"period without unit":   {args: []string{"--reconcile-period=5"}, want: []string{"--reconcile-period", `"5"`}},
		"no rollout":            {args: []string{"--rollout-max-concurrent=0"}, want: []string{"--rollout-max-concurrent"}},
		"no failures":           {args: []string{"--rollout-max-failures=0"}, want: []string{"--rollout-max-failures"}},
		"lease":                 {args: []string{"--leader-election-id=My_Operator"}, want: []string{"--leader-election-id", `"My_Operator"`}},
		"shard":                 {args: []string{"--shard=a/b"}, want: []string{"--shard", `"a/b"`}},
		"shard without lease":   {args: []string{"--shard=a"}, want: []string{"--shard", "--leader-elect"}},
		"half a second":         {args: []string{"--leader-election-lease-duration=4500ms"}, want: []string{"--leader-election-lease-duration", "whole seconds", "4.5s"}},
		"long lease":            {args: []string{"--leader-election-lease-duration=16s"}, want: []string{"--leader-election-lease-duration", "15s"}},
		"no lease":              {args: []string{"--leader-election-id="}, want: []string{"--leader-election-id"}},
		"metrics for everybody": {args: []string{"--metrics-require-rbac=false"}, want: []string{"--metrics-require-rbac", "leave it out", "--metrics-bind-address=0"}},
		"metrics without TLS":   {args: []string{"--metrics-secure=no"}, want: []string{"--metrics-secure", "leave it out", "--metrics-bind-address=0"}},
		"log level":             {args: []string{"--zap-log-level=loud"}, want: []string{"--zap-log-level", "loud"}},
		"namespace":             {env: map[string]string{watchNamespaceEnv: "a,Not_One"}, want: []string{watchNamespaceEnv, `"Not_One"`}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseOptions(c.args, getenv(c.env))
			if err == nil {
				t.Fatal("no error")
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q is missing in: %v", part, err)
				}
			}
		})
	}
}

// Every flag has a help text, but those that change nothing.
func TestHelp(t *testing.T) {
	var help strings.Builder
	var o Options
	flags := o.bind(&help)
	if err := flags.Parse([]string{"--help"}); !errors.Is(err, pflag.ErrHelp) {
		t.Fatalf("--help returns %v", err)
	}
	flags.VisitAll(func(flag *pflag.Flag) {
		if flag.Hidden {
			return
		}
		if !strings.Contains(help.String(), "--"+flag.Name+" ") || flag.Usage == "" {
			t.Errorf("--%s is not explained in\n%s", flag.Name, help.String())
		}
	})
	if !strings.Contains(help.String(), watchNamespaceEnv) {
		t.Errorf("%s is not explained in\n%s", watchNamespaceEnv, help.String())
	}
}
