package integration

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/release"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/tests/kit"
)

// withSecret is a chart whose pods have a password from a Secret, which the chart generates once and keeps.
const withSecret = `
{{- $own := lookup "v1" "Secret" .Release.Namespace (printf "%s-auth" .Release.Name) }}
apiVersion: v1
kind: Secret
metadata: {name: {{ .Release.Name }}-auth}
stringData:
  greeting: {{ .Values.name | quote }}
  password: {{ dig "data" "password" "" $own | b64dec | default (randAlphaNum 20) | quote }}`

const secrets = "  secrets: true\n"

// logAll sets the highest log level of the operator.
var logAll = []string{"--zap-log-level=10"}

// watchesWithSecret is watches.yaml with a chart that has an additional manifest, and whose pods have
// variables from the Secret in that.
func watchesWithSecret(t *testing.T, manifest string) string {
	t.Helper()
	watches := watchesWithMore(t, manifest)
	file := filepath.Join(regexp.MustCompile(`chart: (\S+)`).FindStringSubmatch(watches)[1], "templates/deployment.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const before = "          ports:\n            - name: http\n"
	changed := strings.Replace(string(text), before, "          envFrom: [{secretRef: {name: '{{ .Release.Name }}-auth'}}]\n"+before, 1)
	if changed == string(text) {
		t.Fatalf("the template has no %q", before)
	}
	if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	return watches
}

// accountForSecrets is an account with the rights that make manifests writes for a watches.yaml
// in which Welcomes may have Secrets.
func (s *scene) accountForSecrets() string {
	s.Helper()
	dir := s.TempDir()
	for _, from := range []string{"helm-charts", "catalog", "config"} {
		s.must(os.CopyFS(filepath.Join(dir, from), os.DirFS(kit.File(from))))
	}
	project, err := os.ReadFile(kit.File("PROJECT"))
	s.must(err)
	s.must(os.WriteFile(filepath.Join(dir, "PROJECT"), project, 0o600))
	text, err := os.ReadFile(kit.File("watches.yaml"))
	s.must(err)
	s.must(os.WriteFile(filepath.Join(dir, "watches.yaml"), append(text, secrets...), 0o600))
	makeManifests(s, dir)

	name := s.accountForKinds()
	role, err := kit.Read[rbacv1.ClusterRole](filepath.Join(dir, "config/rbac/role.yaml"))
	s.must(err)
	role.Name = name + "-generated"
	s.must(env.Client.Create(ctx, &role))
	s.must(env.Client.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: objectMeta("", role.Name),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: operatorNamespace, Name: name}},
	}))
	return name
}

// secret is the content of a Secret in the namespace of the test.
func (s *scene) secret(name string) map[string]string {
	s.Helper()
	secret := &corev1.Secret{}
	s.get(secret, name)
	texts := map[string]string{}
	for key, text := range secret.Data {
		texts[key] = string(text)
	}
	return texts
}

// recordSecrets are the release records of a custom resource that are Secrets, by revision.
func (s *scene) recordSecrets(name string) []corev1.Secret {
	s.Helper()
	list := &corev1.SecretList{}
	s.must(env.Client.List(ctx, list, client.InNamespace(s.namespace), client.MatchingLabels{"owner": "helm", "name": name}, client.MatchingFields{"type": "helm.sh/release.v1"}))
	slices.SortFunc(list.Items, func(a, b corev1.Secret) int { return revisionOf(a.Name) - revisionOf(b.Name) })
	return list.Items
}

// hasRecordSecrets is nil if hello has that many records in Secrets, and none in a ConfigMap.
func (s *scene) hasRecordSecrets(count int) error {
	s.Helper()
	if records := s.recordSecrets("hello"); len(records) != count {
		return fmt.Errorf("there are %d", len(records))
	}
	return s.hasRecords("hello", 0)
}

// helmLists is nil if helm ls and helm history, with that driver, list hello as deployed with that many
// revisions; 0 means not at all.
func (s *scene) helmLists(driver string, revisions int) error {
	s.Helper()
	config := s.helm(driver)
	releases, err := action.NewList(config).Run()
	s.must(err)
	if revisions == 0 {
		if len(releases) > 0 {
			return fmt.Errorf("helm ls says %v", releases)
		}
		return nil
	}
	if len(releases) != 1 || releases[0].Name != "hello" || releases[0].Info.Status != release.StatusDeployed {
		return fmt.Errorf("helm ls says %v", releases)
	}
	history, err := action.NewHistory(config).Run("hello")
	s.must(err)
	if len(history) != revisions {
		return fmt.Errorf("helm history has %d revisions", len(history))
	}
	return nil
}

