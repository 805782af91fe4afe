package integration

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httputil"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/release"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/controlplane"
	"demo.welcome.domain/welcome-operator/tests/kit"
)

// withPassword is a chart that generates a password at each rendering, and replaces its pods when that
// changes.
const withPassword = `
{{- $password := randAlphaNum 16 }}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-generated
  annotations: {checksum: {{ $password | sha256sum }}}
data:
  password: {{ $password | quote }}`

// generated is a text in the ConfigMap that the chart of the Welcome hello generates.
func (s *scene) generated(key string) string {
	s.Helper()
	config := &corev1.ConfigMap{}
	s.get(config, "hello-generated")
	return config.Data[key]
}

// killBeforeTheLastStatus kills the operator when it has done what ask asks for, before it can write so into
// the status.
func (s *scene) killBeforeTheLastStatus(operator *process, ask func()) {
	s.Helper()
	asked, letGo := s.holdDeployments()
	ask()
	asked()
	statusAsked, statusLetGo := s.holdStatuses()
	letGo()
	statusAsked()
	operator.Kill()
	statusLetGo()
}

// isRevision fails unless hello has exactly the revisions up to that one.
func (s *scene) isRevision(revision int) {
	s.Helper()
	s.must(s.hasRecords("hello", revision))
}

// What chance or time has put into a release stays as it was applied, whatever happens to its objects, to its
// record and to the operator, until somebody edits the custom resource or its chart.
func TestChanceUpgradesNothing(t *testing.T) {
	s := newScene(t)
	settings := settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, withPassword+`
  rendered: {{ now | unixEpoch | quote }}
  revision: {{ .Release.Revision | quote }}`) + "  reconcilePeriod: 1s\n"}
	operator := s.ownOperator(settings)
	s.deploy("hello")
	s.bringUp("hello")
	password := s.generated("password")
	keeps := func(when string) {
		t.Helper()
		s.isRevision(1)
		if got := s.generated("password"); got != password {
			t.Fatalf("%s: another password", when)
		}
	}

	s.settled(operator)
	before, reconciles := s.record(), operator.reconciles(t)
	s.await("it is reconciled again and again", func() error { return atLeast(operator.reconciles(t)-reconciles, 3) })
	if requests := before.of(operator); len(requests) > 0 {
		t.Errorf("an idle reconcile asks the API server: %s", requests)
	}
	keeps("idle")

	s.must(env.Client.Delete(ctx, &corev1.ConfigMap{ObjectMeta: objectMeta(s.namespace, "hello-generated")}))
	s.awaitExists(&corev1.ConfigMap{}, "hello-generated")
	keeps("deleted")
	s.changeConfigMap("hello-generated", func(data map[string]string) { data["password"] = "guessed" })
	s.await("the password is put back", func() error {
		if s.generated("password") == "guessed" {
			return fmt.Errorf("it is not")
		}
		return nil
	})
	keeps("changed by hand")

	operator.Stop()
	operator = s.ownOperator(settings)
	s.settled(operator)
	keeps("after a restart")

	inputs := s.records("hello")[0].Annotations[inputsOfRecord]
	s.forgeAnnotation(inputsOfRecord, "forged")
	s.await("the record is as it was", func() error {
		if now := s.records("hello")[0].Annotations[inputsOfRecord]; now != inputs {
			return fmt.Errorf("it says %q", now)
		}
		return nil
	})
	s.settled(operator)
	keeps("after its record was forged")

	s.edit("hello", kit.Greet("edited"))
	s.awaitGreeting("hello", "edited")
	s.awaitDeployed("hello")
	s.isRevision(2)
	if s.generated("password") == password {
		t.Error("an upgrade, as Helm makes it, has made no new password")
	}
}

