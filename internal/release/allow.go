package release

import (
	"bytes"
	"slices"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// notAllowed is why a release is refused that asks for what watches.yaml does not allow.
type notAllowed struct{ error }

// Run is asked by Helm for each rendering, before anything is done with it. It changes nothing in what was rendered.
func (op *operation) Run(rendered *bytes.Buffer) (*bytes.Buffer, error) {
	return rendered, op.judge(rendered.String())
}

// judgingHooks has hooks judged, which no rendering shows, before Helm writes the record of their release, and runs them.
type judgingHooks struct {
	driver.Driver
	op *operation
}

// Create stores a new revision.
func (d judgingHooks) Create(key string, rel *release.Release) error {
	for _, hook := range rel.Hooks {
		if err := d.op.judge(hook.Manifest); err != nil {
			return err
		}
	}
	return d.Driver.Create(key, rel)
}

// judge is why a manifest may not be applied. What it asks of controllers that serve others is either allowed to the author
// of the custom resource, or the chart's own: the same for everybody who writes nothing.
func (op *operation) judge(manifest string) error {
	asks, err := op.asks(manifest)
	if err != nil {
		return err
	}
	namespace := op.client.owner.GetNamespace()
	refused := op.allow.Refused(namespace, asks)
	if len(refused) == 0 {
		return nil
	}
	own := op.own()
	refused = slices.DeleteFunc(refused, func(ask object.Ask) bool { return slices.ContainsFunc(own, ask.Same) })
	if len(refused) == 0 {
		return nil
	}
	op.refused = notAllowed{op.allow.Refusal(namespace, refused)}
	return op.refused
}

// own is what the chart asks for, whoever writes its custom resource: with the name and namespace of this one, and an empty
// spec. A chart that can't be rendered so has nothing of its own.
func (op *operation) own() []object.Ask {
	values, err := pinned(op.overrides)
	if err != nil {
		return nil
	}
	capabilities := op.clients.capabilities.Get()
	install := action.NewInstall(&action.Configuration{Log: func(string, ...any) {}})
	install.ClientOnly, install.DryRun = true, true
	install.ReleaseName, install.Namespace = op.client.owner.GetName(), op.client.owner.GetNamespace()
	install.KubeVersion, install.APIVersions = &capabilities.KubeVersion, capabilities.APIVersions
	rel, err := install.Run(private(op.client.chart), values)
	if err != nil {
		return nil
	}
	own, _ := op.asks(rel.Manifest)
	for _, hook := range rel.Hooks {
		asks, _ := op.asks(hook.Manifest)
		own = append(own, asks...)
	}
	return own
}

// asks are those of all objects of a manifest.
func (op *operation) asks(manifest string) ([]object.Ask, error) {
	resources, err := op.guard.Peek(manifest)
	if err != nil {
		return nil, err
	}
	var asks []object.Ask
	for _, info := range resources {
		asks = append(asks, object.Asks(info.Object.(*unstructured.Unstructured))...) // Build knows no other type
	}
	return asks, nil
}