// keepsToItself fails if a value, or a plain digest of it, can be read by people who may not read Secrets: in
// anything else in the namespace, in events, or in the log of the operator.
func (s *scene) keepsToItself(operator *process, values ...string) {
	s.Helper()
	readable := map[string]string{"the log": operator.LastLines(1 << 30)}
	for _, kind := range []*unstructured.UnstructuredList{kit.Welcomes(), kit.List("v1", "ConfigMap"), kit.List("v1", "Event"), kit.List("apps/v1", "Deployment"), kit.List("v1", "Service")} {
		s.must(env.Client.List(ctx, kind, client.InNamespace(s.namespace)))
		text, err := json.Marshal(kind.Items)
		s.must(err)
		readable[kind.GetKind()] = string(text)
	}
	for _, secret := range append(s.recordSecrets("hello"), corev1.Secret{}) { // people are shown the metadata of Secrets, too
		text, err := json.Marshal(secret.ObjectMeta)
		s.must(err)
		readable["the metadata of "+secret.Name] = string(text)
		if packed := string(secret.Data["release"]); packed != "" {
			values = append(values, s.unpack(&corev1.ConfigMap{Data: map[string]string{"release": packed}}).Manifest, packed[:100])
		}
		values = append(values, string(secret.Data["key"]))
	}
	live := kit.Object("v1", "Secret")
	if s.find(live, "hello-auth") == nil {
		for where, readable := range readable {
			if strings.Contains(readable, object.Fingerprint(live, nil)[:16]) {
				s.Errorf("%s has the plain fingerprint of the Secret", where)
			}
		}
	}
	for _, value := range values {
		if value == "" {
			continue
		}
		encoded := base64.StdEncoding.EncodeToString([]byte(value))
		for _, text := range []string{value, encoded} {
			sum := sha256.Sum256([]byte(text))
			for where, readable := range readable {
				for _, told := range []string{text, hex.EncodeToString(sum[:8])} {
					if strings.Contains(readable, told) {
						s.Errorf("%s has %q of %q", where, told, value)
					}
				}
			}
		}
	}
}

// A chart makes a Secret, for its pods. It is looked after as any other object, its password stays, and
// nobody is told of it who may not read Secrets.
func TestSecrets(t *testing.T) {
	s := newScene(t)
	account := s.accountForSecrets()
	settings := settings{namespaces: []string{s.namespace}, account: account, watches: watchesWithSecret(t, withSecret) + secrets + "  reconcilePeriod: 1h\n", args: logAll}
	before := s.record()
	operator := s.ownOperator(settings)
	cr := s.deploy("hello", kit.Greet("first"))
	s.bringUp("hello")
	secret := &corev1.Secret{}
	s.get(secret, "hello-auth")
	if !metav1.IsControlledBy(secret, cr) {
		t.Errorf("the Secret is owned by %v", secret.OwnerReferences)
	}
	password := s.secret("hello-auth")["password"]
	var guesses []string
	keeps := func(when string, revision int, greeting string) {
		t.Helper()
		s.settled(operator)
		s.must(s.hasRecordSecrets(revision))
		if got := s.secret("hello-auth"); got["password"] != password || len(password) != 20 || got["greeting"] != greeting || len(got) != 2 {
			t.Fatalf("%s, the Secret has %v", when, got)
		}
		s.keepsToItself(operator, append(guesses, password)...)
	}
	keeps("installed", 1, "first")
	s.deploy("twin", kit.Greet("first"))
	inputs := func(name string) string {
		text, _, _ := unstructured.NestedString(s.welcome(name).Object, "status", "release", "inputs")
		return text
	}
	s.await("the status has the inputs", func() error { return says(inputs("twin"), []string{"/"}) })
	if inputs("hello") == inputs("twin") {
		t.Errorf("two that were made from the same have the same digest: %s", inputs("twin"))
	}
	s.delete(s.welcome("twin"))
	s.must(s.helmLists("secret", 1))
	s.must(s.helmLists("configmap", 0))

	s.settled(operator)
	idle, reconciles := s.record(), operator.reconciles(t)
	s.edit("hello", kit.Annotate("example.com/poke", "now"))
	s.await("the edit is reconciled", func() error { return atLeast(operator.reconciles(t)-reconciles, 1) })
	s.settled(operator)
	if requests := idle.of(operator); len(requests) > 0 {
		t.Errorf("an idle reconcile asks the API server: %s", requests)
	}

	// What others do to it is undone, and what they add stays.
	drift := func(change func(*corev1.Secret)) {
		t.Helper()
		s.must(retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			secret := &corev1.Secret{}
			s.get(secret, "hello-auth")
			change(secret)
			return env.Client.Update(ctx, secret)
		}))
		s.await("the password is put back", func() error {
			if got := s.secret("hello-auth"); got["password"] != password {
				return fmt.Errorf("it is %q", got["password"])
			}
			return nil
		})
	}
	guesses = append(guesses, "guessed-by-hand-1")
	drift(func(secret *corev1.Secret) { secret.Data["password"] = []byte("guessed-by-hand-1") })
	s.awaitEvent("hello", "DriftCorrected", `Secret "hello-auth"`, "data.password")
	keeps("changed by hand", 1, "first")
	drift(func(secret *corev1.Secret) {
		delete(secret.Data, "password")
		secret.Annotations["example.com/note"] = "stays"
	})
	keeps("emptied", 1, "first")
	s.get(secret, "hello-auth")
	if secret.Annotations["example.com/note"] != "stays" {
		t.Errorf("somebody's annotation is gone: %v", secret.Annotations)
	}
	s.must(env.Client.Delete(ctx, &corev1.Secret{ObjectMeta: objectMeta(s.namespace, "hello-auth")}))
	s.awaitExists(secret, "hello-auth")
	keeps("deleted", 1, "first")

	s.edit("hello", kit.Greet("second"))
	s.awaitGreeting("hello", "second")
	s.awaitDeployed("hello")
	keeps("upgraded", 2, "second")
	s.must(s.helmLists("secret", 2))
	s.expect(s.plugin("status", "hello"), 2, "Secret/hello-auth  Current")
	history := s.plugin("history", "hello", "-o", "yaml")
	s.expect(history, 0, "values.name: changed", `Secret "hello-auth"`)
	if strings.Contains(history.out, password) || strings.Contains(history.out, "second") {
		t.Errorf("the history shows values:\n%s", history.out)
	}

	operator.Stop()
	started := s.record()
	operator = s.ownOperator(settings)
	s.settled(operator)
	for _, request := range started.of(operator) {
		if request.Writes() {
			t.Errorf("a restart costs %s", request)
		}
	}
	keeps("after a restart", 2, "second")
	s.must(env.Client.Delete(ctx, &corev1.Secret{ObjectMeta: objectMeta(s.namespace, "hello-auth")}))
	s.awaitExists(secret, "hello-auth")
	keeps("deleted after a restart", 2, "second")

	s.delete(s.welcome("hello"))
	s.awaitGone(secret, "hello-auth")
	s.must(s.hasRecordSecrets(0))
	s.keepsToItself(operator, password)

	// Every right that the setting gives was used, and lists and watches ask only for what has the operator's label.
	used := map[string]bool{}
	requests, err := env.Requests(ctx, before.from, before.ofAccount(account))
	s.must(err)
	for _, request := range requests {
		if request.ObjectRef.Resource != "secrets" {
			continue
		}
		used[request.Verb] = true
		if (request.Verb == "list" || request.Verb == "watch") && !strings.Contains(request.RequestURI, "labelSelector=webapp.demo.welcome.domain%2Fmanaged-by%3Dwelcome-operator") {
			t.Errorf("it asks for other Secrets: %s", request.RequestURI)
		}
	}
	for _, verb := range []string{"get", "watch", "create", "update", "patch", "delete"} { // and list, where the API server does not stream lists
		if !used[verb] {
			t.Errorf("it may %s Secrets, and does not", verb)
		}
	}
}