// A chart that makes a password has made one once it has made an object: wherever the operator is killed
// after that, and whatever fails, it goes on with that one, until there is an edit.
func TestChanceInTheMiddle(t *testing.T) {
	password := func(s *scene) string { return s.generated("password") }
	// What is rendered anew differs in the revision, and looks as if it were to expand to a gigabyte.
	chart := withPassword + `
  revision: {{ .Release.Revision | quote }}
  run: "echo started >&2"`
	// Each stops the operator in the middle of what is asked for next, and returns the password that there is.
	middles := map[string]func(s *scene, operator *process, ask func()) string{
		"killed between two objects": func(s *scene, operator *process, ask func()) string {
			asked, letGo := s.holdDeployments()
			ask()
			asked()
			s.killWaiting(operator)
			letGo()
			return password(s)
		},
		"killed before the last status": func(s *scene, operator *process, ask func()) string {
			s.killBeforeTheLastStatus(operator, ask)
			return password(s)
		},
	}
	for middle, stop := range middles {
		t.Run("an installation, "+middle, func(t *testing.T) {
			s := newScene(t)
			only := settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, chart)}
			before := stop(s, s.ownOperator(only), func() { s.create("hello") })
			operator := s.ownOperator(only)
			s.awaitDeployed("hello")
			s.settled(operator)
			if now := password(s); now != before {
				t.Errorf("the password %q became %q", before, now)
			}
			if begun := s.begun(); begun != "" {
				t.Errorf("the status tells of %q still", begun)
			}
			s.edit("hello", kit.Greet("after"))
			s.awaitGreeting("hello", "after")
			s.awaitDeployed("hello")
			if now := password(s); now == before {
				t.Error("the case is broken: an edit has made no new password")
			}
		})
		t.Run("an upgrade, "+middle, func(t *testing.T) {
			s := newScene(t)
			only := settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, chart)}
			first := s.ownOperator(only)
			s.deploy("hello")
			s.settled(first)
			old := password(s)
			before := stop(s, first, func() {
				s.pause()
				s.must(env.Client.Delete(ctx, &appsv1.Deployment{ObjectMeta: objectMeta(s.namespace, "hello")})) // it is made again
				s.edit("hello", kit.Pause(false), kit.Greet("after"))
			})
			if before == old {
				t.Fatal("the case is broken: the upgrade has not begun")
			}
			operator := s.ownOperator(only)
			s.awaitGreeting("hello", "after")
			s.awaitDeployed("hello")
			s.settled(operator)
			if now := password(s); now != before {
				t.Errorf("the password %q became %q", before, now)
			}
		})
	}
	t.Run("killed before the status tells of it", func(t *testing.T) {
		s := newScene(t)
		only := settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, chart)}
		s.create("hello")
		asked, letGo := s.holdStatuses()
		operator := s.ownOperator(only)
		asked()
		s.must(s.isGone(&corev1.ConfigMap{}, "hello-generated"))
		s.killWaiting(operator)
		letGo()
		s.ownOperator(only)
		s.awaitDeployed("hello")
		s.awaitExists(&corev1.ConfigMap{}, "hello-generated")
	})
	t.Run("annotated before the status tells of it", func(t *testing.T) {
		s := newScene(t)
		s.create("hello")
		asked, letGo := s.holdStatuses()
		operator := s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, chart)})
		asked()
		s.edit("hello", kit.Annotate("example.com/backup", "done"))
		letGo()
		s.awaitDeployed("hello")
		if failed := operator.metric(t, "welcome_operator_release_actions_total", `action="install".*result="failure"`); failed > 0 {
			t.Error("an annotation has the installation fail")
		}
	})
	t.Run("refused", func(t *testing.T) {
		s := newScene(t)
		s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, chart)})
		s.deploy("hello")
		s.pause()
		s.must(env.Client.Delete(ctx, &appsv1.Deployment{ObjectMeta: objectMeta(s.namespace, "hello")}))
		lift := s.refuse(admissionregistrationv1.Create, "apps", "deployments", "no more deployments", func() error {
			return env.Client.Create(ctx, probeDeployment(s.namespace), client.DryRunAll)
		})
		s.edit("hello", kit.Pause(false), kit.Greet("after"))
		s.awaitCondition("hello", "ReleaseFailed", "True", "no more deployments")
		begun, _, _ := strings.Cut(s.begun(), "/")
		lift()
		s.awaitGreeting("hello", "after")
		s.awaitDeployed("hello")
		if applied, _, _ := unstructured.NestedString(s.welcome("hello").Object, "status", "release", "digest"); begun == "" || applied != begun {
			t.Errorf("begun was %q, applied is %q", begun, applied)
		}
		if begun := s.begun(); begun != "" {
			t.Errorf("the status tells of %q still", begun)
		}
	})
}

