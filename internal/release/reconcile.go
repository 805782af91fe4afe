package release

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	helmclient "github.com/operator-framework/helm-operator-plugins/pkg/client"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/releaseutil"
	"helm.sh/helm/v3/pkg/storage/driver"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"demo.welcome.domain/welcome-operator/internal/guard"
	"demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/internal/record"
)

// actionClient is what one reconcile of one custom resource knows of its release, and acts on it. The
// library's reconciler asks it in this order: Get, Upgrade as a dry run, and then what that calls for:
// Install, Upgrade or Reconcile. As long as nothing has to be done, all answers come from the
// metadata of the newest record.
type actionClient struct {
	*Kind
	ctx    context.Context // of the reconcile: the library's interface has none
	owner  client.Object
	report func(message string) // of what a record names and the owner has no right to
	store  *record.Store

	// What somebody has asked for by an annotation, empty unless it is due, and what of it was done, in words:
	asked string
	done  []string

	// Get finds out:
	current *record.Record // nil if there is none
	proven  bool           // whether the record is known to be the operator's
	stored  string         // proof of the record as it is stored
	key     object.Key     // of digests, empty if the kind has no Secrets
	unread  error          // why it has failed

	// Install, or Upgrade as a dry run, finds out:
	chart   *chart.Chart // the kind's, or a copy where Helm would take subcharts out of that
	source  chartSource
	asks    questions // of the chart with these values
	values  map[string]any
	whole   map[string]any // the values with the chart's defaults
	text    string         // all inputs, as JSON
	wanted  string         // digest of what the release is to be made from
	plain   string         // the same without the key, by which a record has it that was a ConfigMap
	known   bool           // whether what the record says of all this is known to be so
	around  surroundings   // of the cluster, as far as they are known
	brake   string         // why no further revision is made for now
	digest  string         // proof of the record's manifest, if the chart was rendered and is the same
	waitFor string         // why an upgrade is put off
	held    error          // the failure of a moment ago, while the same is not to be tried again
	// why what is wanted cannot be compared with what was applied, which is repaired all the same
	unrendered error

	rolledBack bool // whether objects that the API server would all take were put back after an upgrade that failed again

	// Reconcile finds out:
	resting []object.Child // objects that others change again each time that they are put back, until it is time to try again

	// An action that succeeds leaves:
	applied []object.Child // the objects as they were applied, nil if nothing was
}

// Get returns the newest release without its manifest. A release that was left in the middle
// of an action counts as failed from here on, unless it is known to have come to its end, which makes the reconciler upgrade it: objects
// that exist are adopted, what is missing is made.
func (a *actionClient) Get(string, ...helmclient.GetOption) (*release.Release, error) {
	current, err := a.newest()
	if err != nil {
		a.unread = err
		return nil, err
	}
	a.current, a.unread = current, nil
	if current == nil || a.recordedElsewhere() {
		a.current = nil
		return nil, driver.ErrReleaseNotFound
	}
	a.stored = current.Proof()
	current.Key = a.key // whatever somebody has written there
	a.prove()
	if a.owner.GetDeletionTimestamp() != nil {
		return a.light(), nil
	}
	if (orphaned(current.Status) || a.isUnfinished()) && a.isOthers() {
		return nil, fmt.Errorf("operator %q has begun a release of this custom resource a moment ago", current.Operator)
	}
	if orphaned(current.Status) {
		if err := a.recover(); err != nil {
			return nil, err
		}
	}
	if a.current == nil {
		return nil, driver.ErrReleaseNotFound
	}
	return a.light(), nil
}

// isOthers is whether another operator has made the record since the custom resource was looked at: it had no operator then. One that was taken over says so.
func (a *actionClient) isOthers() bool {
	return a.current.Operator != "" && a.current.Operator != a.clients.operator && claimedBy(a.owner) != a.clients.operator
}

