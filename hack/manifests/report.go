package main

import (
	"cmp"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"demo.welcome.domain/welcome-operator/hack/manifests/infer"
	obj "demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/internal/release"
	"demo.welcome.domain/welcome-operator/internal/terminal"
)

// inPods is what the words of allow.pods stand for.
var inPods = map[string]string{
	obj.PodSecrets:         "Secrets",
	obj.PodServiceAccounts: "a ServiceAccount of their own",
	obj.PodHost:            "the node (its namespaces, files or ports, or more privileges)",
}

// report says what people should know of a kind whose chart is new. into is the directory of its operator, empty for this one.
func (k kind) report(into string) string {
	out := &strings.Builder{}
	regenerate := "make manifests"
	if into != "" {
		regenerate += " INTO=" + into
	}
	say := func(format string, args ...any) { // a line, of which what the chart says is a part that looks like no other line
		for i := range args {
			args[i] = terminal.Line(fmt.Sprint(args[i]))
		}
		fmt.Fprintf(out, format+"\n", args...)
	}
	say("\n%s is a kind. It does as its chart.", k.entry.Kind)
	if len(k.api.kinds) == 0 {
		say("No %s makes an object, whatever option is on: the chart's templates have to be in templates/, and it must be no library; a chart that makes what its values list needs some in its values.yaml, pinned (overrideValues), or in the sample (then %s)", k.entry.Kind, regenerate)
	}
	if slices.ContainsFunc(k.api.chart.Files, func(file *chart.File) bool { return file.Name == "values.yml" }) {
		say("Helm does not read values.yml: call it values.yaml, in %s, and then %s", k.entry.ChartPath, regenerate)
	}
	if len(k.api.unlisted) > 0 {
		say("These are pinned, and values.yaml lacks them: see that each is spelt as the chart has it: %s", strings.Join(k.api.unlisted, ", "))
	}
	if len(k.api.left) > 0 {
		say("These values are no fields of it, unless allow.values in %s lists them:", watchesFile)
	}
	var reasons []string
	paths := map[string][]string{}
	for _, left := range k.api.left {
		if paths[left.Why] == nil {
			reasons = append(reasons, left.Why)
		}
		paths[left.Why] = append(paths[left.Why], left.Path)
	}
	for _, why := range reasons {
		say("  %s: %s", strings.Join(paths[why], ", "), why)
	}
	for _, word := range k.entry.Allow.Pods {
		say("Pods of it use %s: allow.pods in %s lets them now (%s). Look at why in the chart, or take it out", inPods[word], watchesFile, word)
	}
	for _, broken := range k.api.broken {
		say("The chart can't be rendered with %s and nothing else: %s", broken.Path, broken.Why)
	}
	for _, text := range k.obstacles(false) {
		say("%s", text)
	}
	if len(k.api.kinds) > 0 {
		if fixed, freedBy := k.api.trial.FixedNames(k.goesInto); len(fixed) > 0 {
			say("A namespace can have one %s, for these have the same name in each: %s", k.entry.Kind, strings.Join(fixed, ", "))
			if freedBy != "" {
				say("  pinned in overrideValues, %s: \"{name}\" gives each its own", freedBy)
			} else {
				say("  for more, have the chart put {{ .Release.Name }} into these names")
			}
		}
	}
	if !k.entry.Tests && k.api.trial.HasTests() {
		say("The tests of the chart are not run: tests: true in %s lets a %s have them run", watchesFile, k.entry.Kind)
	}
	for _, hook := range release.UnknownHooks(k.api.chart) {
		say("%s", unknownHook(hook))
	}
	var crds []string
	possible := *k.api.chart
	possible.Values = nil // what the chart itself has off, a custom resource may turn on
	if enabled, err := release.EnabledBy(&possible, k.entry.OverrideValues); err != nil {
		say("%s", err)
	} else {
		for _, file := range enabled.CRDObjects() {
			crds = append(crds, file.Name)
		}
	}
	switch {
	case len(crds) > 0 && k.entry.CRDs:
		say("The operator installs %s where the cluster lacks them, and changes none that is there: for what this version changes in them, helm show crds %s | kubectl replace -f -", strings.Join(crds, ", "), filepath.Join(into, k.entry.ChartPath))
	case len(crds) > 0:
		say("The operator does not install %s: do so before, or have it do so by crds: true in %s", strings.Join(crds, ", "), watchesFile)
	}
	if strings.Contains(out.String(), watchesFile) {
		say("After a change of %s: %s", watchesFile, regenerate)
	}
	return out.String()
}

func unknownHook(hook string) string {
	return hook + ": Helm knows no such hook, and leaves out what has it: see how it is spelt"
}

// obstacles are what the operator has no right for, unless onlyAlways also of what only an option makes, and
// what else keeps every custom resource from being ready.
func (k kind) obstacles(onlyAlways bool) (all []string) {
	for _, m := range k.api.kinds {
		why, when := k.refusal(m), cmp.Or(k.condition(m, m.When), k.always())
		gone := dropped(m)
		if (gone || why != "") && m.When != "" && onlyAlways {
			continue
		}
		if gone { // no word of the entry's helps
			all = append(all, fmt.Sprintf("Kubernetes %s or newer has no %s in version %s (%s, %s): another version of the chart may make it in one that it has", infer.OldestKubernetes.Version, m.Kind, m.APIVersion, m.File, when))
			continue
		}
		if why != "" {
			text := fmt.Sprintf("The operator gets no right to make %s (%s, %s): %s", m.Kind, m.File, when, why)
			if without := k.api.trial.Without(func(o *unstructured.Unstructured) bool {
				return k.api.trial.Key(o) == k.api.trial.Key(m.Objects[0].Object)
			}); without != "" {
				text += "; pinned in overrideValues, " + without + " leaves it out"
			}
			all = append(all, text)
		}
		if why == "" || !onlyAlways { // else it is not made at all
			all = slices.Concat(all, k.tooMuchIn(m), k.boundIn(m))
		}
	}
	if len(k.api.kinds) > 0 {
		all = slices.Concat(all, k.podsBeyond(), k.lookedUp(), k.hindrances())
	}
	if wants := k.api.chart.Metadata.KubeVersion; wants != "" && !chartutil.IsCompatibleRange(wants, infer.OldestKubernetes.Version) {
		all = append(all, fmt.Sprintf("The chart is for Kubernetes %s, the operator for %s or newer: on a cluster for which it is not, no %s will be ready", wants, infer.OldestKubernetes.Version, k.entry.Kind))
	}
	return all
}