// Where hooks have a part in what chance has made, all of it is made anew: they are to have the same password
// as the objects.
func TestChanceInHooks(t *testing.T) {
	s := newScene(t)
	only := settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, withPassword+`
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-told
  annotations: {helm.sh/hook: "post-install,post-upgrade"}
data:
  password: {{ $password | quote }}`)}
	asked, letGo := s.holdDeployments()
	operator := s.ownOperator(only)
	s.create("hello")
	asked()
	s.killWaiting(operator)
	letGo()
	s.ownOperator(only)
	s.awaitDeployed("hello")
	told := &corev1.ConfigMap{}
	s.awaitExists(told, "hello-told")
	if made := s.generated("password"); told.Data["password"] != made {
		t.Errorf("the hook was told the password %q, which is %q", told.Data["password"], made)
	}
}

// A release that has come to its end is not made again, with other passwords and with its hooks, even if the
// operator is killed before the status says so, or if the record cannot be written as deployed, which Helm tells
// nobody.
func TestChanceAtTheEnd(t *testing.T) {
	chart := withPassword + "\n---\n" + fmt.Sprintf(hookNote, "post-install") + "\n---\n" + fmt.Sprintf(hookNote, "post-upgrade")
	same := func(s *scene, before string) {
		s.Helper()
		operator := s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(s.T, chart)})
		s.awaitDeployed("hello")
		s.settled(operator)
		s.isRevision(1)
		if now := s.generated("password"); now != before {
			s.Errorf("the password %q became %q", before, now)
		}
		s.must(s.isGone(&corev1.ConfigMap{}, "hello-post-upgrade"))
	}
	t.Run("killed before the last status", func(t *testing.T) {
		s := newScene(t)
		operator := s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, chart)})
		s.killBeforeTheLastStatus(operator, func() { s.create("hello") })
		s.awaitExists(&corev1.ConfigMap{}, "hello-post-install")
		same(s, s.generated("password"))
	})
	t.Run("with a record that cannot be written", func(t *testing.T) {
		s := newScene(t)
		probe := &corev1.ConfigMap{ObjectMeta: objectMeta(s.namespace, "probe")}
		s.must(env.Client.Create(ctx, probe))
		lift := s.refuse(admissionregistrationv1.Update, "", "configmaps", "not now", func() error { return env.Client.Update(ctx, probe, client.DryRunAll) })
		operator := s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, chart)})
		s.create("hello")
		s.awaitExists(&corev1.ConfigMap{}, "hello-post-install")
		s.await("the status tells of a release", func() error {
			if digest, _, _ := unstructured.NestedString(s.welcome("hello").Object, "status", "release", "digest"); digest == "" {
				return errors.New("it does not")
			}
			return nil
		})
		before := s.generated("password")
		lift()
		operator.Stop()
		same(s, before)
	})
}

// An edit that fails, and is taken back, leaves the password that there was.
func TestChanceAfterAnEditThatIsTakenBack(t *testing.T) {
	s := newScene(t)
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, withPassword+`
  {{ .Values.name | quote }}: greeted`)})
	s.deploy("hello", kit.Greet("good"))
	password := s.generated("password")
	s.edit("hello", kit.Greet("no key of a ConfigMap"))
	s.awaitCondition("hello", "Ready", "False", "data[no key of a ConfigMap]")
	s.edit("hello", kit.Greet("good"))
	s.awaitDeployed("hello")
	s.settled(operator)
	if got := s.generated("password"); got != password {
		t.Error("another password")
	}
}

// What an upgrade has begun with stays known while it waits for a hook, and says so.
func TestChanceWhileAHookRuns(t *testing.T) {
	s := newScene(t)
	s.grantJobs()
	s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, withPassword+"\n---"+fmt.Sprintf(hookJob, "pre-upgrade"))})
	s.deploy("hello")
	s.edit("hello", kit.Greet("again"))
	s.awaitCondition("hello", "Reconciling", "True", "waits for hook")
	if s.begun() == "" {
		t.Error("the status no longer tells what was begun")
	}
}

