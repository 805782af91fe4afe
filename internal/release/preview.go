package release

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/release"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/rest"
	eventrecord "k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/internal/guard"
	"demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/internal/pace"
	"demo.welcome.domain/welcome-operator/internal/record"
)

// NewPreviews returns clients that only find out what an operator would do. They write nothing and have no
// cache; cluster has to refuse all but reads and dry runs. operator is the name of that operator, and ignored
// the fields that it leaves to others.
func NewPreviews(cluster *rest.Config, mapper meta.RESTMapper, live client.Reader, operator string, ignored object.IgnoredByKind, capabilities *Capabilities) (*Clients, error) {
	c := &Clients{
		mapper:       mapper,
		cached:       &uncached{record.Uncached(live), ignored},
		live:         live,
		operator:     operator,
		capabilities: capabilities,
		ledger:       newLedger(),
		trials:       pace.NewPlaces(math.MaxInt, math.MaxInt),
		events:       &eventrecord.FakeRecorder{},
	}
	return c, c.connect(cluster)
}

// uncached reads from the API server what the cache would have.
type uncached struct {
	client.Reader
	ignored object.IgnoredByKind
}

// Get reads an object as the cache has it.
func (u *uncached) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	err := u.Reader.Get(object.Quietly(ctx), key, obj, opts...)
	if err == nil {
		_, err = u.ignored.Slim(obj)
	}
	return err
}

// Preview is what a reconcile of a custom resource would do, as things are.
type Preview struct {
	// Objects are those that would change, or fail to.
	Objects []guard.Outlook
	// Hidden are values that the operator has from its environment, as far as the release's record tells them.
	Hidden []string
	// Unknown is whether such values are not known: then it is not known either whether what depends on them
	// changes.
	Unknown bool

	masked map[string][][]string
	// chancy is whether two renderings may differ.
	chancy bool
}

// Masked are the paths of the fields of an object that depend on the operator's environment, or on chance. The
// path of a line of a text ends with its number.
func (p *Preview) Masked(obj *unstructured.Unstructured) [][]string {
	return p.masked[nameOf(obj.GetAPIVersion(), obj.GetKind(), obj.GetName())]
}

func nameOf(apiVersion, kind, name string) string { return apiVersion + " " + kind + " " + name }

// ErrInTheMiddle is why a preview is not possible now.
var ErrInTheMiddle = errors.New("its release is in the middle of an action, or was interrupted: ask again when the operator is done")

// Preview finds out what a reconcile of owner would do, and does nothing. unknown are the overrides that only
// the operator knows: their values are taken from the release's record or, without one, made up. An error is
// why the reconcile would fail, or why that cannot be told.
func (k *Kind) Preview(ctx context.Context, owner *unstructured.Unstructured, unknown []string) (*Preview, error) {
	preview := &Preview{}
	rendered, err := k.outlook(ctx, owner.DeepCopy(), unknown, preview)
	if err != nil || rendered == "" || len(preview.Objects) == 0 || len(unknown) == 0 && !preview.chancy {
		return preview, err
	}
	again, err := k.outlook(ctx, owner.DeepCopy(), unknown, nil)
	if err != nil {
		return preview, fmt.Errorf("render with something else for what the operator has from its environment: %w", err)
	}
	preview.masked = map[string][][]string{}
	once, then := flat(rendered), flat(again)
	for _, pair := range [][2]map[string]string{{once, then}, {then, once}} {
		for _, path := range differences(pair[1], pair[0]) {
			parts := strings.Split(path, "\x00")
			words := strings.Fields(parts[0]) // as flat has it: version, kind, namespace, name
			of := nameOf(words[0], words[1], words[len(words)-1])
			preview.masked[of] = append(preview.masked[of], parts[1:])
		}
	}
	return preview, nil
}

// outlook does what a reconcile does up to where objects would be applied, and returns the manifest, empty if
// nothing would be applied. Without a preview, it only renders, with other values for unknown.
func (k *Kind) outlook(ctx context.Context, owner *unstructured.Unstructured, unknown []string, preview *Preview) (string, error) {
	a, err := k.beforeAction(ctx, owner, unknown, preview)
	if err != nil {
		return "", err
	}
	if a.held != nil {
		return "", a.held
	}
	if err := a.tryWanted(); err != nil {
		return "", err
	}
	verdict := decide(a.observe())
	if a.current == nil {
		if err := a.checkRecords(); err != nil {
			return "", err
		}
	}
	// Before this takes a slot: if each took two, previews of many could wait for each other.
	if verdict == needsRender {
		same, err := a.compare(nil)
		if err != nil {
			return "", a.told(err)
		}
		verdict = needsUpgrade
		if same {
			verdict = isUnchanged
		}
	}
	op, err := a.begin(nil, false)
	if err != nil {
		return "", err
	}
	defer op.end()
	if preview != nil {
		preview.chancy = a.source.chances(a.coalesced)
	}
	rendered, err := a.foresee(op, verdict, preview)
	if err != nil {
		return "", a.worded(op, err)
	}
	return rendered, nil
}