// newest is the newest record. One that is too far ahead to be the operator's is deleted: there is none after the highest number, and
// so no upgrade.
func (a *actionClient) newest() (*record.Record, error) {
	for range record.MaxHistory {
		current, err := a.store.Newest(a.ctx)
		if current == nil || err != nil || current.Revision <= a.appliedRevision()+maxAhead {
			return current, err
		}
		a.report(fmt.Sprintf("release record %s is nobody's: deleted", current.Name))
		if err := a.store.Delete(a.ctx, current.Name, metav1.DeleteOptions{}); err != nil {
			return nil, fmt.Errorf("delete release record %s: %w", current.Name, err)
		}
	}
	a.schedule.after(a.owner, time.Second)
	return nil, fmt.Errorf("somebody has written release records that are nobody's: %d are deleted, and the next reconcile goes on", record.MaxHistory)
}

// light is the current release as far as the reconciler needs to know it.
func (a *actionClient) light() *release.Release {
	return &release.Release{
		Name:      a.owner.GetName(),
		Namespace: a.owner.GetNamespace(),
		Version:   a.current.Revision,
		Info:      &release.Info{Status: a.current.Status},
	}
}

// recorded is the newest record, whole.
func (a *actionClient) recorded() (*release.Release, error) {
	rel, err := a.store.Releases().Get(a.owner.GetName(), a.current.Revision)
	if err != nil {
		return nil, fmt.Errorf("read release record %s: %w", a.current.Name, err)
	}
	return rel, nil
}

// recover marks an orphaned release as failed, or as deployed where it is known to be: of an installation, Helm passes on no failure to write that. Where one has
// made no object yet, there is no release.
func (a *actionClient) recover() error {
	rel, err := a.recorded()
	if err != nil {
		return err
	}
	if !orphaned(rel.Info.Status) {
		a.current.Status = rel.Info.Status // the cache is behind
		return nil
	}
	logf.FromContext(a.ctx).Info("Recovering a release that was interrupted", "record", a.current.Name, "status", rel.Info.Status)
	if nothing, err := a.hasMadeNothing(rel); err != nil {
		return err
	} else if nothing { // it is to be an installation again, or its hooks would never run
		if err := a.store.Delete(a.ctx, a.current.Name, metav1.DeleteOptions{}); err != nil {
			return fmt.Errorf("delete the record of the interrupted installation %s: %w", a.current.Name, err)
		}
		a.current = nil
		return nil
	}
	rel.SetStatus(release.StatusFailed, "Interrupted; the operator goes on from here")
	if a.appliedRevision() == rel.Version && a.isApplied(rel.Manifest) && a.isOfTheApplied() {
		rel.SetStatus(release.StatusDeployed, "Its record was not brought to its end; the release was")
	}
	if err := a.store.Releases().Update(rel); err != nil {
		return fmt.Errorf("recover the interrupted release %s: %w", a.current.Name, err)
	}
	a.current.Status = rel.Info.Status
	return nil
}

// hasMadeNothing is whether a release is of an installation that was interrupted before its first object. Of what is kept nothing tells yet whose it is.
func (a *actionClient) hasMadeNothing(rel *release.Release) (bool, error) {
	if rel.Info.Status != release.StatusPendingInstall || a.appliedRevision() > 0 || strings.Contains(rel.Manifest, kube.ResourcePolicyAnno) {
		return false, nil
	}
	if rel.Manifest == "" {
		return len(rel.Hooks) > 0, nil // else the record cannot be read
	}
	op, err := a.begin(nil, false)
	if err != nil {
		return false, err
	}
	defer op.end()
	made, err := op.guard.Present(rel.Manifest)
	if apierrors.IsForbidden(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for what the interrupted installation %s has made: %w", a.current.Name, err)
	}
	return len(made) == 0, nil
}

// want computes what the release is to be made from. It is made from the spec, into which Translate has put the overrides: what it passes on has
// the chart's defaults in it already, and where null has taken one out, Helm would put it in again.
func (a *actionClient) want(chrt *chart.Chart, coalesced map[string]any) error {
	a.heed()
	spec, err := a.spec()
	if err != nil {
		return err
	}
	a.chart, a.source, a.values, a.whole = private(chrt), a.clients.ledger.source(chrt), spec, coalesced
	allow := a.Allow
	allow.Options, allow.Adopt = nil, false // they say how an action goes, and not what it makes
	text, err := inputs{Chart: a.source.digest, Allow: allow, Values: coalesced}.text()
	if err != nil {
		return err
	}
	a.text = text
	a.wanted, a.plain, a.asks = a.key.Digest([]byte(text)), object.Plain.Digest([]byte(text)), a.source.questions(text)
	if a.asks.capabilities {
		a.around.Capabilities = a.clients.capabilities.Digest()
	}
	switch decide(a.observe()) {
	case mustWait:
		a.held = a.hold(a.clients.ledger.failure(a.owner.GetUID()))
		return nil
	case isUnchanged: // and was rendered once
		return nil
	}
	err = a.checkTemplates(a.source, a.values, text)
	if err == nil && a.source.incomplete {
		err = checkSubcharts(chrt, coalesced)
	}
	if err != nil {
		a.failed(err) // so that it is waited, and nothing done
		a.held = err
	}
	return nil
}