// Without the setting, a chart with a Secret, or that looks one up, is refused by name, nothing is made, and
// no Secret is asked for, whatever the operator may.
func TestSecretsWithoutTheSetting(t *testing.T) {
	s := newScene(t)
	s.serveKind("Vault")
	makes := chartOf(t, map[string]string{
		"Chart.yaml": "{apiVersion: v2, name: vault, version: 0.1.0}",
		"templates/all.yaml": "{{ if .Values.look }}{{ (lookup \"v1\" \"Secret\" .Release.Namespace \"theirs\").kind }}{{ end }}\n" +
			"{{ if .Values.secret }}\napiVersion: v1\nkind: Secret\nmetadata: {name: made, annotations: {{ if .Values.hook }}{helm.sh/hook: {{ .Values.hook }}}{{ else }}{}{{ end }}}\n{{ end }}\n---\n" +
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}'}\n",
	})
	before := s.record()
	account := s.accountForCharts()
	s.ownOperator(settings{namespaces: []string{s.namespace}, account: account, watches: entryOf("Vault", makes, "")})
	refused := map[string][]kit.Edit{"makes": {kit.Set("secret", true)}, "hooks": {kit.Set("secret", true), kit.Set("hook", "pre-install")}, "looks": {kit.Set("look", true)}}
	for name, edits := range refused {
		s.createOf("Vault", name, edits...)
	}
	for name, says := range map[string]string{"makes": `Secret "made"`, "hooks": `Secret "made"`, "looks": "looks up"} {
		s.awaitOf("Vault", name, "Stalled", "NotAllowed", says, "secrets: true", "watches.yaml", "platform team")
		s.must(s.isGone(&corev1.ConfigMap{}, name))
		s.must(s.hasRecords(name, 0))
	}
	s.must(s.isGone(&corev1.Secret{}, "made"))
	// The way out is in the author's hands, too; and what is refused then changes nothing.
	for name := range refused {
		s.editOf("Vault", name, kit.Set("secret", false), kit.Set("look", false))
		s.awaitOf("Vault", name, "Ready")
		s.editOf("Vault", name, kit.Set("secret", true))
		s.awaitOf("Vault", name, "Stalled", "NotAllowed", `Secret "made"`)
		s.must(s.hasRecords(name, 1))
	}
	requests, err := env.Requests(ctx, before.from, before.ofAccount(account))
	s.must(err)
	for _, request := range requests {
		if request.ObjectRef.Resource == "secrets" {
			t.Errorf("it asks for Secrets: %s", request)
		}
	}
}

// An operator that serves kinds with and without Secrets gives them to the first alone. Two kinds have custom
// resources of one name, with records in ConfigMaps and in Secrets.
func TestSecretsOfOneKindOnly(t *testing.T) {
	s := newScene(t)
	s.serveKind("Safe")
	s.serveKind("Shelf")
	chart := chartOf(t, map[string]string{
		"Chart.yaml":         "{apiVersion: v2, name: safe, version: 0.1.0}",
		"templates/all.yaml": "apiVersion: v1\nkind: '{{ .Values.makes }}'\nmetadata: {name: '{{ .Release.Name }}-{{ lower .Values.makes }}'}\n",
	})
	s.ownOperator(settings{namespaces: []string{s.namespace}, account: s.accountForCharts(), watches: entryOf("Safe", chart, secrets) + entryOf("Shelf", chart, "")})
	s.createOf("Safe", "one", kit.Set("makes", "Secret"))
	s.awaitOf("Safe", "one", "Ready")
	s.createOf("Shelf", "one", kit.Set("makes", "Secret"))
	s.awaitOf("Shelf", "one", "Stalled", "NotAllowed", `Secret "one-secret"`, "secrets: true")
	s.editOf("Shelf", "one", kit.Set("makes", "ConfigMap"))
	s.awaitOf("Shelf", "one", "Ready")
	s.must(s.hasRecords("one", 1))
	if records := s.recordSecrets("one"); len(records) != 1 {
		t.Errorf("there are %d records of Safe", len(records))
	}
}

