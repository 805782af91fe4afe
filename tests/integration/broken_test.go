package integration

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// What is wrong with some entries of watches.yaml does not keep the others from being served, nor the
// operator from being ready. Log, metric and events say what is wrong. When a CRD is installed that was
// missing, the process ends, and the next one serves its kind.
func TestBrokenEntries(t *testing.T) {
	s := newScene(t)
	chart := noteChart(t)
	needy := chartOf(t, map[string]string{"Chart.yaml": "{apiVersion: v2, name: needy, version: 0.1.0, dependencies: [{name: absent, version: 1.0.0}]}"})
	curious := chartOf(t, map[string]string{"Chart.yaml": "{apiVersion: v2, name: curious, version: 0.1.0}", "values.schema.json": `{"$ref": "file:///dev/zero"}`})
	own := settings{
		account: s.accountForKinds(), args: []string{"--leader-elect", "--leader-election-namespace=" + operatorNamespace, patientLease},
		namespaces: []string{s.namespace},
		watches: entryOf("Nowhere", chart+"-nowhere", "") +
			watchesWith("") +
			entryOf("Unset", chart, "  overrideValues: {note: $NOT_SET_ANYWHERE}\n") +
			entryOf("Mistyped", chart, "  reconcilePeriods: 1m\n") +
			entryOf("Welcome", chart, "") +
			entryOf("Needy", needy, "") +
			entryOf("Late", chart, "") +
			"- not an entry\n" +
			"- {group: apiextensions.k8s.io, version: v1, kind: CustomResourceDefinition, chart: " + chart + "}\n" +
			entryOf("Curious", curious, ""),
	}
	broken := map[string][]string{ // by number and kind
		`entry 1 (kind "Nowhere")`:                  {chart + "-nowhere", "no such file"},
		`entry 3 (kind "Unset")`:                    {"NOT_SET_ANYWHERE"},
		`entry 4 (kind "Mistyped")`:                 {"reconcilePeriods"},
		`entry 5 (kind "Welcome")`:                  {"entry 2 has the same kind"},
		`entry 6 (kind "Needy")`:                    {"absent", "helm dependency build"},
		`entry 7 (kind "Late")`:                     {"install its CRD"},
		`entry 8 (kind "")`:                         {"string"},
		`entry 9 (kind "CustomResourceDefinition")`: {"may not see this kind", "cannot list resource"},
		`entry 10 (kind "Curious")`:                 {"chart curious: values.schema.json refers to file:///dev/zero", "copy what that says into the schema"},
	}
	operator := s.ownOperator(own) // which awaits /readyz
	s.deploy("hello")
	for _, entry := range []string{`kind="Nowhere"`, `kind="Late"`, `kind=""`, `entry="5"`} {
		if got := operator.metric(t, "welcome_operator_entry_broken", entry); got != 1 {
			t.Errorf("the metric of %s is %v", entry, got)
		}
	}
	if got := operator.metric(t, "welcome_operator_entry_broken", ""); int(got) != len(broken) {
		t.Errorf("%v entries are broken, not %d", got, len(broken))
	}
	for entry, parts := range broken {
		var told int
		for line := range strings.SplitSeq(operator.Text(), "\n") {
			if strings.Contains(line, strings.ReplaceAll(entry, `"`, `\"`)) {
				told++
				s.must(says(line, append(parts, `"level":"error"`, "the others are served")))
			}
		}
		if told != 1 {
			t.Errorf("the log tells of %s %d times", entry, told)
		}
		s.await("there is an event about "+entry, func() error { return s.tellsOfTheLease("EntryBroken", append(parts, entry)...) })
	}
	s.must(operator.ready())

	s.serveKind("Late")
	s.awaitEnd(operator, `entry 7 (kind "Late")`, "what it lacked is there now")
	operator = s.ownOperator(own)
	s.createOf("Late", "other")
	s.awaitOf("Late", "other", "Ready")
	if got := operator.metric(t, "welcome_operator_entry_broken", ""); int(got) != len(broken)-1 {
		t.Errorf("%v entries are broken, not %d", got, len(broken)-1)
	}
	s.delete(s.of("Late", "other"))
}