// spec of the custom resource, with the overrides in it.
func (a *actionClient) spec() (map[string]any, error) {
	spec, _, err := unstructured.NestedMap(a.owner.(*unstructured.Unstructured).Object, "spec")
	if err != nil {
		return nil, fmt.Errorf("read the spec: %w", err)
	}
	return spec, nil
}

// hold is the failure of a moment ago. It is to be tried again when its time has come: whatever has asked for this reconcile took the place of that in the controller's
// queue, and its own next one may be a quarter of an hour away.
func (a *actionClient) hold(failed failure) error {
	a.schedule.after(a.owner, time.Until(failed.until))
	return failed.err
}

func (a *actionClient) observe() observation {
	failed := a.clients.ledger.failure(a.owner.GetUID())
	o := observation{wanted: a.wanted, failed: failed.inputs, until: failed.until, now: time.Now()}
	if a.asked != "" {
		o.failed = "" // it is tried again now
	}
	if a.current == nil {
		return o
	}
	a.known = a.proven || a.trustInputs()
	if a.current.Inputs == a.plain {
		a.current.Inputs = a.wanted
	}
	o.proven = a.known
	o.status, o.recorded = a.current.Status, a.current.Inputs
	o.outdated = a.brake == "" && a.clients.ledger.read(a.owner.GetUID()).outdated == a.outdated()
	o.asks = a.current.Capabilities != a.around.Capabilities && !a.unsettled() || a.asks.objects && a.looksAgain(o.now)
	return o
}

// unsettled is whether the chart asks for what the cluster can do while an API does not answer of which nothing is known.
func (a *actionClient) unsettled() bool {
	return a.asks.capabilities && a.asked == "" && !a.clients.capabilities.Settled()
}

// outdated names what renders something else than what was applied, for the ledger.
func (a *actionClient) outdated() string { return a.wanted + " " + a.around.Capabilities }

// looksAgain is whether to look up again what the chart looks up: nobody tells when that changes.
func (a *actionClient) looksAgain(now time.Time) bool {
	looked := a.clients.ledger.churn(a.owner.GetUID()).looked
	return a.brake != "" || a.asked != "" || looked.IsZero() || a.period() > 0 && now.Sub(looked) >= a.period()
}

// prepare does, one after the other, what comes before an action begins. The first that fails has failed the action.
func (a *actionClient) prepare(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			a.failed(err)
			return err
		}
	}
	return nil
}

// Install makes a release where there is none.
func (a *actionClient) Install(name, namespace string, chrt *chart.Chart, values map[string]any, opts ...helmclient.InstallOption) (made *release.Release, err error) {
	defer a.answerFailure(&err)
	if err := a.want(chrt, values); err != nil {
		return nil, err
	}
	if a.held != nil {
		return nil, a.held
	}
	if err := a.prepare(a.checkRecords, a.tryWanted); err != nil {
		return nil, err
	}
	left, err := a.left()
	if err != nil {
		return nil, err
	}
	if err := a.store.RemoveLeft(a.ctx, a.mayInherit); err != nil {
		return nil, err
	}
	op, err := a.begin(left, false)
	if err != nil {
		return nil, err
	}
	defer op.end()
	defer a.Changing(a.retries())()
	// What is in the way is found by making the objects, unless it is likely, or hooks would have run by then.
	op.guard.Unasked = !a.retries() && a.appliedDigest() == "" && len(left) == 0 && !a.source.hooks(a.whole)
	// Where objects may be taken over, a record that says too early that the installation has succeeded would have them deleted, should it be interrupted.
	op.once = op.guard.Unasked && a.asks == (questions{}) && !a.source.chances(a.whole) && !a.Allow.Adopt
	op.looks = a.source.hooks(a.whole) || a.Allow.Adopt && !op.guard.Unasked // or hooks would run, and run again, for what cannot be made
	if a.lost() && a.source.hooks(a.whole) {
		a.warn(HooksSkipped, "The records of the release are gone, whose hooks have run: it is made anew without them")
	}
	start := time.Now()
	rel, err := op.helm.Install(name, namespace, a.chart, a.values, append(opts, a.asInstall(), a.installing(op))...)
	if err != nil && rel == nil && op.refused == nil && op.rendered != "" {
		op.refused = op.guard.Judge(op.rendered) // if so, in words that say what can be done
	}
	a.Acted(Install, time.Since(start), err)
	return a.conclude(op, Installed, rel, err)
}