// Applied is the release of owner as it was applied last. The status proves its chart, values and manifest;
// hooks and notes are rendered from these. Nothing else is taken from the record, which others may edit.
func (k *Kind) Applied(ctx context.Context, owner *unstructured.Unstructured, unknown []string) (*release.Release, error) {
	a, err := k.beforeAction(ctx, owner.DeepCopy(), unknown, &Preview{})
	if err != nil {
		return nil, err
	}
	if a.current == nil {
		return nil, errors.New("its release record is gone")
	}
	if !a.trustInputs() {
		return nil, errors.New("its spec, or the chart, has changed since it was applied last, or its release record is not the operator's")
	}
	op, err := a.begin(nil, false)
	if err != nil {
		return nil, err
	}
	defer op.end()
	rendered, err := a.rerender(op)
	if err != nil {
		return nil, a.worded(op, err)
	}
	if err := op.judgeHooks(rendered.Hooks); err != nil { // Helm would run them unjudged
		return nil, err
	}
	if a.isApplied(rendered.Manifest) {
		return rendered, nil
	}
	// With chance or lookups, each rendering differs.
	recorded, err := a.store.Releases().Get(owner.GetName(), a.appliedRevision())
	if err != nil {
		return nil, fmt.Errorf("read the release record: %w", err)
	}
	if !a.isApplied(recorded.Manifest) {
		return nil, errors.New("its release record is not what the operator has applied")
	}
	rendered.Manifest = recorded.Manifest
	return rendered, nil
}

// beforeAction does what a reconcile does up to where it is known what the release is to be made from; without
// a preview, from other values for unknown.
func (k *Kind) beforeAction(ctx context.Context, owner *unstructured.Unstructured, unknown []string, preview *Preview) (*actionClient, error) {
	pinned := *k
	a := &actionClient{Kind: &pinned, ctx: ctx, owner: owner, report: func(string) {}}
	a.store = k.store(ctx, owner, record.Options{Allow: k.Allow, Applied: a.appliedRevision, Children: a.knownChildren, IsApplied: a.isApplied, Report: a.report})
	newest, err := a.store.Newest(ctx)
	if err != nil {
		return nil, err
	}
	if k.Secrets {
		a.key = k.clients.ledger.key(owner.GetUID(), newest)
	}
	if newest != nil && !a.recordedElsewhere() {
		a.current, a.storedProof = newest, newest.Proof()
		newest.Key = a.key
		a.prove()
	}
	switch {
	case a.current == nil:
	case a.isUnmade():
		a.unmade, a.current = newest, nil
	case orphaned(newest.Status):
		return nil, ErrInTheMiddle
	}
	if err := a.pinUnknown(unknown, preview); err != nil {
		return nil, err
	}
	if _, isMap := owner.Object["spec"].(map[string]any); !isMap {
		return nil, errors.New("it has no spec")
	}
	spec, err := pinned.Translate(ctx, owner)
	if err != nil {
		return nil, err
	}
	values, err := chartutil.CoalesceValues(k.Chart, spec)
	if err != nil {
		return nil, err
	}
	return a, a.want(values)
}

// pinUnknown adds to the overrides those that only the operator knows: with the values of the record or,
// without a preview, with others.
func (a *actionClient) pinUnknown(unknown []string, preview *Preview) error {
	if len(unknown) == 0 {
		return nil
	}
	a.Overrides = maps.Clone(a.Overrides)
	if a.Overrides == nil {
		a.Overrides = map[string]string{}
	}
	applied := chartutil.Values{}
	if a.current != nil {
		recorded, err := a.recorded()
		if err != nil {
			return err
		}
		applied = recorded.Config
	}
	for _, key := range unknown {
		value, err := applied.PathValue(key)
		if preview != nil {
			preview.Unknown = preview.Unknown || err != nil
			if _, isBool := value.(bool); err == nil && !isBool { // true and false are in every text, and no secrets
				preview.Hidden = append(preview.Hidden, fmt.Sprint(value))
			}
		}
		if err != nil || preview == nil {
			switch known := value.(type) {
			case bool:
				value = !known
			case int64:
				value = known + 1
			case float64:
				value = known + 1
			default: // or it is not known
				value = "unknown-" + rand.String(8)
			}
		}
		a.Overrides[key] = strings.NewReplacer(`\`, `\\`, `,`, `\,`, `{`, `\{`).Replace(fmt.Sprint(value))
	}
	return nil
}

// foresee asks the API server, by dry runs, what the action of verdict would do.
func (a *actionClient) foresee(op *operation, verdict verdict, preview *Preview) (string, error) {
	if verdict == isUnchanged && preview != nil {
		children := a.provenChildren()
		if a.DriftDetection.Mode != DriftEnabled || children != nil && !slices.ContainsFunc(children, func(child object.Child) bool { return !a.intact(child) }) {
			return "", nil
		}
		if manifest, err := a.restorable(op); err != nil || manifest != "" {
			if err == nil {
				preview.Objects, err = op.guard.Foresee(manifest, manifest, manifest)
			}
			return manifest, err
		}
	}
	rendered, err := a.renderNext(op)
	if err != nil {
		return "", err
	}
	if preview == nil {
		return rendered.Manifest, nil
	}
	if err := op.judgeHooks(rendered.Hooks); err != nil {
		return "", err
	}
	if a.current == nil {
		preview.Objects, err = op.guard.Foresee("", "", rendered.Manifest)
		return rendered.Manifest, err
	}
	recorded, err := a.recorded()
	if err != nil {
		return "", err
	}
	left, err := a.leftovers()
	if err != nil {
		return "", err
	}
	previous := recorded.Manifest
	if !a.isApplied(previous) {
		previous = ""
	}
	preview.Objects, err = op.guard.Foresee(previous, strings.Join(append([]string{recorded.Manifest}, left...), "\n---\n"), rendered.Manifest)
	return rendered.Manifest, err
}

// renderNext is a dry run of the installation, if there is no release, or else of an upgrade.
func (a *actionClient) renderNext(op *operation) (*release.Release, error) {
	if a.current != nil {
		return a.render(op)
	}
	return op.helm.Install(a.owner.GetName(), a.owner.GetNamespace(), a.chart, a.values, a.installing(op), func(install *action.Install) error {
		install.DryRun, install.DryRunOption = true, "server"
		return nil
	})
}