// podsBeyond is what the pods of a custom resource that says nothing use, and the entry does not let them: a
// new version of a chart may have them use more.
func (k kind) podsBeyond() (all []string) {
	objects, _ := k.api.trial.ByDefault() // which has been rendered before
	told := slices.Clone(k.entry.Allow.Pods)
	if k.entry.Secrets {
		told = append(told, obj.PodSecrets)
	}
	for _, r := range objects {
		if infer.IsTest(r.Object) && !k.entry.Tests {
			continue
		}
		for _, word := range obj.PodWords(r.Object) {
			if !slices.Contains(told, word) {
				told = append(told, word)
				all = append(all, fmt.Sprintf("Pods of it use %s (%s), which takes %s in allow.pods of %s: no %s will be ready", inPods[word], path.Base(r.File), word, watchesFile, k.entry.Kind))
			}
		}
	}
	return all
}

// lookedUp is what the chart looks up for a custom resource that says nothing, and the entry gives no right to. Where
// that is made, too, the right to make it is told.
func (k kind) lookedUp() (all []string) {
	elsewhere, err := k.api.trial.As(infer.OtherRelease) // a chart may look into the namespace that is the default
	if err != nil {
		return nil
	}
	for _, gvk := range elsewhere.LooksUp() {
		isTold := slices.ContainsFunc(k.api.kinds, func(m infer.Made) bool {
			return groupVersionKind(m).GroupKind() == gvk.GroupKind() && (m.When == "" || k.refusal(m) == "")
		})
		switch {
		case isTold, gvk.GroupKind() == schema.GroupKind{Kind: "ConfigMap"}, k.inNoNamespace(gvk.GroupKind()), gvk == obj.Secret && k.entry.Secrets:
		case gvk == obj.Secret:
			all = append(all, fmt.Sprintf("The chart looks up a Secret, which takes secrets: true in %s: no %s will be ready", watchesFile, k.entry.Kind))
		default:
			all = append(all, fmt.Sprintf("The chart looks up a %s: if the operator makes none for another kind, and whoever writes a %s may see what is found, give its ServiceAccount the right to get and list them by hand, or no %[2]s will be ready", gvk.Kind, k.entry.Kind))
		}
	}
	return all
}

// hindrances are what keeps a custom resource that says nothing from being applied, and no word of watches.yaml allows.
func (k kind) hindrances() (all []string) {
	never := "No " + k.entry.Kind + " will be ready"
	if err := k.api.trial.CheckSamples(); err != nil {
		all = append(all, fmt.Sprintf("A %s that says nothing will not be ready: %s: write what it wants into its sample, or pin it (overrideValues) if it is no field", k.entry.Kind, strings.TrimSpace(err.Error())))
	}
	elsewhere, err := k.api.trial.As(infer.OtherRelease) // which some charts have for default
	if err != nil {
		return all
	}
	objects, err := elsewhere.ByDefault()
	if err != nil {
		return all
	}
	for _, r := range objects {
		why := k.hindrance(r.Object, infer.OtherRelease.Namespace)
		if why == "" {
			continue
		}
		what := never
		if infer.IsTest(r.Object) {
			what = "No test of it will succeed"
		}
		text := fmt.Sprintf("%s (%s): %s", what, path.Base(r.File), why)
		if without := k.api.trial.Without(func(o *unstructured.Unstructured) bool {
			return o.GetKind() == r.Object.GetKind() && k.hindrance(o, infer.SampleRelease.Namespace) != ""
		}); without != "" {
			text += "; pinned in overrideValues, " + without + " leaves it out"
		}
		all = append(all, text)
	}
	return all
}

// hindrance is why no custom resource in a namespace may have an object, whatever is allowed, empty if one may.
func (k kind) hindrance(o *unstructured.Unstructured, namespace string) string {
	if k.inNoNamespace(o.GroupVersionKind().GroupKind()) {
		namespaced := func(of schema.GroupResource) bool { return of.Resource != "*" } // of all others, only a cluster knows
		if err := cmp.Or(release.CheckGoes(o), obj.CheckReach(o, namespace, namespaced)); err != nil {
			return err.Error()
		}
	} else if of := o.GetNamespace(); of != "" && of != namespace {
		return obj.Describe(o.GetKind(), of, o.GetName()) + " is outside of its namespace: take metadata.namespace out of the chart, or pin what it is made from to \"{namespace}\""
	}
	return ""
}

// goesInto is whether an object is one that custom resources in a namespace may have there.
func (k kind) goesInto(o *unstructured.Unstructured, namespace string) bool {
	return !k.inNoNamespace(o.GroupVersionKind().GroupKind()) && k.hindrance(o, namespace) == ""
}