// So it does where another version of the chart has failed, which looks something up.
func TestChanceAfterAChartThatIsTakenBack(t *testing.T) {
	s := newScene(t)
	s.setting("one", "")
	before := settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, withPassword)}
	operator := s.ownOperator(before)
	s.deploy("hello")
	s.settled(operator)
	password := s.generated("password")
	operator.Stop()
	operator = s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, `
{{- $x := lookup "v1" "ConfigMap" .Release.Namespace "settings" }}`+withPassword+`
  "no key of a ConfigMap": x`)})
	s.awaitCondition("hello", "Ready", "False", "no key of a ConfigMap")
	operator.Stop()
	operator = s.ownOperator(before)
	s.awaitDeployed("hello")
	s.settled(operator)
	if got := s.generated("password"); got != password {
		t.Error("another password")
	}
}

// What chance has made, and the API server does not take, is made anew: here, the time has to pass that the Welcome names.
func TestChanceThatIsRefused(t *testing.T) {
	s := newScene(t)
	s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, withPassword+`
{{- if ne .Values.name "before" }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-labelled, labels: {lucky: '{{ if lt (now | unixEpoch | int64) (int64 .Values.name) }}no/{{ else }}yes{{ end }}'}}
{{- end }}`)})
	s.create("hello", kit.Greet("before"))
	s.awaitDeployed("hello")
	var after string
	for attempt, refused := 0, false; !refused; attempt++ { // an operator that has come too late was not refused
		if attempt == 5 {
			t.Fatal("nothing is refused")
		}
		after = fmt.Sprint(time.Now().Add(3 * time.Second).Unix())
		s.edit("hello", kit.Greet(after))
		s.await("the upgrade is refused, or done", func() error {
			ready, err := s.condition("hello", "Ready")
			refused = err == nil && says(ready.Message, []string{"a valid label must be"}) == nil
			if refused {
				return nil
			}
			return errors.Join(err, s.greets("hello", after))
		})
	}
	s.awaitGreeting("hello", after)
	s.awaitDeployed("hello")
}

// begun is what the status of the Welcome hello says of an action that did not complete.
func (s *scene) begun() string {
	s.Helper()
	begun, _, _ := unstructured.NestedString(s.welcome("hello").Object, "status", "begun")
	return begun
}

// Where nothing tells any more what was applied, the release is made anew, once, and not object by object
// with other passwords.
func TestChanceWithoutARecord(t *testing.T) {
	s := newScene(t)
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, withPassword)})
	s.deploy("hello")
	s.settled(operator)
	s.forge("hello", func(_ *corev1.ConfigMap, rel *release.Release) {
		rel.Manifest = strings.ReplaceAll(rel.Manifest, "password", "forged")
	})
	s.must(env.Client.Delete(ctx, &corev1.ConfigMap{ObjectMeta: objectMeta(s.namespace, "hello-generated")}))
	s.await("there is another revision", func() error { return s.hasRecords("hello", 2) })
	s.awaitDeployed("hello")
	s.settled(operator)
	s.isRevision(2)
	password := s.generated("password")
	s.must(env.Client.Delete(ctx, &corev1.ConfigMap{ObjectMeta: objectMeta(s.namespace, "hello-generated")}))
	s.awaitExists(&corev1.ConfigMap{}, "hello-generated")
	if got := s.generated("password"); got != password || password == "" {
		t.Errorf("the password %q became %q", password, got)
	}
	s.isRevision(2)
}

// withLookups is a chart that looks up a ConfigMap of somebody else, and its own, whose password it keeps.
const withLookups = `
{{- $settings := lookup "v1" "ConfigMap" .Release.Namespace "settings" }}
{{- $own := lookup "v1" "ConfigMap" .Release.Namespace (printf "%s-generated" .Release.Name) }}
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-generated}
data:
  setting: {{ dig "data" "setting" "none" $settings | quote }}
  password: {{ dig "data" "password" (randAlphaNum 16) $own | quote }}`

