package operator

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"go.uber.org/zap/zapcore"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"demo.welcome.domain/welcome-operator/internal/release"
)

// watchNamespaceEnv names the environment variable with the namespaces to watch.
const watchNamespaceEnv = "WATCH_NAMESPACE"

// Options is everything that can be set from outside.
type Options struct {
	// WatchesFile maps kinds to charts. Default: watches.yaml.
	WatchesFile string
	// MetricsBindAddress is where metrics are served over TLS, "0" for nowhere. Default: :8443.
	MetricsBindAddress string
	// MetricsPerResource adds metrics of each single custom resource. Default: false.
	MetricsPerResource bool
	// HealthProbeBindAddress is where /healthz and /readyz are served. Default: :8081.
	HealthProbeBindAddress string
	// PprofBindAddress is where profiles are served, to everybody who reaches it. Default: nowhere.
	PprofBindAddress string
	// LeaderElect makes replicas wait for each other. Default: false.
	LeaderElect bool
	// LeaderElectionNamespace is where the lease lies. Default: the namespace of the pod.
	LeaderElectionNamespace string
	// LeaderElectionID is the name of the lease, by which other operators know this one. Default: that of
	// Welcome's operator.
	LeaderElectionID string
	// Shard is the name of the part of the custom resources that this operator serves: part of the name of its
	// lease, and in its metrics. Default: none.
	Shard string
	// LeaseDuration is for how long the lease of a replica that died keeps the others waiting. Default: 5s,
	// whole seconds from 2s to 15s.
	LeaseDuration time.Duration
	// MaxConcurrentReconciles is per kind, unless its watches entry says otherwise.
	// Default: 4, at least 1.
	MaxConcurrentReconciles int
	// ReconcilePeriod is the time between two reconciles of a custom resource to which
	// nothing happens, unless its watches entry says otherwise. Default: 10h, 0 for never.
	ReconcilePeriod time.Duration
	// RolloutLimits bound how a new chart version is rolled out. Default: 10 at a time, stop
	// at 5 broken ones.
	RolloutLimits release.Limits
	// WatchNamespaces is empty for all namespaces.
	WatchNamespaces []string
	// Zap configures logging.
	Zap zap.Options
}

// ParseOptions reads the command line and the environment. It returns pflag.ErrHelp after
// --help was printed. Other errors name the flag or the variable.
func ParseOptions(args []string, getenv func(string) string) (Options, error) {
	var o Options
	flags := o.bind(os.Stdout)
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if extra := flags.Args(); len(extra) > 0 {
		return o, fmt.Errorf("unexpected argument %q: every option is a flag, see --help", extra[0])
	}
	o.WatchNamespaces = splitList(getenv(watchNamespaceEnv))
	if o.Shard != "" {
		if problems := validation.IsDNS1123Label(o.Shard); len(problems) > 0 {
			return o, fmt.Errorf("--shard is %q, which is no name: %s", o.Shard, strings.Join(problems, ", "))
		}
		if !o.LeaderElect {
			return o, errors.New("--shard needs --leader-elect: by its lease, other shards know that it lives, and two replicas of it that only one works")
		}
		o.LeaderElectionID += "-" + o.Shard
	}
	return o, o.validate()
}

func (o *Options) bind(help io.Writer) *pflag.FlagSet {
	flags := pflag.NewFlagSet("welcome-operator", pflag.ContinueOnError)
	flags.SetOutput(help)
	flags.SortFlags = false
	flags.StringVar(&o.WatchesFile, "watches-file", "watches.yaml", "the `file` that maps kinds to charts")
	flags.StringVar(&o.MetricsBindAddress, "metrics-bind-address", ":8443", "the `host:port` of the metrics, served over TLS to clients that the API server authorizes; 0 serves none")
	flags.BoolVar(&o.MetricsPerResource, "metrics-per-resource", false, "serve the conditions of each single custom resource too: five time series for each")
	flags.StringVar(&o.HealthProbeBindAddress, "health-probe-bind-address", ":8081", "the `host:port` of /healthz and /readyz")
	flags.StringVar(&o.PprofBindAddress, "pprof-bind-address", "", "the `host:port` of /debug/pprof, such as 127.0.0.1:6060, without authentication (default: none)")
	flags.BoolVar(&o.LeaderElect, "leader-elect", false, "work only while holding the lease; needed with more than one replica")
	flags.StringVar(&o.LeaderElectionNamespace, "leader-election-namespace", "", "the `namespace` of the lease (default: the pod's own; needed with --leader-elect outside of a cluster)")
	flags.StringVar(&o.LeaderElectionID, "leader-election-id", LeaderElectionID, "the `name` of the lease: another one for each operator in a namespace")
	flags.StringVar(&o.Shard, "shard", "", "the `name` of this operator among several that serve the same kinds, each its part by the selectors in watches.yaml or by namespaces: its lease has it at the end of its name, and its metrics as a label")
	flags.DurationVar(&o.LeaseDuration, "leader-election-lease-duration", leaseDuration, "for how long the lease of a replica that died keeps the others waiting; one whose API server does not answer for four fifths of that ends, and one that works writes the lease 12.5 times in it")
	flags.IntVar(&o.MaxConcurrentReconciles, "max-concurrent-reconciles", 4, "how many custom resources of a kind are acted on at once, not counting those that wait for a hook; maxConcurrentReconciles of its watches entry wins")
	flags.DurationVar(&o.ReconcilePeriod, "reconcile-period", 10*time.Hour, "how often a custom resource is reconciled even if nothing happened, 0 for never; reconcilePeriod of its watches entry wins")
	flags.IntVar(&o.RolloutLimits.MaxConcurrent, "rollout-max-concurrent", 10, "how many custom resources of a kind are upgraded to a new chart version at once")
	flags.IntVar(&o.RolloutLimits.MaxFailures, "rollout-max-failures", 5, "how many custom resources that were ready and are broken by a new chart version stop its rollout until they recover; those of another namespace count as one")
	alwaysSo(flags)
	flags.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(cmp.Or(ofOld[name], name))
	})
	// An error says what was being done. Where in the code that was, --zap-stacktrace-level=error adds.
	o.Zap.StacktraceLevel = zapcore.PanicLevel
	zapFlags := flag.NewFlagSet("", flag.ContinueOnError)
	o.Zap.BindFlags(zapFlags)
	flags.AddGoFlagSet(zapFlags)
	flags.Usage = func() {
		_, _ = fmt.Fprintf(help, `welcome-operator reconciles the kinds of watches.yaml: each custom resource becomes a
Helm release of its kind's chart.

Flags:
%s
Environment:
      %s        comma-separated namespaces to watch; empty or unset for all
      RELATED_IMAGE_WELCOME  the image to which watches.yaml pins the chart; each variable that it names is required
      KUBECONFIG             the cluster, when not running inside of one
`, flags.FlagUsages(), watchNamespaceEnv)
	}
	return flags
}

