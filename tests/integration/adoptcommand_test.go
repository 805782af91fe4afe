package integration

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/release"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/tests/kit"
)

// helmInstall installs a release of the chart with helm, with values or other arguments.
func (s *scene) helmInstall(name string, more ...string) {
	s.Helper()
	args := []string{"install", name, "--set=name=friends,service.type=ClusterIP,image=" + image + ",imagePullPolicy=IfNotPresent"}
	if !slices.ContainsFunc(more, func(arg string) bool { return strings.HasPrefix(arg, "/") }) {
		args = append(args, kit.File("helm-charts/welcome"))
	}
	_, err := s.helmCommand(append(args, more...)...)
	s.must(err)
}

// objectsOf are the Deployment and the Service of a release.
func (s *scene) objectsOf(name string) (objects []client.Object) {
	s.Helper()
	for _, object := range []client.Object{&appsv1.Deployment{}, &corev1.Service{}} {
		s.get(object, name)
		objects = append(objects, object)
	}
	return objects
}

// notAdopted fails if anything was done about a Helm release: its objects were given away, replaced or are
// owned, there is a Welcome, or Helm no longer knows it.
func (s *scene) notAdopted(name string, before []client.Object) {
	s.Helper()
	for i, now := range s.objectsOf(name) {
		if _, given := now.GetAnnotations()[object.AdoptFor]; given || now.GetUID() != before[i].GetUID() || len(now.GetOwnerReferences()) > 0 {
			s.Errorf("%T is %v", now, now)
		}
	}
	if err := s.find(kit.Welcome(s.namespace, name), name); !apierrors.IsNotFound(err) {
		s.Errorf("there is a Welcome %s: %v", name, err)
	}
	if !s.knownToHelm(name) {
		s.Errorf("Helm does not know %s any more", name)
	}
}

// forgeHooks adds hooks to Helm's record of a release, as whoever may write Secrets in its namespace can.
func (s *scene) forgeHooks(name string, manifests ...string) {
	s.Helper()
	record := &corev1.Secret{}
	s.get(record, "sh.helm.release.v1."+name+".v1")
	rel := s.unpack(&corev1.ConfigMap{Data: map[string]string{"release": string(record.Data["release"])}})
	for _, manifest := range manifests {
		rel.Hooks = append(rel.Hooks, &release.Hook{Name: "forged", Kind: "Job", Events: []release.HookEvent{release.HookPreInstall}, Manifest: manifest})
	}
	text, err := json.Marshal(rel)
	s.must(err)
	record.Data["release"] = []byte(pack(text))
	s.must(env.Client.Update(ctx, record))
}

func (s *scene) knownToHelm(name string) bool {
	s.Helper()
	out, err := s.helmCommand("ls", "--filter", "^"+name+"$", "-o", "json")
	s.must(err)
	return strings.Contains(out, `"status":"deployed"`)
}

// adopted fails unless a Welcome has taken over the objects of the release as they were.
func (s *scene) adopted(name string, before []client.Object) {
	s.Helper()
	welcome := s.welcome(name)
	s.must(kit.Ready(welcome))
	if len(welcome.GetAnnotations()) > 0 {
		s.Errorf("the Welcome still has annotations %v", welcome.GetAnnotations())
	}
	for i, now := range s.objectsOf(name) {
		refs := now.GetOwnerReferences()
		if now.GetUID() != before[i].GetUID() || len(refs) != 1 || refs[0].UID != welcome.GetUID() {
			s.Errorf("%T is not what it was, or owned by %v", now, refs)
		}
		if _, given := now.GetAnnotations()[object.AdoptFor]; given {
			s.Errorf("%T has annotations %v", now, now.GetAnnotations())
		}
	}
	was, _ := json.Marshal(before[0].(*appsv1.Deployment).Spec.Template)
	is, _ := json.Marshal(s.objectsOf(name)[0].(*appsv1.Deployment).Spec.Template)
	if string(was) != string(is) {
		s.Errorf("pods were\n%s\nand are\n%s", was, is)
	}
	spec, err := json.Marshal(welcome.Object["spec"])
	s.must(err)
	if want := `{"name":"friends","replicas":1,"service":{"type":"ClusterIP"}}`; string(spec) != want { // with the default of the API
		s.Errorf("the spec is %s, not %s", spec, want)
	}
}