func (a *actionClient) installing(op *operation) helmclient.InstallOption {
	return func(install *action.Install) error {
		// Helm refuses what is there without its annotations, before it writes a record. If only the records were
		// lost, what is there is ours, and the guard judges. So it does where what is there may be given to the owner.
		install.TakeOwnership = a.appliedDigest() != "" || a.Allow.Adopt
		install.PostRenderer = op
		install.SkipSchemaValidation = a.source.accepts(a.whole)
		return nil
	}
}

// Upgrade as a dry run says whether an upgrade is needed: the release that it returns has
// another manifest than the one of Get. Otherwise it upgrades.
func (a *actionClient) Upgrade(name, namespace string, chrt *chart.Chart, values map[string]any, opts ...helmclient.UpgradeOption) (made *release.Release, err error) {
	defer a.answerFailure(&err)
	probe := action.NewUpgrade(&action.Configuration{})
	for _, opt := range opts {
		if err := opt(probe); err != nil {
			return nil, err
		}
	}
	if !probe.DryRun {
		return a.upgrade(name, namespace, opts)
	}
	if err := a.want(chrt, values); err != nil {
		return nil, err
	}
	a.brake = a.braked()
	seen, held := a.observe(), a.held != nil
	// Where it is held, the reconciler goes the way of the last attempt, to the same failure: were it to end here, the conditions would say something else between
	// two attempts.
	seen.failed = ""
	verdict := decide(seen)
	if verdict == needsRender && !held {
		if err := a.watch(a.ctx, a.owner, a.provenChildren()); err != nil { // or nothing is known of them after a start
			return nil, err
		}
		if a.isLookedUp() {
			if err := a.prepare(a.correct); err != nil { // by the rules of a drift: this may be every reconcile
				return nil, err
			}
			if len(a.resting) > 0 { // what others have made of it would be looked up
				return a.light(), nil
			}
		}
		same, err := a.compare(opts)
		switch {
		case err == nil:
		case a.isOfWanted() && !errors.As(err, &notAllowed{}) && !errors.As(err, &noPlace{}):
			a.unrendered = err
			return a.light(), nil
		default:
			return nil, err
		}
		verdict = isUnchanged
		if !same {
			verdict, a.brake = needsUpgrade, a.braked()
		}
	}
	if verdict != needsUpgrade {
		return a.light(), nil
	}
	if !held {
		var err error
		switch a.waitFor = a.brake; {
		case a.brake != "":
		case a.unsettled() && a.current.Status == release.StatusDeployed && a.appliedGeneration() == a.owner.GetGeneration():
			a.waitFor = "an API of the cluster does not answer, and the chart asks which there are"
		default:
			a.waitFor, err = a.admit()
		}
		if err != nil || a.waitFor != "" {
			return a.light(), err
		}
	}
	rel := a.light()
	rel.Manifest = "outdated"
	return rel, nil
}

// braked is why there is no further revision for now, empty if there may be one.
func (a *actionClient) braked() string {
	if a.asks == (questions{}) {
		return ""
	}
	return a.clients.ledger.churn(a.owner.GetUID()).holds(time.Now(), a.owner.GetGeneration(), a.source.digest)
}