// ofOld maps former flag names of stock Helm operators to those that both have now.
var ofOld = map[string]string{"metrics-addr": "metrics-bind-address", "enable-leader-election": "leader-elect"}

// alwaysSo accepts flags that the Deployments of stock Helm operators have, and whose values are always in
// force here.
func alwaysSo(flags *pflag.FlagSet) {
	for name, always := range map[string]string{
		"metrics-secure":           "metrics are served over TLS, or not at all (--metrics-bind-address=0)",
		"metrics-require-rbac":     "metrics are served to clients that the API server authorizes, or not at all (--metrics-bind-address=0)",
		"enable-http2":             "metrics are served over HTTP/2 to clients that ask for it",
		"suppress-override-values": "no event tells of overrideValues",
	} {
		flags.BoolFunc(name, "", func(text string) error {
			if so, err := strconv.ParseBool(text); err != nil || !so {
				return fmt.Errorf("leave it out: %s", always)
			}
			return nil
		})
		_ = flags.MarkHidden(name) // it is there
	}
}

func (o *Options) validate() error {
	if o.WatchesFile == "" {
		return errors.New("--watches-file must name a file")
	}
	if err := validateAddress("--metrics-bind-address", o.MetricsBindAddress); err != nil && o.MetricsBindAddress != "0" {
		return err
	}
	if o.MetricsPerResource && o.MetricsBindAddress == "0" {
		return errors.New("--metrics-per-resource needs metrics, and --metrics-bind-address=0 serves none")
	}
	if err := validateAddress("--health-probe-bind-address", o.HealthProbeBindAddress); err != nil {
		return err
	}
	if o.PprofBindAddress != "" {
		if err := validateAddress("--pprof-bind-address", o.PprofBindAddress); err != nil {
			return err
		}
	}
	if problems := validation.IsDNS1123Subdomain(o.LeaderElectionID); len(problems) > 0 {
		return fmt.Errorf("--leader-election-id is %q, which is no name of a lease: %s", o.LeaderElectionID, strings.Join(problems, ", "))
	}
	// The lease itself has whole seconds. With more than these, other operators would take one that fails over
	// for gone (patience in internal/status/challenge.go).
	if o.LeaseDuration < 2*time.Second || o.LeaseDuration > 15*time.Second || o.LeaseDuration%time.Second != 0 {
		return fmt.Errorf("--leader-election-lease-duration must be whole seconds from 2s to 15s, not %s", o.LeaseDuration)
	}
	if o.MaxConcurrentReconciles < 1 {
		return fmt.Errorf("--max-concurrent-reconciles must be at least 1, not %d", o.MaxConcurrentReconciles)
	}
	if o.RolloutLimits.MaxConcurrent < 1 {
		return fmt.Errorf("--rollout-max-concurrent must be at least 1, not %d", o.RolloutLimits.MaxConcurrent)
	}
	if o.RolloutLimits.MaxFailures < 1 {
		return fmt.Errorf("--rollout-max-failures must be at least 1, not %d", o.RolloutLimits.MaxFailures)
	}
	if o.ReconcilePeriod < 0 {
		return fmt.Errorf("--reconcile-period must not be negative, as %s is: 0 means never", o.ReconcilePeriod)
	}
	for _, namespace := range o.WatchNamespaces {
		if problems := validation.IsDNS1123Label(namespace); len(problems) > 0 {
			return fmt.Errorf("%s lists %q, which is no namespace: %s", watchNamespaceEnv, namespace, strings.Join(problems, ", "))
		}
	}
	return nil
}

func validateAddress(flag, address string) error {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil {
		return fmt.Errorf("%s must be host:port, such as :8443, not %q: %w", flag, address, err)
	}
	return nil
}

func splitList(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}