// A chart finds Secrets of its own release, and no others: neither by name nor in a list, in its namespace or
// in another one.
func TestLookupOfSecrets(t *testing.T) {
	s := newScene(t)
	elsewhere := s.newNamespace("elsewhere-")
	for namespace, name := range map[string]string{s.namespace: "theirs", elsewhere: "hello-auth"} {
		s.must(env.Client.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{kit.ManagedBy: "welcome-operator"}}, StringData: map[string]string{"password": "not-for-you-1"},
		}))
	}
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}, account: s.accountForSecrets(), watches: watchesWithSecret(t, withSecret+`
---
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-found}
data:
  own: {{ $own.kind | default "none" }}
  theirs: {{ (lookup "v1" "Secret" .Release.Namespace "theirs").kind | default "none" }}
  record: {{ (lookup "v1" "Secret" .Release.Namespace (printf "sh.helm.release.v1.%s.v1" .Release.Name)).kind | default "none" }}
  elsewhere: {{ (lookup "v1" "Secret" "`+elsewhere+`" "hello-auth").kind | default "none" }}
  all: "{{ range (lookup "v1" "Secret" .Release.Namespace "").items }}{{ .metadata.name }} {{ end }}"
  allElsewhere: "{{ range (lookup "v1" "Secret" "`+elsewhere+`" "").items }}{{ .metadata.name }} {{ end }}"
  everywhere: "{{ range (lookup "v1" "Secret" "" "").items }}{{ .metadata.name }} {{ end }}"`) + secrets})
	s.deploy("other")
	s.deploy("hello", kit.Greet("first"))
	password := s.secret("hello-auth")["password"]
	s.edit("hello", kit.Greet("second"))
	s.awaitGreeting("hello", "second")
	s.awaitDeployed("hello")
	found := &corev1.ConfigMap{}
	s.get(found, "hello-found")
	want := map[string]string{"own": "Secret", "theirs": "none", "record": "none", "elsewhere": "none", "all": "hello-auth ", "allElsewhere": "", "everywhere": ""}
	if fmt.Sprint(found.Data) != fmt.Sprint(want) {
		t.Errorf("the chart finds %v", found.Data)
	}
	if got := s.secret("hello-auth")["password"]; got != password {
		t.Error("another password")
	}
	s.keepsToItself(operator, password, "not-for-you-1")
}

// What a backup had is taken over with its password, though no owner reference says any more whose it is.
func TestSecretRestoredFromABackup(t *testing.T) {
	s := newScene(t)
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}, account: s.accountForSecrets(), watches: watchesWithSecret(t, withSecret) + secrets})
	s.deploy("hello", kit.Greet("before"))
	backup := &corev1.Secret{}
	s.get(backup, "hello-auth")
	s.settled(operator)
	s.delete(s.welcome("hello"))
	s.awaitGone(&corev1.Secret{}, "hello-auth")
	backup.ResourceVersion, backup.UID = "", ""
	backup.OwnerReferences[0].UID = "gone"
	s.must(env.Client.Create(ctx, backup))
	owner := s.deploy("hello", kit.Greet("after"))
	restored := &corev1.Secret{}
	s.get(restored, "hello-auth")
	if !metav1.IsControlledBy(restored, owner) || string(restored.Data["password"]) != string(backup.Data["password"]) || string(restored.Data["greeting"]) != "after" {
		t.Errorf("it is %+v, and was %+v", restored, backup)
	}
}

// A value without quotes that is empty, and so null, is as empty after an upgrade as after the installation.
func TestDataWithNullValues(t *testing.T) {
	s := newScene(t)
	s.ownOperator(settings{namespaces: []string{s.namespace}, account: s.accountForCharts(), watches: watchesWithMore(t, `
apiVersion: v1
kind: Secret
metadata: {name: {{ .Release.Name }}-auth}
data:
  password: {{ "" | b64enc }}
stringData:
  token: {{ "" }}
  greeting: {{ .Values.name }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-files}
data:
  text: {{ "" }}
binaryData:
  icon: {{ "" | b64enc }}
  greeting: {{ .Values.name | b64enc }}`) + secrets})
	s.deploy("hello", kit.Greet("before"))
	for _, greeting := range []string{"before", "after"} {
		s.edit("hello", kit.Greet(greeting))
		s.awaitGreeting("hello", greeting)
		s.awaitDeployed("hello")
		want := map[string]string{"password": "", "token": "", "greeting": greeting}
		if got := s.secret("hello-auth"); !maps.Equal(got, want) {
			t.Errorf("%s the Secret has %q", greeting, got)
		}
		files := &corev1.ConfigMap{}
		s.must(s.find(files, "hello-files"))
		if icon, is := files.BinaryData["icon"]; !is || len(icon) > 0 || string(files.BinaryData["greeting"]) != greeting || !maps.Equal(files.Data, map[string]string{"text": ""}) {
			t.Errorf("%s the ConfigMap has %q and %q", greeting, files.Data, files.BinaryData)
		}
	}
}