// admit holds a release back that nobody has edited, while enough others are on their way: a new
// chart or image makes all of them outdated at once.
func (a *actionClient) admit() (waitFor string, err error) {
	refused := errors.As(a.clients.ledger.failure(a.owner.GetUID()).err, &notAllowed{}) // which does not change by waiting
	if edited := a.appliedGeneration() != a.owner.GetGeneration(); edited || refused {
		a.wake(a.rollout.edited(a.owner))
		return "", nil
	}
	if a.current.Status != release.StatusDeployed {
		return "", nil
	}
	if err := a.watch(a.ctx, a.owner, a.provenChildren()); err != nil {
		return "", err
	}
	return a.rollout.admit(a.owner, a.health() == healthy), nil
}

// appliedGeneration is the generation of the custom resource that was applied last. Before the
// first success since the operator started, the status knows it, unless an older version wrote
// that. The answer is 0 then, which counts as edited.
func (a *actionClient) appliedGeneration() int64 {
	return cmp.Or(a.clients.ledger.state(a.owner.GetUID()).Generation, a.numberInStatus("generation"))
}

// compare renders the chart and says whether that is what the newest record holds. If so, the record is to say that it holds for these inputs
// and surroundings, too.
func (a *actionClient) compare(opts []helmclient.UpgradeOption) (same bool, err error) {
	err = a.tryWanted()
	if errors.As(err, &noPlace{}) && a.asked == "" && a.current.Status == release.StatusDeployed && a.isOfWanted() {
		a.schedule.after(a.owner, lastRetry) // what is released runs, and is looked at when there is a place
		return true, nil
	}
	if err != nil {
		a.failed(err)
		return false, err
	}
	op, err := a.begin(nil, false)
	if err != nil {
		return false, err
	}
	defer op.end()
	rendered, err := a.rerender(op, opts...)
	if err != nil {
		return false, err
	}
	a.around.Lookups = op.lookups.digest()
	a.noticed(op)
	if a.isOfWanted() && a.current.Capabilities == a.around.Capabilities && a.current.Lookups == a.around.Lookups {
		return true, nil
	}
	recorded, err := a.recorded()
	if err != nil {
		return false, err
	}
	begun := a.hasBegun(recorded.Manifest) // and, as it is recorded as deployed, its hooks have run
	same = rendered.Manifest == recorded.Manifest || begun && a.asks == (questions{})
	if !same && (begun || a.isApplied(recorded.Manifest)) {
		if a.source.timed { // within a second, the time passes for what the chart wants
			if err := nextSecond(a.ctx); err != nil {
				return false, err
			}
		}
		again, err := a.rerender(op, opts...)
		if err != nil {
			return false, err
		}
		same = sameButChance(recorded.Manifest, rendered.Manifest, again.Manifest)
	}
	if !same {
		a.clients.ledger.setOutdated(a.owner.GetUID(), a.outdated())
		return false, nil
	}
	a.digest = a.key.Proof(recorded.Manifest)
	a.current.Inputs, a.current.Capabilities, a.current.Lookups = a.wanted, a.around.Capabilities, a.around.Lookups
	return true, nil
}

// isOfWanted is whether the record is known to be of what is wanted still.
func (a *actionClient) isOfWanted() bool { return a.known && a.current.Inputs == a.wanted }

// noticed remembers what a rendering has found in the cluster.
func (a *actionClient) noticed(op *operation) {
	if a.asks == (questions{}) {
		return
	}
	now, churn := time.Now(), a.clients.ledger.churn(a.owner.GetUID())
	churn.looked = now
	churn.notice(now, a.around, op.lookups.all())
}

// rerender returns what the release would be now, as the revision that it is: what follows from the number, or from having been installed, is no reason for another one.
func (a *actionClient) rerender(op *operation, opts ...helmclient.UpgradeOption) (*release.Release, error) {
	op.asIs = true
	defer func() { op.asIs = false }()
	return a.render(op, opts...)
}

// render returns what an upgrade would apply now.
func (a *actionClient) render(op *operation, opts ...helmclient.UpgradeOption) (*release.Release, error) {
	op.guard.Unasked = true
	var rel *release.Release
	var err error
	if op.asIs && a.current.Revision == 1 {
		rel, err = a.renderInstall(op)
	} else {
		rel, err = op.helm.Upgrade(a.owner.GetName(), a.owner.GetNamespace(), a.chart, a.values, append(opts, func(u *action.Upgrade) error {
			u.DryRun, u.DryRunOption, u.PostRenderer = true, "server", op
			u.SkipSchemaValidation = a.source.accepts(a.whole)
			return nil
		})...)
	}
	if err != nil && a.Secrets {
		err = object.DiscreetRendering(err)
	}
	return rel, err
}