func (s *scene) setting(value, unused string) {
	s.Helper()
	settings := &corev1.ConfigMap{ObjectMeta: objectMeta(s.namespace, "settings"), Data: map[string]string{"setting": value, "unused": unused}}
	if err := env.Client.Create(ctx, settings.DeepCopy()); err != nil {
		s.must(env.Client.Update(ctx, settings))
	}
}

func (s *scene) hasSetting(value string) error {
	s.Helper()
	if got := s.generated("setting"); got != value {
		return fmt.Errorf("the setting is %q, not %q", got, value)
	}
	return nil
}

// An edit has what a chart looks up looked up by the upgrade, and after that no more before the next period.
func TestLookupOfAnEdit(t *testing.T) {
	s := newScene(t)
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, withLookups)})
	s.deploy("hello")
	s.settled(operator)
	before := s.record()
	s.edit("hello", kit.Greet("friends"))
	s.awaitGreeting("hello", "friends")
	s.awaitDeployed("hello")
	s.settled(operator)
	asked := slices.DeleteFunc(before.of(operator), func(one controlplane.Request) bool { return one.ObjectRef.Name != "settings" })
	if len(asked) != 1 {
		t.Errorf("%d lookups, not 1: %s", len(asked), asked)
	}
}

// What a chart looks up is looked up again at each period, and an upgrade follows if the chart makes
// something else of it. What it finds of its own release is no reason, and what somebody changed there by
// hand is put back.
func TestLookup(t *testing.T) {
	s := newScene(t)
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, withLookups) + "  reconcilePeriod: 1s\n"})
	s.deploy("hello")
	s.bringUp("hello")
	password := s.generated("password")
	s.must(s.hasSetting("none"))

	before, reconciles := s.record(), operator.reconciles(t)
	s.await("it is reconciled again and again", func() error { return atLeast(operator.reconciles(t)-reconciles, 3) })
	for _, request := range before.of(operator) {
		// Helm reads the record of the release, for a dry run.
		if looks := []string{"", "settings", "hello-generated", "sh.helm.release.v1.hello.v1"}; request.Writes() || !slices.Contains(looks, request.ObjectRef.Name) {
			t.Errorf("an idle reconcile asks for more than what the chart looks up: %s %s", request, request.ObjectRef.Name)
		}
	}
	s.isRevision(1)

	s.changeConfigMap("hello-generated", func(data map[string]string) { data["password"] = "guessed" })
	s.await("the password is put back", func() error {
		if got := s.generated("password"); got != password {
			return fmt.Errorf("it is %q", got)
		}
		return nil
	})
	s.isRevision(1)

	s.setting("one", "a")
	s.await("the setting is found", func() error { return s.hasSetting("one") })
	s.awaitDeployed("hello")
	s.isRevision(2)
	if got := s.generated("password"); got != password {
		t.Errorf("the password became %q, although the chart keeps it", got)
	}

	digest := s.records("hello")[1].Annotations[kit.Group+"/lookups"]
	s.setting("one", "b")
	s.await("the record says what was looked up", func() error {
		if s.records("hello")[1].Annotations[kit.Group+"/lookups"] == digest {
			return fmt.Errorf("it still has %s", digest)
		}
		return nil
	})
	s.settled(operator)
	s.isRevision(2)
}

// What a chart looks up may be what somebody has deleted: a release that cannot be rendered for that is
// repaired all the same.
func TestLookupOfWhatIsGone(t *testing.T) {
	s := newScene(t)
	settings := settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, `
{{- if and .Release.IsUpgrade (not (lookup "v1" "ConfigMap" .Release.Namespace (printf "%s-generated" .Release.Name))) }}{{ fail "the password is gone" }}{{ end }}
{{- if not (lookup "v1" "ConfigMap" .Release.Namespace "settings") }}{{ fail "the settings are gone" }}{{ end }}`+withLookups) + "  reconcilePeriod: 1s\n"}
	s.setting("one", "")
	operator := s.ownOperator(settings)
	s.deploy("hello")
	s.edit("hello", kit.Greet("again")) // an installation looks for no password
	s.awaitGreeting("hello", "again")
	s.awaitDeployed("hello")
	s.settled(operator)
	password := s.generated("password")

	operator.Stop()
	s.must(env.Client.Delete(ctx, &corev1.ConfigMap{ObjectMeta: objectMeta(s.namespace, "hello-generated")}))
	s.ownOperator(settings)
	s.awaitExists(&corev1.ConfigMap{}, "hello-generated")
	if got := s.generated("password"); got != password {
		t.Errorf("the password %q became %q", password, got)
	}

	s.must(env.Client.Delete(ctx, &corev1.ConfigMap{ObjectMeta: objectMeta(s.namespace, "settings")}))
	s.awaitCondition("hello", "Ready", "False", "the settings are gone")
	s.deleteService("hello")
	s.awaitExists(&corev1.Service{}, "hello")
	s.setting("one", "")
	s.awaitDeployed("hello")
}