// A kind may have Secrets from now on, and has releases: their records become Secrets, and nothing else
// happens, to passwords neither. It goes on where it was interrupted. Without the setting again, each release
// says so and stays as it is, until it is set again.
func TestRecordsMoveIntoSecrets(t *testing.T) {
	s := newScene(t)
	account, watches := s.accountForSecrets(), watchesWithMore(t, withPassword)
	without := settings{namespaces: []string{s.namespace}, account: account, watches: watches}
	with := settings{namespaces: []string{s.namespace}, account: account, watches: watches + secrets, args: logAll}
	operator := s.ownOperator(without)
	s.deploy("hello", kit.Greet("first"))
	s.edit("hello", kit.Greet("second"))
	s.awaitGreeting("hello", "second")
	s.bringUp("hello")
	s.settled(operator)
	s.must(s.hasRecords("hello", 2))
	operator.Stop()
	password, was := s.generated("password"), s.childVersions()
	interrupted := s.records("hello")[0] // one was copied
	s.must(env.Client.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.namespace, Name: interrupted.Name, Labels: interrupted.Labels, Annotations: interrupted.Annotations, OwnerReferences: interrupted.OwnerReferences,
	}, Type: "helm.sh/release.v1", StringData: map[string]string{"release": interrupted.Data["release"], "key": "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}}))
	same := func(when string) {
		t.Helper()
		if got := s.generated("password"); got != password {
			t.Errorf("%s, there is another password", when)
		}
		if now := s.childVersions(); now != was {
			t.Errorf("%s, objects have changed: %s became %s", when, was, now)
		}
	}
	sealed := func() error {
		for _, field := range []string{"digest", "record"} {
			if got, _, _ := unstructured.NestedString(s.welcome("hello").Object, "status", "release", field); !strings.HasPrefix(got, "hmac-") {
				return fmt.Errorf("status.release.%s is %q", field, got)
			}
		}
		return nil
	}

	operator = s.ownOperator(with)
	s.await("the records are Secrets", func() error { return s.hasRecordSecrets(2) })
	s.await("the status knows", sealed)
	s.awaitReady("hello")
	s.settled(operator)
	same("moved")
	s.keepsToItself(operator)
	s.must(s.helmLists("secret", 2))
	s.must(s.helmLists("configmap", 0))
	s.must(env.Client.Delete(ctx, &corev1.ConfigMap{ObjectMeta: objectMeta(s.namespace, "hello-generated")}))
	s.awaitExists(&corev1.ConfigMap{}, "hello-generated")
	s.settled(operator)
	if got := s.generated("password"); got != password {
		t.Error("repaired, there is another password")
	}
	was = s.childVersions()
	operator.Stop()

	// Somebody forges a record in a ConfigMap, who may not write Secrets. That is nobody's by now.
	welcome := s.welcome("hello")
	forged := &corev1.ConfigMap{ObjectMeta: objectMeta(s.namespace, "sh.helm.release.v1.hello.v9"), Data: interrupted.Data}
	forged.Labels = map[string]string{"owner": "helm", "name": "hello", "status": "deployed", kit.ManagedBy: "welcome-operator"}
	forged.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(welcome, welcome.GroupVersionKind())}
	s.must(env.Client.Create(ctx, forged))
	operator = s.ownOperator(with)
	s.awaitGone(&corev1.ConfigMap{}, forged.Name)
	s.settled(operator)
	s.must(s.hasRecordSecrets(2))
	same("with a forged record")
	s.deploy("other")
	operator.Stop()

	operator = s.ownOperator(without)
	s.awaitReason("hello", "NotAllowed", "recorded in Secrets", "secrets: true", "watches.yaml")
	s.edit("hello", kit.Greet("third"))
	s.awaitReason("hello", "NotAllowed", "recorded in Secrets")
	s.settled(operator)
	s.must(s.hasRecordSecrets(2))
	same("without the setting")
	s.delete(s.welcome("other")) // what it has is the garbage collector's
	operator.Stop()

	operator = s.ownOperator(with)
	s.awaitGreeting("hello", "third")
	s.awaitDeployed("hello")
	s.settled(operator)
	s.must(s.hasRecordSecrets(3))
	s.delete(s.welcome("hello"))
	s.awaitGone(&appsv1.Deployment{}, "hello")
	s.must(s.hasRecordSecrets(0))
}

// Where a policy writes over a label of the new records, nobody would find these: the records of before stay.
func TestRecordsThatCannotMoveStay(t *testing.T) {
	s := newScene(t)
	account, watches := s.accountForSecrets(), watchesWithMore(t, withPassword)
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}, account: account, watches: watches})
	s.deploy("hello")
	s.settled(operator)
	password := s.generated("password")
	operator.Stop()
	lift := s.labelOwners(&corev1.Secret{ObjectMeta: objectMeta(s.namespace, "probe")}, "secrets", admissionregistrationv1.Create, admissionregistrationv1.Update)
	s.ownOperator(settings{namespaces: []string{s.namespace}, account: account, watches: watches + secrets})
	s.awaitCondition("hello", "Ready", "False", "has lost the labels name=hello,owner=helm", "webhook or policy")
	s.must(s.hasRecords("hello", 1))
	lift()
	s.await("the records are Secrets", func() error { return s.hasRecordSecrets(1) })
	s.awaitDeployed("hello")
	if got := s.generated("password"); got != password {
		t.Error("there is another password")
	}
}