// renderInstall returns what an installation would apply now. The library would take a failed one back for real, dry or not.
func (a *actionClient) renderInstall(op *operation) (*release.Release, error) {
	install := action.NewInstall(op.config)
	install.ReleaseName, install.Namespace = a.owner.GetName(), a.owner.GetNamespace()
	install.DryRun, install.DryRunOption, install.PostRenderer = true, "server", op
	install.SkipCRDs, install.DisableOpenAPIValidation, install.TakeOwnership = true, true, true
	install.SkipSchemaValidation = a.source.accepts(a.whole)
	return install.RunWithContext(a.ctx, a.chart, a.values)
}

func (a *actionClient) upgrade(name, namespace string, opts []helmclient.UpgradeOption) (*release.Release, error) {
	if a.held != nil {
		return nil, a.heldBack()
	}
	if err := a.prepare(a.tryWanted, a.repairWhatIsLookedUp); err != nil {
		return nil, err
	}
	left, err := a.left()
	if err != nil {
		return nil, err
	}
	// Not always: an object may only be taken once another one is there, which a rehearsal does not make.
	failed := a.clients.ledger.failure(a.owner.GetUID())
	rehearse := a.current.Status == release.StatusFailed && a.current.Inputs == a.wanted && failed.count%10 > 0
	begun, err := a.begun(opts)
	if err != nil {
		return nil, err
	}
	op, err := a.begin(left, rehearse)
	if err != nil {
		return nil, err
	}
	defer op.end()
	op.begun = begun
	done := func() {}
	change := func() { done = a.Changing(a.retries()) }
	if rehearse {
		op.guard.Rehearsed = change
	} else {
		change()
	}
	defer func() { done() }()
	op.guard.Unasked, op.looks = true, a.source.hooks(a.whole)         // or they would have run, and run again, for an upgrade that is refused
	op.guard.RehearsesFirst = rehearse && !guard.IsOfAHook(failed.err) // a hook may make way for what it comes before
	start := time.Now()
	rel, err := op.helm.Upgrade(name, namespace, a.chart, a.values, append(opts, a.asUpgrade(), func(u *action.Upgrade) error {
		u.PostRenderer = op
		u.SkipSchemaValidation = a.source.accepts(a.whole)
		return nil
	})...)
	if err != nil && rel != nil && op.guard.Changed && a.ctx.Err() == nil { // else this operator stops in the middle of it, and the next one goes on
		err = errors.Join(err, a.rollBack(op, rel))
	}
	if op.store.HasCreated() {
		err = errors.Join(err, a.dropFailedTwin())
	}
	a.Acted(Upgrade, time.Since(start), err)
	return a.conclude(op, Upgraded, rel, err)
}

// repairWhatIsLookedUp puts the objects back to what was applied, if the chart looks some up and drift is to be repaired: a chart takes what
// it finds in its own Secrets and ConfigMaps for what it has made.
func (a *actionClient) repairWhatIsLookedUp() error {
	if !a.isLookedUp() {
		return nil
	}
	a.resting = nil
	_, err := a.repair()
	return err
}

// isLookedUp is whether the chart looks up objects, and one of the release, which may be that, has drifted and is to be put back.
func (a *actionClient) isLookedUp() bool {
	return a.asks.objects && a.DriftDetection.Mode == DriftEnabled && a.current.Status == release.StatusDeployed &&
		slices.ContainsFunc(a.provenChildren(), func(child object.Child) bool { return !a.intact(child) })
}

// retries is whether the last action has failed.
func (a *actionClient) retries() bool { return a.clients.ledger.failure(a.owner.GetUID()).count > 0 }