// An edit by which a chart that looks things up does without an object that is somebody else's by now is applied.
func TestLookupBesideWhatIsSomebodyElses(t *testing.T) {
	s := newScene(t)
	s.setting("one", "")
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, `
{{- $x := lookup "v1" "ConfigMap" .Release.Namespace "settings" }}
{{- if eq .Values.name "extra" }}
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-extra}
{{- end }}`)})
	s.deploy("hello", kit.Greet("extra"))
	s.settled(operator)
	extra := &corev1.ConfigMap{}
	s.get(extra, "hello-extra")
	extra.OwnerReferences = nil
	s.must(env.Client.Update(ctx, extra))
	s.awaitReason("hello", "ObjectInTheWay", "hello-extra")
	s.edit("hello", kit.Greet("without"))
	s.awaitGreeting("hello", "without")
	s.awaitDeployed("hello")
}

// Nothing is found outside of the namespace of the Welcome, whatever the operator may see: its author may say
// what is looked up. So it is where the API server is behind a path of a proxy, as those of Rancher are.
func TestLookupOfOthers(t *testing.T) {
	for name, path := range map[string]string{"at the root": "", "behind a path": "/clusters/one"} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			other := s.newNamespace("other")
			for _, namespace := range []string{s.namespace, other} {
				s.must(env.Client.Create(ctx, &corev1.ConfigMap{ObjectMeta: objectMeta(namespace, "settings"), Data: map[string]string{"of": namespace}}))
			}
			s.ownOperator(settings{namespaces: []string{s.namespace}, account: s.accountForCharts(), through: func(login *rest.Config) {
				s.through(login, func(forward *httputil.ReverseProxy) http.Handler { return http.StripPrefix(path, forward) })
				login.Host += path
			}, watches: watchesWithMore(t, `
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-found}
data:
  own: {{ lookup "v1" "ConfigMap" .Release.Namespace "settings" | dig "data" "of" "" | quote }}
  foreign: {{ lookup "v1" "ConfigMap" .Values.name "settings" | toJson | quote }}
  foreignList: {{ lookup "v1" "ConfigMap" .Values.name "" | toJson | quote }}
  all: {{ lookup "v1" "ConfigMap" "" "" | toJson | quote }}
  cluster: {{ lookup "v1" "Namespace" "" .Values.name | toJson | quote }}
  clusterList: {{ lookup "v1" "Node" "" "" | toJson | quote }}
`)})
			s.deploy("hello", kit.Greet(other))
			found := &corev1.ConfigMap{}
			s.get(found, "hello-found")
			want := map[string]string{"own": s.namespace, "foreign": "{}", "foreignList": "{}", "all": "{}", "cluster": "{}", "clusterList": "{}"}
			if !maps.Equal(found.Data, want) {
				t.Errorf("the chart found %v, not %v", found.Data, want)
			}
		})
	}
}

// What keeps changing makes three revisions, and no more.
func TestUpgradeLoop(t *testing.T) {
	s := newScene(t)
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, withLookups) + "  reconcilePeriod: 1s\n"})
	s.deploy("hello")
	s.edit("hello", kit.Greet("first")) // from here on nobody edits it
	s.awaitGreeting("hello", "first")
	s.bringUp("hello") // what is not ready is upgraded last
	for i := range 3 {
		s.setting(fmt.Sprint(i), "")
		s.await("the setting is found", func() error { return s.hasSetting(fmt.Sprint(i)) })
		s.awaitDeployed("hello")
	}
	s.setting("last", "")
	s.awaitCondition("hello", "Stalled", "True", "3 revisions within 10m0s", "configmaps settings in namespace "+s.namespace)
	s.settled(operator)
	s.must(s.hasSetting("2"))
	s.deleteService("hello")
	s.awaitExists(&corev1.Service{}, "hello") // drift is repaired all the same

	s.edit("hello", kit.Greet("second"))
	s.await("an edit goes on", func() error { return s.hasSetting("last") })
	s.awaitGreeting("hello", "second")
	s.awaitCondition("hello", "Stalled", "False")
}