// childVersions identify the objects of hello, to compare them later: by their UIDs and, for the Service, by
// its version.
func (s *scene) childVersions() string {
	s.Helper()
	var all []string
	for name, object := range map[string]client.Object{"hello": &appsv1.Deployment{}, "hello-generated": &corev1.ConfigMap{}} {
		s.get(object, name)
		all = append(all, fmt.Sprintf("%T %s", object, object.GetUID())) // a status is written by who plays the nodes
	}
	service := &corev1.Service{}
	s.get(service, "hello")
	all = append(all, service.ResourceVersion)
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// Where the right to Secrets is missing, the operator says so at the start, and which setting asks for it. It
// waits, and serves once it has the right.
func TestSecretsWithoutTheRight(t *testing.T) {
	s := newScene(t)
	account := s.accountForKinds()
	operator := s.launch(settings{namespaces: []string{s.namespace}, account: account, watches: watchesWith(secrets)})
	s.await("the operator says what it lacks", func() error {
		return says(operator.Text(), []string{"Nothing can be served yet", "entry 1", "secrets: true", "may not see Secrets", "make manifests images push deploy"})
	})
	if err := operator.ready(); err == nil {
		t.Error("it is ready")
	}
	s.grantTo(account, "", "secrets")
	s.await("the operator is ready", operator.ready)
	s.deploy("hello")
	s.must(s.hasRecordSecrets(1))
}

// What the API server, a webhook or a policy says of a Secret may quote it, and so may an error of a chart.
// People are told what they can act on, and no value.
func TestErrorsQuoteNoSecret(t *testing.T) {
	s := newScene(t)
	const value = "quoted-by-mistake-1"
	encoded := base64.StdEncoding.EncodeToString([]byte(value))
	probe := &corev1.Secret{ObjectMeta: objectMeta(s.namespace, "probe"), StringData: map[string]string{"denied": value}}
	create := func() error { return env.Client.Create(ctx, probe.DeepCopy(), client.DryRunAll) }
	s.deny(admissionregistrationv1.Validation{
		Expression: `!has(object.data) || !("denied" in object.data)`, MessageExpression: `"what is this: " + string(object.data["denied"])`,
	}, admissionregistrationv1.Create, "", "secrets", create)
	s.must(says(fmt.Sprint(create()), []string{"what is this: " + encoded}))
	s.webhook(admissionregistrationv1.Create, "", "secrets", func(_ context.Context, asked *admissionv1.AdmissionRequest) string {
		secret := &corev1.Secret{}
		if err := json.Unmarshal(asked.Object.Raw, secret); err != nil {
			return err.Error()
		}
		if quoted, found := secret.Data["hooked"]; found {
			return "what is that: " + string(quoted)
		}
		return ""
	})
	probe.StringData = map[string]string{"hooked": value}
	s.await("the webhook quotes", func() error { return says(fmt.Sprint(create()), []string{"what is that: " + value}) })
	const makes = `{{ list "quoted" "by" "mistake" "1" | join "-" }}` // so that it is not in the text of the chart
	for name, c := range map[string]struct {
		manifest string
		reason   string
		says     []string
	}{
		"a policy":           {"kind: Secret\nmetadata: {name: it}\nstringData: {denied: " + makes + "}", "Rejected", []string{`Secret "it"`, "ValidatingAdmissionPolicy", s.namespace, "may quote", "or the policy that refuses the object"}},
		"a webhook":          {"kind: Secret\nmetadata: {name: it}\nstringData: {hooked: " + makes + "}", "Rejected", []string{`Secret "it"`, "admission webhook", "objects.example.com", "may quote"}},
		"an invalid field":   {"kind: Secret\nmetadata: {name: it}\ntype: kubernetes.io/dockerconfigjson\nstringData: {.dockerconfigjson: " + makes + "}", "Rejected", []string{`Secret "it"`, "is invalid", "data[.dockerconfigjson]"}},
		"no base64":          {"kind: Secret\nmetadata: {name: it}\ndata: {a: " + makes + "}", "", []string{`Secret "it"`}},
		"a number":           {"kind: Secret\nmetadata: {name: it}\nstringData: {a: 1234567890123}", "", []string{`Secret "it"`}},
		"no kind":            {"kindd: Secret\nmetadata: {name: it}\nstringData: {a: " + makes + "}", "", []string{"makes an object without a kind", "may quote"}},
		"no YAML":            {"kind: Secret\nmetadata: {name: it}\nstringData: {a: *" + makes + "}", "ChartError", []string{"YAML", "may quote"}},
		"a function":         {"kind: Secret\nmetadata: {name: it}\nstringData: {a: {{ list \"quoted\" \"by\" \"mistake\" \"1\" | join \"-\" | mustToDate \"2006\" }}}", "ChartError", []string{"mustToDate", "may quote"}},
		"a template in text": {"kind: Secret\nmetadata: {name: it}\nstringData: {a: {{ tpl (printf \"%s-1{{ fai }}\" (list \"quoted\" \"by\" \"mistake\" | join \"-\")) . }}}", "ChartError", []string{"tpl", "may quote"}},
	} {
		t.Run(name, func(t *testing.T) {
			own := *s
			s := &own
			s.T = t
			operator := s.ownOperator(settings{
				namespaces: []string{s.namespace}, account: s.account(), watches: watchesWithMore(t, "apiVersion: v1\n"+c.manifest) + secrets + "  releaseName: kind\n", args: logAll,
			})
			cr := "cr-" + kit.NameOf(name)
			s.create(cr)
			s.await("it is refused", func() error {
				ready, err := kit.Condition(s.welcome(cr), "Ready")
				if err == nil && (ready.Status != metav1.ConditionFalse || ready.Reason == "Progressing" || c.reason != "" && ready.Reason != c.reason) {
					err = fmt.Errorf("it is %+v", ready)
				}
				return errors.Join(err, says(ready.Message, c.says))
			})
			s.settled(operator)
			s.isNotTold(operator, value, encoded, "1234567890123")
			s.delete(s.welcome(cr))
			operator.Stop()
		})
	}
}

// isNotTold fails if a word is in what people read about Welcomes: statuses, events, and the log of the
// operator.
func (s *scene) isNotTold(operator *process, words ...string) {
	s.Helper()
	told := operator.LastLines(1 << 30)
	for _, kind := range []*unstructured.UnstructuredList{kit.Welcomes(), kit.List("v1", "Event")} {
		s.must(env.Client.List(ctx, kind, client.InNamespace(s.namespace)))
		text, err := json.Marshal(kind.Items)
		s.must(err)
		told += string(text)
	}
	for _, word := range words {
		if at := strings.Index(told, word); at >= 0 {
			s.Errorf("people are told %q", told[max(0, at-200):at+len(word)])
		}
	}
}

// What the API server says of another object may quote all of it, with the values of Secrets that the chart has in its pods.
func TestErrorsQuoteNoObject(t *testing.T) {
	s := newScene(t)
	const value = "quoted-by-mistake-2"
	const container = `containers: [{name: main, image: "example.com/main:1", env: [{name: A, value: {{ list "quoted" "by" "mistake" "2" | join "-" }}}, {name: B, value: {{ .Values.name | quote }}}]}]`
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}, account: s.account(), watches: watchesWithMore(t, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: more}
spec:
  selector: {matchLabels: {more: more}}
  template:
    metadata: {labels: {more: more}, annotations: {a: {{ if eq .Values.name "annotation" }}true{{ else }}"true"{{ end }}}}
    spec: {`+container+`}
{{ if .Values.podLabels.job }}
---
apiVersion: batch/v1
kind: Job
metadata: {name: more}
spec: {template: {spec: {restartPolicy: Never, `+container+`}}}
{{ end }}
{{ if .Values.podLabels.pod }}
---
apiVersion: v1
kind: Pod
metadata: {name: more}
spec: {`+container+`}
{{ end }}`) + secrets + "  recreate: [Job, Pod]\n  allow: {annotations: ['*']}\n", args: logAll})
	s.deploy("hello", kit.Greet("before"))
	s.edit("hello", kit.Greet("annotation"))
	s.awaitReason("hello", "ChartError", `Deployment "more"`, "may quote")
	for _, kind := range []string{"Job", "Pod"} { // which are made anew, and can't be
		labels := map[string]any{strings.ToLower(kind): "x"}
		s.edit("hello", kit.Greet("before"), kit.Set("podLabels", labels))
		s.awaitExists(kit.Object(map[string]string{"Job": "batch/v1", "Pod": "v1"}[kind], kind), "more")
		s.awaitDeployed("hello")
		quota := &corev1.ResourceQuota{ObjectMeta: objectMeta(s.namespace, "quota"), Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
			"count/jobs.batch": resource.MustParse("1"), "pods": resource.MustParse("1"),
		}}}
		s.must(env.Client.Create(ctx, quota))
		quota.Status = corev1.ResourceQuotaStatus{Hard: quota.Spec.Hard, Used: quota.Spec.Hard} // there is no controller that counts
		s.must(env.Client.Status().Update(ctx, quota))
		s.edit("hello", kit.Greet("after"), kit.Set("podLabels", labels))
		s.awaitReason("hello", "QuotaExceeded", kind+` "more"`)
		s.must(env.Client.Delete(ctx, quota))
	}
	s.isNotTold(operator, value)
}

// account is an account with all rights, the same for all of a test.
func (s *scene) account() string {
	s.Helper()
	if err := env.Client.Get(ctx, client.ObjectKey{Namespace: operatorNamespace, Name: s.namespace}, &corev1.ServiceAccount{}); err == nil {
		return s.namespace
	}
	return s.accountForCharts()
}

// Whoever may write Secrets in a namespace can forge a record that is one. They get done no more by it than
// by one that is a ConfigMap.
func TestForgedRecordSecret(t *testing.T) {
	s := newScene(t)
	elsewhere := s.newNamespace("elsewhere-")
	there := s.foreignService(elsewhere, "precious")
	here := s.foreignService(s.namespace, "precious")
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}, account: s.accountForSecrets(), watches: watchesWithSecret(t, withSecret) + secrets, args: logAll})
	s.deploy("hello", kit.Greet("before"))
	s.bringUp("hello")
	password := s.secret("hello-auth")["password"]
	forge := func(change func(record *corev1.Secret, rel *release.Release)) {
		t.Helper()
		s.must(retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			records := s.recordSecrets("hello")
			record := &records[len(records)-1]
			rel := s.unpack(&corev1.ConfigMap{Data: map[string]string{"release": string(record.Data["release"])}})
			change(record, rel)
			text, err := json.Marshal(rel)
			s.must(err)
			record.Data["release"] = []byte(pack(text))
			return env.Client.Update(ctx, record)
		}))
	}
	s.settled(operator)
	// Another key proves nothing, and the key comes back.
	key := s.secret("sh.helm.release.v1.hello.v1")["key"]
	for _, forged := range []string{"", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"} {
		forge(func(record *corev1.Secret, _ *release.Release) { record.Data["key"] = []byte(forged) })
		s.edit("hello", kit.Annotate("example.com/poke", "key "+forged))
		s.await("the key is back", func() error {
			if got := s.secret("sh.helm.release.v1.hello.v1")["key"]; got != key {
				return fmt.Errorf("it is %q", got)
			}
			return nil
		})
	}
	s.settled(operator)
	s.must(s.hasRecordSecrets(1))
	takesMore := func(record *corev1.Secret, rel *release.Release) {
		rel.Manifest += serviceManifest(elsewhere) + serviceManifest(s.namespace)
	}
	forge(takesMore)
	s.edit("hello", kit.Greet("after"))
	s.awaitGreeting("hello", "after")
	s.awaitDeployed("hello")
	s.awaitEvent("hello", "ForeignObject", elsewhere)
	if got := s.secret("hello-auth")["password"]; got != password {
		t.Error("another password")
	}
	// One that cannot be read stops nothing.
	forge(func(_ *corev1.Secret, rel *release.Release) { rel.Manifest = "stringData: *" + password })
	s.edit("hello", kit.Greet("again"))
	s.awaitGreeting("hello", "again")
	s.awaitDeployed("hello")
	s.keepsToItself(operator, password)
	// Without records, the release is made anew over its objects.
	for _, record := range s.recordSecrets("hello") {
		s.must(env.Client.Delete(ctx, &record))
	}
	s.await("there is a record", func() error { return atLeast(len(s.recordSecrets("hello")), 1) })
	s.awaitDeployed("hello")
	if got := s.secret("hello-auth")["password"]; got != password {
		t.Error("without records, another password")
	}
	forge(takesMore)
	s.delete(s.welcome("hello"))
	s.awaitGone(&corev1.Secret{}, "hello-auth")
	s.unharmed(there)
	s.unharmed(here)
}

// Whoever has the token of an operator with Secrets makes, changes and deletes with it only Secrets of custom
// resources, and none that are tokens.
func TestPolicyBoundsSecrets(t *testing.T) {
	s := newScene(t)
	account := s.accountForSecrets()
	s.bound(settings{account: account, watches: watchesWith(secrets)})
	token, err := env.Token(ctx, operatorNamespace, account)
	s.must(err)
	operator, err := client.New(env.As(token), client.Options{Scheme: env.Client.Scheme()})
	s.must(err)
	owner := s.create("hello", kit.Pause(true))
	secret := func(name string, change func(*corev1.Secret)) *corev1.Secret {
		secret := &corev1.Secret{ObjectMeta: objectMeta(s.namespace, name)}
		secret.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, owner.GroupVersionKind())}
		change(secret)
		return secret
	}
	denied := func(what string, err error, reason string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: %v", what, err)
		}
	}
	s.await("the policy holds, and the operator has its rights", func() error {
		err := operator.Create(ctx, secret("x", func(secret *corev1.Secret) { secret.OwnerReferences = nil }), client.DryRunAll)
		if err == nil {
			return errors.New("it is not denied")
		}
		return says(err.Error(), []string{"ValidatingAdmissionPolicy"})
	})
	denied("another controller", operator.Create(ctx, secret("x", func(secret *corev1.Secret) { secret.OwnerReferences[0].Kind = "Other" })), "custom resource of its kinds")
	denied("a ServiceAccount's token", operator.Create(ctx, secret("x", func(secret *corev1.Secret) {
		secret.Type, secret.Annotations = corev1.SecretTypeServiceAccountToken, map[string]string{corev1.ServiceAccountNameKey: "default"}
	})), "no tokens")
	denied("a bootstrap token", operator.Create(ctx, secret("x", func(secret *corev1.Secret) { secret.Type = corev1.SecretTypeBootstrapToken })), "no tokens")
	foreign := &corev1.Secret{ObjectMeta: objectMeta(s.namespace, "theirs")}
	s.must(env.Client.Create(ctx, foreign))
	changed := foreign.DeepCopy()
	changed.Data = map[string][]byte{"a": []byte("b")}
	denied("change a foreign Secret", operator.Update(ctx, changed), "custom resource of its kinds")
	denied("delete a foreign Secret", operator.Delete(ctx, foreign), "custom resource of its kinds")
	mine := secret("mine", func(*corev1.Secret) {})
	s.must(operator.Create(ctx, mine))
	mine.Data = map[string][]byte{"a": []byte("b")}
	s.must(operator.Update(ctx, mine))
	s.must(operator.Delete(ctx, mine))
	record := secret("sh.helm.release.v1.y.v1", func(secret *corev1.Secret) {
		secret.Type, secret.OwnerReferences, secret.Labels = "helm.sh/release.v1", nil, map[string]string{kit.ManagedBy: "welcome-operator"}
	})
	s.must(operator.Create(ctx, record)) // its owner is gone
	s.must(operator.Delete(ctx, record))
	// Its pods may use Secrets.
	pods := probeDeployment(s.namespace)
	pods.OwnerReferences = mine.OwnerReferences
	pods.Spec.Template.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "mine"}}}}
	s.must(operator.Create(ctx, pods))
}

// Who may write Secrets anywhere can put the operator's label on them. What is not the operator's is not kept in memory.
func TestFloodOfLabelledSecretsTakesNoMemory(t *testing.T) {
	s := newScene(t)
	with, profiles := s.profiled(settings{account: s.accountForSecrets(), watches: watchesWithSecret(t, withSecret) + secrets})
	operator := s.ownOperator(with)
	s.deploy("hello")
	s.warm("hello")
	s.settled(operator)
	before := s.held(operator, profiles)
	elsewhere := s.newNamespace("elsewhere-")
	bulk := strings.Repeat("x", 255<<10)
	for i := range 100 {
		for name, change := range map[string]func(*corev1.Secret){
			"data":                     func(*corev1.Secret) {},
			"sh.helm.release.v1.flood": func(secret *corev1.Secret) { secret.Data["key"] = secret.Data["bulk"] },
			"owned": func(secret *corev1.Secret) {
				secret.OwnerReferences = []metav1.OwnerReference{{APIVersion: kit.Group + "/v1", Kind: "Welcome", Name: "none", UID: "none", Controller: new(true)}}
			},
		} {
			secret := &corev1.Secret{ObjectMeta: objectMeta(elsewhere, fmt.Sprintf("%s.v%d", name, i+1)), Data: map[string][]byte{"bulk": []byte(bulk)}}
			secret.Labels, secret.Annotations = map[string]string{kit.ManagedBy: "welcome-operator"}, map[string]string{"a": bulk[:100<<10]}
			change(secret)
			s.must(env.Client.Create(ctx, secret))
		}
	}
	s.deploy("later")
	s.warm("hello", "later")
	s.settled(operator)
	s.takesNoMemory(operator, profiles, before, 30, "300 labelled Secrets of 255 KiB and more")
}