// left are manifests of what may be there besides what the newest record names, where that was lost, is not proven or was not brought to
// its end: what is the owner's, and what releases that were not brought to their end have made.
func (a *actionClient) left() (left []string, err error) {
	// Of kinds that the cluster no longer knows nothing is named, or nothing could be deleted.
	name := func(manifest string) error {
		named, err := a.store.Named(manifest)
		if named != "" {
			left = append(left, named)
		}
		return err
	}
	for _, manifest := range a.clients.ledger.read(a.owner.GetUID()).inherited {
		if err := name(manifest); err != nil {
			return nil, fmt.Errorf("read what another operator has applied: %w", err)
		}
	}
	if a.current != nil && a.proven && a.current.Status == release.StatusDeployed || a.current == nil && a.appliedDigest() == "" {
		return left, nil
	}
	if err := name(object.BareManifest(a.knownChildren())); err != nil {
		return nil, fmt.Errorf("read what was applied: %w", err)
	}
	if a.watches != nil {
		owned, err := a.watches.owned(a.ctx, a.owner, a.unowned())
		if err != nil {
			return nil, err
		}
		if owned = slices.DeleteFunc(owned, record.Is); len(owned) > 0 {
			left = append(left, object.BareManifest(owned))
		}
	}
	if a.current == nil || a.current.Status == release.StatusDeployed {
		return left, nil
	}
	unfinished, err := a.store.Unfinished(a.ctx)
	return append(left, unfinished...), err
}

// dropFailedTwin removes the record of the same inputs' last failure, so that a permanent
// failure has one revision and not thousands. The only revision stays: upgrades need one. It is
// removed after there is a new one: in between, nothing would tell of the objects that the failed
// attempt has made, and should the operator be killed then, they would stay for ever.
func (a *actionClient) dropFailedTwin() error {
	if a.current.Status != release.StatusFailed || a.current.Inputs != a.wanted || a.current.Revision == 1 {
		return nil
	}
	if _, err := a.store.Releases().Delete(a.owner.GetName(), a.current.Revision); err != nil {
		return fmt.Errorf("remove the record of the failed attempt %s: %w", a.current.Name, err)
	}
	return nil
}

// conclude remembers how an action ended, and tells what it has done.
func (a *actionClient) conclude(op *operation, done string, rel *release.Release, err error) (*release.Release, error) {
	if err != nil {
		err = a.worded(op, err)
		a.failed(err)
		return nil, err
	}
	created, err := op.store.Created(a.ctx)
	if err != nil {
		return nil, err
	}
	children := op.guard.Children()
	a.applied = children
	stamp := op.stamp()
	stamp.Children = children
	a.current = &stamp
	a.current.Name, a.current.Revision, a.current.Status, a.current.Created = created.Name, rel.Version, rel.Info.Status, created.CreationTimestamp.Time
	a.noticed(op)
	if done == Upgraded && a.asks != (questions{}) {
		a.clients.ledger.churn(a.owner.GetUID()).upgraded(time.Now(), a.owner.GetGeneration(), a.source.digest)
	}
	a.clients.ledger.setOutdated(a.owner.GetUID(), "")
	what := fmt.Sprintf("Revision %d from chart %s %s: %s", rel.Version, a.chart.Name(), a.chart.Metadata.Version, object.List(children))
	if adopted := op.guard.Adopted; len(adopted) > 0 {
		what += "; taken over: " + object.List(adopted)
	}
	a.did(what)
	a.succeeded(a.key.Proof(rel.Manifest))
	a.tell(done, "%s", what)
	return a.light(), a.watch(a.ctx, a.owner, children)
}

// worded is the error of an action as it is told.
func (a *actionClient) worded(op *operation, err error) error {
	switch {
	case op.refused != nil:
		return op.refused // without what Helm says around it
	case a.Secrets:
		return object.DiscreetRendering(plain(err))
	}
	return plain(err)
}

// plain hides the stack traces of Helm's errors, which would be logged with every one.
func plain(err error) error { return fmt.Errorf("%w", err) }

func (a *actionClient) succeeded(manifestDigest string) {
	a.clients.ledger.succeed(a.owner, a.chart, a.current, manifestDigest, a.applied)
	a.schedule.periodically(a.owner, a.period())
	a.answer(nil)
}

// failed has the action tried again after a while, which grows with every failure of the same
// inputs. A rollout breaks nothing where it is refused.
func (a *actionClient) failed(err error) {
	switch {
	case errors.As(err, &notAllowed{}):
		a.leaveRollout(a.owner)
	case errors.As(err, &noPlace{}):
		a.wake(a.rollout.notBegun(a.owner))
	default:
		a.observed(broken)
	}
	last := lastRetry
	if a.rolledBack {
		last = lastRollout
	}
	a.schedule.after(a.owner, a.clients.ledger.fail(a.owner, a.wanted, err, last))
	a.answer(err)
}

