package release

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/operator-framework/helm-operator-plugins/pkg/annotation"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage"
	"helm.sh/helm/v3/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// WithoutHooks is the library's annotation that has a custom resource deleted without running hooks of its
// chart.
var WithoutHooks = annotation.UninstallDisableHooks{}.Name()

// runHooks runs those hooks that are for event. Helm runs hooks only as part of its actions, and takes those of
// a deletion or a rollback from the record, which cannot be trusted. So they are run as the tests of a release
// that is kept in memory.
func (op *operation) runHooks(hooks []*release.Hook, event release.HookEvent) error {
	var due []*release.Hook
	for _, hook := range hooks {
		if slices.Contains(hook.Events, event) {
			asTest := *hook
			asTest.Events = []release.HookEvent{release.HookTest}
			due = append(due, &asTest)
		}
	}
	if len(due) == 0 {
		return nil
	}
	owner, nowhere := op.client.owner, driver.NewMemory()
	nowhere.SetNamespace(owner.GetNamespace())
	config := &action.Configuration{Releases: storage.Init(nowhere), KubeClient: op.guard, Log: func(string, ...any) {}}
	err := config.Releases.Create(&release.Release{
		Name: owner.GetName(), Namespace: owner.GetNamespace(), Version: 1, Info: &release.Info{Status: release.StatusDeployed}, Hooks: due,
	})
	if err == nil {
		run := action.NewReleaseTesting(config)
		run.Timeout, run.Namespace = op.Timeout, owner.GetNamespace()
		_, err = run.Run(owner.GetName())
	}
	if err != nil {
		return fmt.Errorf("run the %s hooks of the chart: %w", event, err)
	}
	return nil
}

// tryDeleteHooks is whether the chart may have deletion hooks that are still to run and can make something. It
// fails if they cannot be rendered, in a trial where the spec needs one: a trial waits, and nothing has begun
// yet that it could hold up.
func (a *actionClient) tryDeleteHooks() (hasHooks bool, err error) {
	values, err := a.spec()
	if err != nil {
		return false, err
	}
	if !a.source.hasDeleteHooks(values) || isOn(a.owner, WithoutHooks) || a.current.Status == release.StatusUninstalled {
		return false, nil
	}
	if controllerutil.ContainsFinalizer(a.owner, metav1.FinalizerDeleteDependents) {
		a.warn(HooksSkipped, "The deletion is in the foreground, so that Kubernetes deletes what the hooks of the chart would make")
		return false, nil
	}
	text, err := json.Marshal(values)
	if err != nil {
		return false, fmt.Errorf("measure the spec: %w", err)
	}
	err = a.checkTexts(values, string(text))
	if err == nil {
		err = a.try(values, string(text), false)
	}
	if err != nil {
		return false, a.unlessTerminating(fmt.Errorf("render the hooks of the deletion: %w (or annotate with %s=true)", err, WithoutHooks))
	}
	return true, nil
}

// unlessTerminating is err, nil if the namespace is being deleted, too: hooks could not run then anyway, since
// nothing can be created.
func (a *actionClient) unlessTerminating(err error) error {
	probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: a.owner.GetNamespace(), GenerateName: "probe-"}}
	if !isTerminating(a.clients.mgr.GetClient().Create(a.ctx, probe, client.DryRunAll)) {
		return err
	}
	a.warn(HooksSkipped, "The namespace is being deleted, so that no hooks of the chart can run")
	return nil
}

// isTerminating is whether the API server has refused to create something because the namespace is being
// deleted.
func isTerminating(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// deleteHooks are the deletion hooks that the present chart renders with the present spec.
func (a *actionClient) deleteHooks(op *operation) ([]*release.Hook, error) {
	values, err := a.spec()
	if err != nil {
		return nil, err
	}
	rel, err := op.renderAlone(values, 1)
	if err != nil {
		return nil, a.unlessTerminating(fmt.Errorf("render the hooks of the deletion (mend the spec, or annotate with %s=true): %w", WithoutHooks, err))
	}
	hooks := slices.DeleteFunc(rel.Hooks, func(hook *release.Hook) bool {
		return !slices.Contains(hook.Events, release.HookPreDelete) && !slices.Contains(hook.Events, release.HookPostDelete)
	})
	if err := op.judgeHooks(hooks); err != nil {
		return nil, a.unlessTerminating(orWithoutHooks(err))
	}
	return hooks, nil
}

// runDeleteHooks runs the deletion hooks for event. It skips them where the namespace is being deleted, too.
func (a *actionClient) runDeleteHooks(op *operation, hooks []*release.Hook, event release.HookEvent) error {
	err := op.runHooks(hooks, event)
	if isTerminating(err) {
		a.warn(HooksSkipped, fmt.Sprintf("The namespace is being deleted, so that no %s hooks of the chart can run", event))
		return nil
	}
	if err != nil {
		a.wanted = a.deleteHookInputs()
		return orWithoutHooks(err)
	}
	return nil
}

// orWithoutHooks adds to an error of deletion hooks how to delete without them.
func orWithoutHooks(err error) error {
	return fmt.Errorf("%w (to delete without hooks, annotate with %s=true)", err, WithoutHooks)
}

// deleteHookInputs stand for the inputs of deletion hooks in the failure of an action, so that failed hooks are
// not run again for a while.
func (a *actionClient) deleteHookInputs() string {
	return fmt.Sprintf("hooks of generation %d, without: %s", a.owner.GetGeneration(), a.owner.GetAnnotations()[WithoutHooks])
}

// awaited is whether an installation, an upgrade or a rollback may run a hook.
func awaited(hook *release.Hook) bool {
	return slices.ContainsFunc(hook.Events, func(event release.HookEvent) bool {
		return event != release.HookPreDelete && event != release.HookPostDelete && event != release.HookTest
	})
}