// A kind that the API server does not tell of, for the webhook that converts it is gone, keeps no other from
// being served, and is served when it can be.
func TestBrokenConversion(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.serveKind("Converted")
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: objectMeta("", "converteds."+kindsGroup)}
	change := func(edit func(spec *apiextensionsv1.CustomResourceDefinitionSpec)) {
		s.Helper()
		s.must(retry.RetryOnConflict(retry.DefaultRetry, func() error {
			s.get(crd, crd.Name)
			edit(&crd.Spec)
			return env.Client.Update(ctx, crd)
		}))
	}
	change(func(spec *apiextensionsv1.CustomResourceDefinitionSpec) { // what is created from now on has to be converted for who asks for v1
		stored := *spec.Versions[0].DeepCopy()
		stored.Name = "v2"
		spec.Versions[0].Storage = false
		spec.Versions = append(spec.Versions, stored)
	})
	s.await("v2 is served", func() error { return env.Client.List(ctx, kit.List(kindsGroup+"/v2", "Converted")) })
	s.createOf("Converted", "there")
	change(func(spec *apiextensionsv1.CustomResourceDefinitionSpec) {
		spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter, Webhook: &apiextensionsv1.WebhookConversion{
			ConversionReviewVersions: []string{"v1"},
			ClientConfig:             &apiextensionsv1.WebhookClientConfig{URL: new("https://127.0.0.1:9/gone")},
		}}
	})
	s.await("v1 cannot be listed", func() error {
		if env.Client.List(ctx, kit.List(kindsGroup+"/v1", "Converted")) == nil {
			return errors.New("it can")
		}
		return nil
	})
	own := settings{account: s.accountForKinds(), namespaces: []string{s.namespace}, watches: watchesWith("") + entryOf("Converted", noteChart(t), "")}
	operator := s.ownOperator(own)
	s.deploy("hello")
	s.must(says(operator.Text(), []string{`entry 2 (kind \"Converted\")`, "does not tell of this kind", "the others are served"}))
	change(func(spec *apiextensionsv1.CustomResourceDefinitionSpec) { spec.Conversion = nil })
	s.awaitEnd(operator, `entry 2 (kind "Converted")`, "what it lacked is there now")
	s.ownOperator(own)
	s.awaitOf("Converted", "there", "Ready")
	s.delete(s.of("Converted", "there"))
}

// awaitEnd waits until an operator has ended by itself, and says why.
func (s *scene) awaitEnd(operator *process, parts ...string) {
	s.Helper()
	s.await("the process ends", func() error {
		if !operator.HasEnded() {
			return errors.New("it runs")
		}
		return says(operator.Text(), parts)
	})
}

// tellsOfTheLease is nil if there is an event about the operator's lease that has all parts in its message.
func (s *scene) tellsOfTheLease(reason string, parts ...string) error {
	events := &corev1.EventList{}
	if err := env.Client.List(ctx, events, client.InNamespace(operatorNamespace)); err != nil {
		return err
	}
	for _, event := range events.Items {
		about := event.InvolvedObject
		if about.Kind == "Lease" && about.Name == kit.Lease && event.Reason == reason && event.Type == corev1.EventTypeWarning && says(event.Message, parts) == nil {
			return nil
		}
	}
	return fmt.Errorf("there is none %s with %q", reason, parts)
}

// A subchart that is missing is so to those that enable it, and to nobody else.
func TestMissingSubchart(t *testing.T) {
	s := newScene(t)
	s.serveKind("Basket")
	chart := chartOf(t, map[string]string{
		"Chart.yaml":          "{apiVersion: v2, name: basket, version: 0.1.0, dependencies: [{name: apple, alias: fruit, version: 1.0.0, condition: fruit.enabled}]}",
		"values.yaml":         "{fruit: {enabled: false}, note: a}",
		"templates/note.yaml": "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: '{{ .Release.Name }}'}\nspec: {podSelector: {matchLabels: {note: '{{ .Values.note }}'}}}\n",
	})
	s.ownOperator(settings{namespaces: []string{s.namespace}, account: s.accountForKinds(), watches: entryOf("Basket", chart, "")})
	s.createOf("Basket", "empty")
	s.awaitOf("Basket", "empty", "Ready")
	s.createOf("Basket", "full", kit.Set("fruit.enabled", true))
	s.awaitOf("Basket", "full", "Stalled", "ChartError", "charts/ lacks fruit", "helm dependency build", "disable it in the spec")
	s.must(s.isGone(&networkingv1.NetworkPolicy{}, "full"))

	// Nothing of a release that others have enabled it in is changed.
	s.editOf("Basket", "empty", kit.Set("fruit.enabled", true), kit.Set("note", "b"))
	s.awaitOf("Basket", "empty", "Stalled", "ChartError", "charts/ lacks fruit")
	policy := &networkingv1.NetworkPolicy{}
	s.get(policy, "empty")
	if note := policy.Spec.PodSelector.MatchLabels["note"]; note != "a" {
		t.Errorf("the release went on to %q", note)
	}
	for _, name := range []string{"empty", "full"} {
		s.editOf("Basket", name, kit.Set("fruit.enabled", false))
		s.awaitOf("Basket", name, "Ready")
		s.delete(s.of("Basket", name))
	}
}