// Uninstall deletes the release with its objects and its history.
func (a *actionClient) Uninstall(name string, opts ...helmclient.UninstallOption) (*release.UninstallReleaseResponse, error) {
	a.leaveRollout(a.owner) // whether that succeeds or not
	if a.unread != nil {    // the library asks Get, and deletes whatever it says
		a.failed(a.unread)
		return nil, a.unread
	}
	if a.current == nil || orphans(a.owner) {
		return nil, a.letGo(nil)
	}
	if failed := a.clients.ledger.failure(a.owner.GetUID()); failed.inputs == a.deleteHookInputs() && time.Now().Before(failed.until) {
		return nil, a.hold(failed)
	}
	hasHooks, err := a.tryDeleteHooks()
	if err != nil {
		a.wanted = a.deleteHookInputs()
		a.failed(err)
		return nil, err
	}
	left, err := a.left()
	if err != nil {
		a.failed(err)
		return nil, err
	}
	op, err := a.begin(left, false)
	if err != nil {
		return nil, err
	}
	defer op.end()
	defer a.Changing(a.retries())()
	start := time.Now()
	var hooks []*release.Hook
	if hasHooks {
		hooks, err = a.deleteHooks(op)
	}
	if err == nil && len(hooks) > 0 {
		if err = op.placeForHooks(); err != nil {
			a.wanted = a.deleteHookInputs()
		}
	}
	if err == nil && a.current.Status != release.StatusUninstalling { // else those before it have run
		err = a.runDeleteHooks(op, hooks, release.HookPreDelete)
	}
	if err != nil {
		a.Acted(Uninstall, time.Since(start), err)
		a.failed(err)
		return nil, err
	}
	op.beforePurge = func() error { return a.runDeleteHooks(op, hooks, release.HookPostDelete) }
	if err := op.guard.DeleteLeft(); err != nil {
		a.failed(err)
		return nil, err
	}
	response, err := a.uninstall(op, name, opts)
	if errors.Is(err, driver.ErrReleaseNotFound) { // orphaned, of which the cache has not heard
		return nil, a.letGo(op)
	}
	if err == nil {
		a.Acted(Uninstall, time.Since(start), nil)
		a.Forget(a.owner)
		a.tell(Uninstalled, "%s", deleted(a.current.Children, op.guard.Kept))
		response.Release = a.light() // the reconciler logs the manifest, if it logs much
		return response, err
	}
	if cause := op.guard.Undeleted; cause != nil {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	a.Acted(Uninstall, time.Since(start), err)
	err = plain(err)
	a.failed(err)
	return nil, err
}

// uninstall deletes the release by Helm, which says nothing to the guard of what the manifest keeps.
func (a *actionClient) uninstall(op *operation, name string, opts []helmclient.UninstallOption) (*release.UninstallReleaseResponse, error) {
	recorded, err := a.recorded()
	if err != nil {
		return nil, err
	}
	if !a.isApplied(recorded.Manifest) { // somebody has edited it: nobody else deletes what it does not name in no namespace, or says is kept
		if err := a.deleteUnowned(op); err != nil {
			return nil, err
		}
	}
	if err := op.guard.Keep(recorded.Manifest); err != nil {
		return nil, err
	}
	return op.helm.Uninstall(name, opts...)
}

// deleted says what became of the objects of a release.
func deleted(children, kept []object.Child) string {
	gone := slices.DeleteFunc(slices.Clone(children), func(child object.Child) bool { return slices.ContainsFunc(kept, child.Same) })
	if len(kept) == 0 {
		return "Deleted: " + object.List(gone)
	}
	return "Deleted: " + object.List(gone) + "; kept: " + object.List(kept)
}

// History returns the releases, newest first.
func (a *actionClient) History(name string, _ ...helmclient.HistoryOption) ([]*release.Release, error) {
	releases, err := a.store.Releases().History(name)
	releaseutil.Reverse(releases, releaseutil.SortByRevision)
	return releases, err
}

// Config is nil: each action has one of its own, and nobody asks for another in a reconcile.
func (a *actionClient) Config() *action.Configuration { return nil }
