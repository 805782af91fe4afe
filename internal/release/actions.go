package release

import (
	"context"
	"errors"
	"fmt"
	"time"

	helmclient "github.com/operator-framework/helm-operator-plugins/pkg/client"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

// actionClient acts on the release of one custom resource, in one reconcile. The library's
// reconciler asks it in this order: Get, Upgrade as a dry run, and then what that calls for:
// Install, Upgrade or Reconcile. As long as nothing has to be done, all answers come from the
// metadata of the newest record.
type actionClient struct {
	*Kind
	ctx     context.Context // of the reconcile: the library's interface has none
	owner   client.Object
	report  func(message string) // of what a record names and the owner has no right to
	records *records
	helm    helmclient.ActionInterface

	current *record
	chart   *chart.Chart
	values  map[string]any
	inputs  inputs
	wanted  string // digest of inputs
	waitFor string // why an upgrade is put off
	held    error  // the failure of a moment ago, while the same is not to be tried again
}

// library returns the library's own action client, and builds it at the first call.
func (a *actionClient) library() (helmclient.ActionInterface, error) {
	if a.helm == nil {
		helm, err := a.clients.library.ActionClientFor(context.WithValue(a.ctx, clientKey{}, a), a.owner)
		if err != nil {
			return nil, err
		}
		a.helm = helm
	}
	return a.helm, nil
}

// begin waits until an action may run, and returns what it runs with. end lets the next one begin.
func (a *actionClient) begin() (helm helmclient.ActionInterface, end func(), err error) {
	if err := a.slots.take(a.ctx); err != nil {
		return nil, nil, err
	}
	if helm, err = a.library(); err != nil {
		a.slots.give()
	}
	return helm, a.slots.give, err
}

func (a *actionClient) guard() (*guard, error) {
	helm, err := a.library()
	if err != nil {
		return nil, err
	}
	return helm.Config().KubeClient.(*guard), nil
}

// Get returns the newest release without its manifest. A release that was left in the middle
// of an action counts as failed from here on, which makes the reconciler upgrade it: objects
// that exist are adopted, what is missing is made.
func (a *actionClient) Get(string, ...helmclient.GetOption) (*release.Release, error) {
	current, err := a.records.newest(a.ctx)
	if err != nil {
		return nil, err
	}
	a.current = current
	if current == nil {
		return nil, driver.ErrReleaseNotFound
	}
	if orphaned(current.status) && a.owner.GetDeletionTimestamp() == nil {
		if err := a.recover(); err != nil {
			return nil, err
		}
	}
	return a.light(), nil
}

// light is the current release as far as the reconciler needs to know it.
func (a *actionClient) light() *release.Release {
	return &release.Release{
		Name:      a.owner.GetName(),
		Namespace: a.owner.GetNamespace(),
		Version:   a.current.revision,
		Info:      &release.Info{Status: a.current.status},
	}
}

// recover marks an orphaned release as failed.
func (a *actionClient) recover() error {
	helm, err := a.library()
	if err != nil {
		return err
	}
	storage := helm.Config().Releases
	rel, err := storage.Get(a.owner.GetName(), a.current.revision)
	if err != nil {
		return fmt.Errorf("read the interrupted release %s: %w", a.current.name, err)
	}
	if !orphaned(rel.Info.Status) {
		a.current.status = rel.Info.Status // the cache is behind
		return nil
	}
	logf.FromContext(a.ctx).Info("Recovering a release that was interrupted", "record", a.current.name, "status", rel.Info.Status)
	rel.SetStatus(release.StatusFailed, "Interrupted; the operator goes on from here")
	if err := storage.Update(rel); err != nil {
		return fmt.Errorf("recover the interrupted release %s: %w", a.current.name, err)
	}
	a.current.status = release.StatusFailed
	return nil
}

// want computes what the release is to be made from.
func (a *actionClient) want(chrt *chart.Chart, values map[string]any) (chartSource, error) {
	src := a.clients.ledger.source(chrt)
	a.chart, a.values = private(chrt), values
	a.inputs = inputs{Chart: src.digest, Values: values}
	if src.asksCluster {
		a.inputs.Capabilities = a.clients.capabilities.Digest()
	}
	var err error
	a.wanted, err = a.inputs.digest()
	return src, err
}

func (a *actionClient) observe(src chartSource) observation {
	failed := a.clients.ledger.failure(a.owner.GetUID())
	o := observation{wanted: a.wanted, pure: src.pure, failed: failed.inputs, until: failed.until, now: time.Now()}
	if a.current != nil {
		o.status, o.recorded = a.current.status, a.current.inputs
	}
	return o
}

// Install makes a release where there is none.
func (a *actionClient) Install(name, namespace string, chrt *chart.Chart, values map[string]any, opts ...helmclient.InstallOption) (*release.Release, error) {
	src, err := a.want(chrt, values)
	if err != nil {
		return nil, err
	}
	if decide(a.observe(src)) == mustWait {
		return nil, a.clients.ledger.failure(a.owner.GetUID()).err
	}
	helm, end, err := a.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	a.records.stamp = a.stamp
	defer a.changing()()
	start := time.Now()
	rel, err := helm.Install(name, namespace, a.chart, values, opts...)
	a.acted(Install, time.Since(start), err)
	return a.conclude(Installed, rel, err)
}

// Upgrade as a dry run says whether an upgrade is needed: the release that it returns has
// another manifest than the one of Get. Otherwise it upgrades.
func (a *actionClient) Upgrade(name, namespace string, chrt *chart.Chart, values map[string]any, opts ...helmclient.UpgradeOption) (*release.Release, error) {
	probe := action.NewUpgrade(&action.Configuration{})
	for _, opt := range opts {
		if err := opt(probe); err != nil {
			return nil, err
		}
	}
	if !probe.DryRun {
		return a.upgrade(name, namespace, opts)
	}
	src, err := a.want(chrt, values)
	if err != nil {
		return nil, err
	}
	seen := a.observe(src)
	held := decide(seen) == mustWait
	if held {
		// The reconciler goes the way of the last attempt, to the same failure: were it to end
		// here, the conditions would say something else between two attempts.
		a.held = a.clients.ledger.failure(a.owner.GetUID()).err
		seen.failed = ""
	}
	switch verdict := decide(seen); {
	case verdict == isUnchanged, verdict == needsRender && held:
		return a.light(), nil
	case verdict == needsRender:
		return a.compare(opts)
	case !held:
		if a.waitFor = a.admit(); a.waitFor != "" {
			return a.light(), nil
		}
	}
	rel := a.light()
	rel.Manifest = "outdated"
	return rel, nil
}

// admit holds a release back that nobody has edited, while enough others are on their way: a new
// chart or image makes all of them outdated at once.
func (a *actionClient) admit() (waitFor string) {
	edited := a.appliedGeneration() != a.owner.GetGeneration()
	if edited || a.current.status != release.StatusDeployed {
		return ""
	}
	return a.rollout.admit(a.owner)
}

// appliedGeneration is the generation of the custom resource that was applied last. Before the
// first success since the operator started, the status knows it, unless an older version wrote
// that. The answer is 0 then, which counts as edited.
func (a *actionClient) appliedGeneration() int64 {
	if state := a.clients.ledger.state(a.owner.GetUID()); state.Generation != 0 {
		return state.Generation
	}
	owner, ok := a.owner.(*unstructured.Unstructured)
	if !ok {
		return 0
	}
	applied, _, _ := unstructured.NestedInt64(owner.Object, "status", "release", "generation")
	return applied
}

// compare renders the chart and says whether that is what the newest record holds.
func (a *actionClient) compare(opts []helmclient.UpgradeOption) (*release.Release, error) {
	helm, end, err := a.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	rendered, err := a.render(opts...)
	if err != nil {
		return nil, err
	}
	recorded, err := helm.Config().Releases.Get(a.owner.GetName(), a.current.revision)
	if err != nil {
		return nil, fmt.Errorf("read release record %s: %w", a.current.name, err)
	}
	rel := a.light()
	if rendered.Manifest != recorded.Manifest {
		rel.Manifest = "outdated"
	}
	return rel, nil
}

// render returns what an upgrade would apply now.
func (a *actionClient) render(opts ...helmclient.UpgradeOption) (*release.Release, error) {
	helm, err := a.library()
	if err != nil {
		return nil, err
	}
	return helm.Upgrade(a.owner.GetName(), a.owner.GetNamespace(), a.chart, a.values, append(opts, func(u *action.Upgrade) error {
		u.DryRun, u.DryRunOption = true, "server"
		return nil
	})...)
}

func (a *actionClient) upgrade(name, namespace string, opts []helmclient.UpgradeOption) (*release.Release, error) {
	if a.held != nil {
		return nil, a.held
	}
	helm, end, err := a.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	guard, err := a.guard()
	if err != nil {
		return nil, err
	}
	if guard.leftovers, err = a.leftovers(); err != nil {
		return nil, err
	}
	guard.restores = a.current.status != release.StatusDeployed || a.drifted()
	// Not always: an object may only be taken once another one is there, which a rehearsal does not make.
	guard.rehearses = a.current.status == release.StatusFailed && a.current.inputs == a.wanted && a.clients.ledger.failure(a.owner.GetUID()).count%10 > 0
	a.records.stamp = a.stamp
	defer a.changing()()
	start := time.Now()
	rel, err := helm.Upgrade(name, namespace, a.chart, a.values, opts...)
	if err != nil && rel != nil && guard.changed {
		err = errors.Join(err, a.rollBack(helm, rel))
	}
	if a.records.created != "" {
		err = errors.Join(err, a.dropFailedTwin(helm))
	}
	a.acted(Upgrade, time.Since(start), err)
	return a.conclude(Upgraded, rel, err)
}

// dropFailedTwin removes the record of the same inputs' last failure, so that a permanent
// failure has one revision and not thousands. The only revision stays: upgrades need one. It is
// removed after there is a new one: in between, nothing would tell of the objects that the failed
// attempt has made, and should the operator be killed then, they would stay for ever.
func (a *actionClient) dropFailedTwin(helm helmclient.ActionInterface) error {
	if a.current.status != release.StatusFailed || a.current.inputs != a.wanted || a.current.revision == 1 {
		return nil
	}
	if _, err := helm.Config().Releases.Delete(a.owner.GetName(), a.current.revision); err != nil {
		return fmt.Errorf("remove the record of the failed attempt %s: %w", a.current.name, err)
	}
	return nil
}

// conclude remembers how an action ended, and tells what it has done.
func (a *actionClient) conclude(done string, rel *release.Release, err error) (*release.Release, error) {
	if err != nil {
		err = plain(err)
		a.failed(err)
		return nil, err
	}
	children, err := a.children()
	if err != nil {
		return nil, err
	}
	created, err := a.records.cachedRecord(a.ctx, a.records.created)
	if err != nil {
		return nil, fmt.Errorf("read the new release record %s: %w", a.records.created, err)
	}
	a.current = &record{name: created.Name, revision: rel.Version, status: rel.Info.Status, inputs: a.wanted, children: children, created: created.CreationTimestamp.Time}
	a.succeeded(shortDigest([]byte(rel.Manifest)))
	a.tell(done, "Revision %d from chart %s %s: %s", rel.Version, a.chart.Name(), a.chart.Metadata.Version, listChildren(children))
	return a.light(), a.watch(a.ctx, a.owner, children)
}

// plain hides the stack traces of Helm's errors, which would be logged with every one.
func plain(err error) error { return fmt.Errorf("%w", err) }

func (a *actionClient) succeeded(manifestDigest string) {
	a.clients.ledger.succeed(a.owner, a.chart, a.current, manifestDigest)
	a.schedule.periodically(a.owner)
}

// failed has the action tried again after a while, which grows with every failure of the same
// inputs.
func (a *actionClient) failed(err error) {
	a.observed(broken)
	a.schedule.after(a.owner, a.clients.ledger.fail(a.owner, a.wanted, err))
}

// forget drops what is remembered of a custom resource that goes.
func (a *actionClient) forget() {
	a.clients.ledger.forget(a.owner.GetUID())
	a.leaveRollout(a.owner)
}

// Uninstall deletes the release with its objects and its history.
func (a *actionClient) Uninstall(name string, opts ...helmclient.UninstallOption) (*release.UninstallReleaseResponse, error) {
	if a.current == nil {
		a.forget()
		return nil, driver.ErrReleaseNotFound
	}
	helm, end, err := a.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	defer a.changing()()
	start := time.Now()
	if err := a.deleteLeftovers(); err != nil {
		a.failed(err)
		return nil, err
	}
	response, err := helm.Uninstall(name, opts...)
	if err == nil || errors.Is(err, driver.ErrReleaseNotFound) {
		a.acted(Uninstall, time.Since(start), nil)
		a.forget()
		a.tell(Uninstalled, "Deleted: %s", listChildren(a.current.children))
		return response, err
	}
	if cause := helm.Config().KubeClient.(*guard).undeleted; cause != nil {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	a.acted(Uninstall, time.Since(start), err)
	err = plain(err)
	a.failed(err)
	return nil, err
}

// History is the library's.
func (a *actionClient) History(name string, opts ...helmclient.HistoryOption) ([]*release.Release, error) {
	helm, err := a.library()
	if err != nil {
		return nil, err
	}
	return helm.History(name, opts...)
}

// Config is the library's. Nobody asks for it in a reconcile.
func (a *actionClient) Config() *action.Configuration {
	helm, err := a.library()
	if err != nil {
		return nil
	}
	return helm.Config()
}