// A new kind in the cluster makes a revision where the chart makes something else of it, and none where it
// does not, although it renders another password each time.
func TestNewKindOfTheCluster(t *testing.T) {
	s := newScene(t)
	settings := settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, withPassword+`
  known: {{ .Capabilities.APIVersions.Has "`+s.namespace+`.known.example.com/v1" | quote }}
  rendered: {{ now | unixEpoch | quote }}
  revision: {{ .Release.Revision | quote }}
  installed: {{ .Release.IsInstall | quote }}`)}
	operator := s.ownOperator(settings)
	s.deploy("hello")
	s.bringUp("hello")
	s.settled(operator)
	password := s.generated("password")
	restart := func() {
		t.Helper()
		operator.Stop()
		operator = s.ownOperator(settings) // it reads them at the start, and every 5 minutes
		s.await("it is reconciled", func() error { return atLeast(operator.reconciles(t), 1) })
		s.settled(operator)
	}
	s.kind(s.namespace + ".unknown.example.com") // of this run: a CRD takes a while to go
	restart()
	s.isRevision(1)
	if got := s.generated("password"); got != password {
		t.Error("another password")
	}
	before := s.record()
	restart()
	for _, request := range before.of(operator) {
		if strings.HasPrefix(request.ObjectRef.Name, "sh.helm.release") {
			t.Errorf("it was rendered and compared again: %s", request)
		}
	}
	s.kind(s.namespace + ".known.example.com")
	restart()
	// A new process may let those go first that it sees to be ready before this one.
	s.await("there is another revision", func() error { return s.hasRecords("hello", 2) })
	s.awaitDeployed("hello")
	s.settled(operator)
	s.isRevision(2)
	if got := s.generated("known"); got != "true" {
		t.Errorf("the chart is told that the new kind is there: %q", got)
	}
}

// kind makes a kind in that group, until the test ends.
func (s *scene) kind(group string) {
	s.Helper()
	preserve := true
	kind := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: objectMeta("", "things."+group),
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped, Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "things", Kind: "Thing"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{
				OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &preserve},
			}}},
		},
	}
	s.must(env.Client.Create(ctx, kind))
	s.Cleanup(func() { s.must(env.Client.Delete(ctx, kind)) })
	s.awaitServed(group+"/v1", "Thing")
}