// A plain Helm release becomes a Welcome, by one command, with the objects that it has, and wherever that was
// interrupted. Nothing is done where the operator may not, the caller does not want to, or something would
// have to be made anew.
func TestAdoptCommand(t *testing.T) {
	s := newScene(t)
	controllers, err := env.RunControllers("deployment-controller", "replicaset-controller", "garbage-collector-controller")
	s.must(err)
	t.Cleanup(controllers.Stop)
	s.runPods()
	adopt := func(args ...string) said {
		return s.plugin(append([]string{"adopt", "--operator=" + operatorNamespace}, args...)...)
	}
	s.helmInstall("hello")
	s.awaitPods(1)
	before := s.objectsOf("hello")
	account := s.accountForKinds()
	forbidding := s.publisher(settings{watches: watchesWith("")})
	s.expect(adopt("hello", "--yes"), 1, "allow: {adopt: true}", "in the entry of Welcome")
	forbidding.Stop()
	operator := s.publisher(settings{account: account, watches: watchesWith("  allow: {adopt: true}\n")})

	s.expect(adopt("hello", "--dry-run"), 0, "Helm release hello in "+s.namespace+", revision 1 of chart welcome", "becomes welcome/hello",
		"Left out of its values, for the operator sets them: image, imagePullPolicy\n", "Taken over as they are: Service hello, Deployment hello\n", "No pod starts anew.\n")
	s.expect(adopt("hello"), 1, "Have welcome/hello in "+s.namespace+" take over 2 objects? [y/N]", "nothing was done")
	s.expect(adopt("nobody"), 1, "there is no Helm release nobody")
	s.notAdopted("hello", before)

	s.helmInstall("stray", "--skip-schema-validation", "--set=nothing.here=1")
	if out, err := s.helmCommand("upgrade", "stray", kit.File("helm-charts/welcome"), "--reuse-values", "--skip-schema-validation", "--set=replicas=-1"); err == nil {
		t.Fatal(out)
	}
	s.expect(adopt("stray", "--yes"), 1, "is not deployed, but failed: helm rollback stray 1 -n "+s.namespace)
	_, err = s.helmCommand("rollback", "stray", "1")
	s.must(err)
	s.expect(adopt("stray", "--yes"), 1, `values that are no fields of a Welcome`, `"spec.nothing"`)
	s.notAdopted("stray", s.objectsOf("stray"))
	other := chartIn(watchesWithChart(t, "  selector:\n    matchLabels:\n", "  selector:\n    matchLabels:\n      odd: odd\n"))
	s.helmInstall("odd", other, "--set=podLabels.odd=odd")
	s.expect(adopt("odd", "--yes"), 1, "its selector is not that of the chart")
	s.notAdopted("odd", s.objectsOf("odd"))

	s.awaitPods(3)
	running := s.identities()
	s.expect(adopt("hello", "--yes"), 0, "welcome/hello in "+s.namespace+" is made, and 2 objects given to it", "is Ready", "whose records are deleted")
	s.adopted("hello", before)
	s.sameSince("adopt", running)
	if s.knownToHelm("hello") {
		t.Error("Helm still has records of hello")
	}
	s.expect(adopt("hello", "--yes"), 1, "there is no Helm release hello")

	// Where this is interrupted.
	s.helmInstall("bonjour")
	before = s.objectsOf("bonjour")
	s.expect(adopt("bonjour", "--yes", "--timeout=1ms"), 1, "not done after 1ms", "To go on: kubectl welcome adopt bonjour", "To go back", "--cascade=orphan")
	s.expect(adopt("bonjour", "--yes"), 0, "made of the Helm release already; going on", "is Ready")
	s.adopted("bonjour", before)

	// Somebody goes back, as they are told to.
	s.helmInstall("salut")
	before = s.objectsOf("salut")
	interrupted := adopt("salut", "--yes", "--timeout=1ms")
	s.expect(interrupted, 1, "kubectl delete welcome.webapp.demo.welcome.domain/salut -n "+s.namespace+" --cascade=orphan")
	s.awaitDeployed("salut")
	for line := range strings.Lines(interrupted.notes) {
		if args, isCommand := strings.CutPrefix(line, "  kubectl "); isCommand {
			_, err := s.kubectl("", strings.Fields(args)...)
			s.must(err)
		}
	}
	s.await("its objects are nobody's again", func() error {
		for _, now := range s.objectsOf("salut") {
			if refs := now.GetOwnerReferences(); len(refs) > 0 {
				return fmt.Errorf("%T is owned by %v", now, refs)
			}
			if object.ManagedBy().Matches(labels.Set(now.GetLabels())) {
				return fmt.Errorf("%T has labels %v", now, now.GetLabels())
			}
		}
		return nil
	})
	s.notAdopted("salut", before)
	s.upgradeByHelm("salut", "name=helm")
	if deployment := s.objectsOf("salut")[0].(*appsv1.Deployment); kit.Greeting(deployment) != "helm" || deployment.UID != before[0].GetUID() {
		t.Errorf("it is %v", deployment)
	}
	s.expect(adopt("salut", "--yes"), 0, "Taken over as they are: Service salut, Deployment salut\n", "is Ready")

	// Another custom resource of that name is nobody's to overwrite.
	s.helmInstall("taken")
	s.create("taken", kit.Pause(true))
	s.expect(adopt("taken", "--yes"), 1, "there is a welcome/taken in "+s.namespace+" already")

	// What hooks have left is told with the command to delete it. What somebody has only written into the
	// record is not: an admin would delete what others need.
	s.helmInstall("hooked")
	for name, annotations := range map[string]map[string]string{"left": {release.HookAnnotation: "pre-install"}, "theirs": nil} {
		meta := objectMeta(s.namespace, name)
		meta.Annotations = annotations
		s.must(env.Client.Create(ctx, &corev1.ConfigMap{ObjectMeta: meta}))
	}
	role := &rbacv1.ClusterRole{ObjectMeta: objectMeta("", s.namespace+"-hook")}
	role.Annotations = map[string]string{release.HookAnnotation: "pre-install"}
	s.must(env.Client.Create(ctx, role))
	s.Cleanup(func() { s.must(env.Client.Delete(ctx, role)) })
	s.forgeHooks("hooked", "{apiVersion: v1, kind: ConfigMap, metadata: {name: left}}", "{apiVersion: v1, kind: ConfigMap, metadata: {name: theirs}}",
		"{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: cluster-admin}}",
		"{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: "+role.Name+"}}")
	inTheWay := adopt("hooked", "--yes")
	s.expect(inTheWay, 1, "kubectl delete -n "+s.namespace+" configmap/left clusterrole.rbac.authorization.k8s.io/"+role.Name+"\n", "ConfigMap theirs, ClusterRole cluster-admin are in the way of the hooks in the record")
	if strings.Contains(inTheWay.notes, "configmap/theirs") || strings.Contains(inTheWay.notes, "/cluster-admin") {
		t.Errorf("it tells to delete what no hook has left:\n%s", inTheWay.notes)
	}
	s.notAdopted("hooked", s.objectsOf("hooked"))

	// Where the operator's records would be called as Helm's, nothing is done until they are called otherwise.
	t.Setenv("HELM_DRIVER", "configmap")
	s.helmInstall("ciao")
	before = s.objectsOf("ciao")
	s.expect(adopt("ciao", "--yes"), 1, "in the way of the operator's", "releaseName: kind", "in the entry of Welcome")
	s.notAdopted("ciao", before)
	operator.Stop()
	s.publisher(settings{account: account, watches: watchesWith("  releaseName: kind\n  allow: {adopt: true}\n")})

	// In another shell, where other records are looked for, it goes on with the command that is told only.
	goOn := "To go on: HELM_DRIVER=configmap kubectl welcome adopt ciao -n " + s.namespace + " --operator " + operatorNamespace
	s.expect(adopt("ciao", "--yes", "--timeout=1ms"), 1, "not done after 1ms", goOn)
	t.Setenv("HELM_DRIVER", "")
	s.expect(adopt("ciao", "--yes"), 1, "recorded in a ConfigMap, and not of ciao in a Secret", goOn)
	t.Setenv("HELM_DRIVER", "configmap")
	s.expect(adopt("ciao", "--yes"), 0, "whose records are deleted")
	s.adopted("ciao", before)
}