// What watches.yaml allows decides what is refused, and nothing of what a chart makes: where only that
// changes, what was applied stays, with its password, and no hook runs.
func TestChanceWhereMoreIsAllowed(t *testing.T) {
	const none, some, others = "", "  allow: {annotations: ['example.com/*']}\n", "  allow: {hosts: ['*.example.com'], pods: [host]}\n"
	// begin starts an operator, and another one in its place.
	begin := func(s *scene, chart string) (allowing func(allow string) *process) {
		watches := watchesWithMore(s.T, chart)
		var operator *process
		return func(allow string) *process {
			s.Helper()
			if operator != nil {
				operator.Stop()
			}
			operator = s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watches + allow})
			return operator
		}
	}
	t.Run("deployed", func(t *testing.T) {
		s := newScene(t)
		allowing := begin(s, withPassword+"\n---\n"+fmt.Sprintf(hookNote, "post-upgrade"))
		allowing(none)
		s.deploy("hello")
		s.bringUp("hello")
		password := s.generated("password")
		for _, allow := range []string{some, others, none} {
			inputs := s.records("hello")[0].Annotations[inputsOfRecord]
			operator := allowing(allow)
			s.await("the record says what is allowed", func() error {
				if s.records("hello")[0].Annotations[inputsOfRecord] == inputs {
					return fmt.Errorf("nothing of %q", allow)
				}
				return nil
			})
			s.settled(operator)
			s.isRevision(1)
			if now := s.generated("password"); now != password {
				t.Fatalf("%q: the password %q became %q", allow, password, now)
			}
			s.must(s.isGone(&corev1.ConfigMap{}, "hello-post-upgrade"))
			before := s.record()
			operator = allowing(allow)
			s.settled(operator)
			for _, request := range before.of(operator) {
				if strings.HasPrefix(request.ObjectRef.Name, "sh.helm.release") {
					t.Errorf("%q: it was rendered and compared again: %s", allow, request)
				}
			}
		}
	})
	t.Run("recorded by an older version", func(t *testing.T) {
		s := newScene(t)
		allowing := begin(s, withPassword)
		allowing(some)
		s.deploy("hello")
		s.bringUp("hello")
		password := s.generated("password")
		s.forge("hello", func(record *corev1.ConfigMap, _ *release.Release) { delete(record.Annotations, kit.Group+"/made-from") })
		s.settled(allowing(some))
		s.settled(allowing(others))
		s.isRevision(1)
		if now := s.generated("password"); now != password {
			t.Errorf("the password %q became %q", password, now)
		}
	})
	t.Run("in the middle", func(t *testing.T) {
		s := newScene(t)
		allowing := begin(s, withPassword)
		operator := allowing(some)
		asked, letGo := s.holdDeployments()
		s.create("hello")
		asked()
		s.killWaiting(operator)
		letGo()
		password := s.generated("password")
		operator = allowing(others)
		s.awaitDeployed("hello")
		s.settled(operator)
		if now := s.generated("password"); now != password {
			t.Errorf("the password %q became %q", password, now)
		}
	})
	t.Run("after an edit that is taken back", func(t *testing.T) {
		s := newScene(t)
		allowing := begin(s, withPassword+`
  {{ .Values.name | quote }}: greeted`)
		allowing(some)
		s.deploy("hello", kit.Greet("good"))
		password := s.generated("password")
		s.edit("hello", kit.Greet("no key of a ConfigMap"))
		s.awaitCondition("hello", "Ready", "False", "data[no key of a ConfigMap]")
		operator := allowing(others)
		s.edit("hello", kit.Greet("good"))
		s.awaitDeployed("hello")
		s.settled(operator)
		if now := s.generated("password"); now != password {
			t.Errorf("the password %q became %q", password, now)
		}
	})
}

// A subchart that is packed anew, as by whoever builds the operator's image, is no reason for another password.
func TestChanceAndASubchartThatIsPackedAnew(t *testing.T) {
	s := newScene(t)
	s.serveKind("Packer")
	chart := chartOf(t, map[string]string{
		"Chart.yaml":            "{apiVersion: v2, name: packer, version: 0.1.0, dependencies: [{name: packed, version: 0.1.0}]}",
		"templates/config.yaml": withPassword,
	})
	packed := chartOf(t, map[string]string{
		"Chart.yaml":            "{apiVersion: v2, name: packed, version: 0.1.0}",
		"templates/config.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}-packed'}\n",
	})
	pack := func() []byte {
		_, err := kit.Output(kit.Tool(ctx, "helm", "package", packed, "--destination", filepath.Join(chart, "charts")))
		s.must(err)
		text, err := os.ReadFile(filepath.Join(chart, "charts/packed-0.1.0.tgz"))
		s.must(err)
		return text
	}
	before := pack()
	packing := settings{namespaces: []string{s.namespace}, account: s.accountForCharts(), watches: entryOf("Packer", chart, "")}
	operator := s.ownOperator(packing)
	s.createOf("Packer", "hello")
	s.awaitOf("Packer", "hello", "Ready")
	s.settled(operator)
	operator.Stop()
	password := s.generated("password")
	s.await("its time is another one", func() error {
		if slices.Equal(pack(), before) {
			return errors.New("it has the same bytes")
		}
		return nil
	})
	operator = s.ownOperator(packing)
	s.settled(operator)
	if s.generated("password") != password {
		t.Error("it has another password")
	}
	s.must(s.hasRecords("hello", 1))
}
