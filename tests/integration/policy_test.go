package integration

import (
	"errors"
	"fmt"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// markOfPublished is the label of the ConfigMap that an operator publishes.
const markOfPublished = "webapp.demo.welcome.domain/published"

// Whoever has the operator's token makes, changes and deletes with it no more than the operator does. Such a
// policy holds for each operator of all tests here, so that each of them shows that it forbids the operator nothing that
// it needs.
func TestPolicyBoundsTheOperatorsToken(t *testing.T) {
	s := newScene(t)
	s.grantJobs()
	s.grant("", "serviceaccounts", "serviceaccounts/token", "pods", "pods/exec") // as a chart's role may hand out
	token, err := env.Token(ctx, operatorNamespace, operatorAccount)
	s.must(err)
	operator, err := client.New(env.As(token), client.Options{Scheme: env.Client.Scheme()})
	s.must(err)
	owner := s.create("hello", kit.Pause(true))
	reference := *metav1.NewControllerRef(owner, owner.GroupVersionKind())
	// deployment is one as the operator makes it, but for a change.
	deployment := func(change func(*appsv1.Deployment, *corev1.PodSpec)) *appsv1.Deployment {
		d := probeDeployment(s.namespace)
		d.OwnerReferences = []metav1.OwnerReference{reference}
		change(d, &d.Spec.Template.Spec)
		return d
	}
	pod := func(change func(*corev1.PodSpec)) *appsv1.Deployment {
		return deployment(func(_ *appsv1.Deployment, p *corev1.PodSpec) { change(p) })
	}
	volume := func(source corev1.VolumeSource) *appsv1.Deployment {
		return pod(func(p *corev1.PodSpec) { p.Volumes = []corev1.Volume{{Name: "v", VolumeSource: source}} })
	}
	container := func(change func(*corev1.Container)) *appsv1.Deployment {
		return pod(func(p *corev1.PodSpec) { change(&p.Containers[0]) })
	}
	// bare is a pod with a volume that the API server takes for the one which it adds.
	bare := func(source corev1.VolumeSource) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: objectMeta(s.namespace, "bare"), Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: image}}}}
		p.OwnerReferences, p.Spec.Volumes = []metav1.OwnerReference{reference}, []corev1.Volume{{Name: "kube-api-access-x", VolumeSource: source}}
		return p
	}
	configMap := func(name string, change func(*corev1.ConfigMap)) *corev1.ConfigMap {
		c := &corev1.ConfigMap{ObjectMeta: objectMeta(s.namespace, name)}
		change(c)
		return c
	}
	secret := corev1.LocalObjectReference{Name: "x"}
	job := batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "a", Image: image}}, HostPID: true,
	}}}
	controlled := metav1.ObjectMeta{Namespace: s.namespace, Name: "probe", OwnerReferences: []metav1.OwnerReference{reference}}

	const noSubresource = "uses no subresource but the status of its custom resources"
	const noOwner, noSecret, noAccount, noHost = "a custom resource of its kinds controls", "use no Secret", "have no ServiceAccount", "nothing of their node"
	forbidden := map[string]struct {
		object client.Object
		says   string
	}{
		"no owner":                    {deployment(func(d *appsv1.Deployment, _ *corev1.PodSpec) { d.OwnerReferences = nil }), noOwner},
		"owner that is no controller": {deployment(func(d *appsv1.Deployment, _ *corev1.PodSpec) { d.OwnerReferences[0].Controller = nil }), noOwner},
		"another controller":          {deployment(func(d *appsv1.Deployment, _ *corev1.PodSpec) { d.OwnerReferences[0].Kind = "ReplicaSet" }), noOwner},
		"controller of another group": {deployment(func(d *appsv1.Deployment, _ *corev1.PodSpec) { d.OwnerReferences[0].APIVersion = "example.com/v1" }), noOwner},
		"hostPath":                    {volume(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}), noHost},
		"inline CSI volume":           {volume(corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "secrets-store.csi.k8s.io"}}), noHost},
		"NFS volume":                  {volume(corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{Server: "a", Path: "/"}}), noHost},
		"host network":                {pod(func(p *corev1.PodSpec) { p.HostNetwork = true }), noHost},
		"host processes":              {pod(func(p *corev1.PodSpec) { p.HostPID = true }), noHost},
		"host IPC":                    {pod(func(p *corev1.PodSpec) { p.HostIPC = true }), noHost},
		"host port":                   {container(func(c *corev1.Container) { c.Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}} }), noHost},
		"privileged":                  {container(func(c *corev1.Container) { c.SecurityContext = &corev1.SecurityContext{Privileged: new(true)} }), noHost},
		"capability": {container(func(c *corev1.Container) {
			c.SecurityContext = &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"SYS_ADMIN"}}}
		}), noHost},
		"privileged init container": {pod(func(p *corev1.PodSpec) {
			p.InitContainers = []corev1.Container{{Name: "i", Image: image, SecurityContext: &corev1.SecurityContext{Privileged: new(true)}}}
		}), noHost},
		"Secret as volume":             {volume(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "x"}}), noSecret},
		"Secret in a projected volume": {volume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{Secret: &corev1.SecretProjection{LocalObjectReference: secret}}}}}), noSecret},
		"Secret as variables": {container(func(c *corev1.Container) {
			c.EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: secret}}}
		}), noSecret},
		"Secret as one variable": {container(func(c *corev1.Container) {
			c.Env = []corev1.EnvVar{{Name: "A", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: secret, Key: "a"}}}}
		}), noSecret},
		"Secret to pull images":     {pod(func(p *corev1.PodSpec) { p.ImagePullSecrets = []corev1.LocalObjectReference{secret} }), noSecret},
		"ServiceAccount":            {pod(func(p *corev1.PodSpec) { p.ServiceAccountName = "admin" }), noAccount},
		"token of a ServiceAccount": {volume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "t"}}}}}), noAccount},
		"a pod with a volume that is called as the API server's, of the node":   {bare(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}), noHost},
		"a pod with a volume that is called as the API server's, of a Secret":   {bare(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "x"}}), noSecret},
		"a pod with a volume that is called as the API server's, with a Secret": {bare(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{Secret: &corev1.SecretProjection{LocalObjectReference: secret}}}}}), noSecret},
		"a Job's pods":             {&batchv1.Job{ObjectMeta: controlled, Spec: job}, noHost},
		"a CronJob's pods":         {&batchv1.CronJob{ObjectMeta: controlled, Spec: batchv1.CronJobSpec{Schedule: "@daily", JobTemplate: batchv1.JobTemplateSpec{Spec: job}}}, noHost},
		"ConfigMap":                {configMap("x", func(*corev1.ConfigMap) {}), noOwner},
		"ConfigMap with our label": {configMap("x", func(c *corev1.ConfigMap) { c.Labels = map[string]string{kit.ManagedBy: "welcome-operator"} }), noOwner},
		"published elsewhere":      {configMap("x", func(c *corev1.ConfigMap) { c.Labels = map[string]string{markOfPublished: "entries"} }), noOwner},
		"record without our label": {configMap("sh.helm.release.v1.x.v1", func(*corev1.ConfigMap) {}), noOwner},
		"Service":                  {&corev1.Service{ObjectMeta: objectMeta(s.namespace, "x"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}, noOwner},
	}
	forbiddenKept := map[string]func(*corev1.ConfigMap){
		"without our label": func(c *corev1.ConfigMap) { c.Labels = nil },
		"that is not kept":  func(c *corev1.ConfigMap) { c.Annotations[policyOfHelm] = "delete" },
		"for no kind":       func(c *corev1.ConfigMap) { delete(c.Annotations, madeForKind) },
		"for another kind":  func(c *corev1.ConfigMap) { c.Annotations[madeForKind] = "Other.example.com" },
		"of somebody else": func(c *corev1.ConfigMap) {
			c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "a", UID: "a", Controller: new(true)}}
		},
	}
	because := func(err error, reason string) error {
		if err == nil {
			return errors.New("it is not denied")
		}
		return says(err.Error(), []string{"ValidatingAdmissionPolicy", reason})
	}
	kept := func(change func(*corev1.ConfigMap)) *corev1.ConfigMap {
		return configMap("kept", func(c *corev1.ConfigMap) {
			c.Labels = map[string]string{kit.ManagedBy: "welcome-operator"}
			c.Annotations = map[string]string{policyOfHelm: "keep", madeForKind: "Welcome." + kit.Group}
			change(c)
		})
	}
	denied := func(name string, err error, says string) {
		t.Helper()
		if wrong := because(err, says); wrong != nil {
			t.Errorf("%s: %v", name, wrong)
		}
	}
	s.await("the policy holds, and the operator has its rights", func() error {
		return because(operator.Create(ctx, &batchv1.Job{ObjectMeta: controlled, Spec: job}, client.DryRunAll), noHost)
	})
	ordinary := bare(corev1.VolumeSource{})
	ordinary.Spec.Volumes = nil
	s.must(operator.Create(ctx, ordinary, client.DryRunAll))
	for name, c := range forbidden {
		denied("create: "+name, operator.Create(ctx, c.object, client.DryRunAll), c.says)
	}
	for name, change := range forbiddenKept {
		denied("create: kept ConfigMap "+name, operator.Create(ctx, kept(change), client.DryRunAll), noOwner)
	}
	for name, object := range map[string]client.Object{
		"kept ConfigMap":         kept(func(*corev1.ConfigMap) {}),
		"Deployment":             deployment(func(*appsv1.Deployment, *corev1.PodSpec) {}),
		"volumes for everybody":  volume(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: secret}}),
		"volume of no kind":      volume(corev1.VolumeSource{}),
		"default ServiceAccount": pod(func(p *corev1.PodSpec) { p.ServiceAccountName = "default" }),
		"capability that everybody has": container(func(c *corev1.Container) {
			c.SecurityContext = &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"NET_BIND_SERVICE"}}}
		}),
		"ConfigMap of a custom resource": configMap("y", func(c *corev1.ConfigMap) { c.OwnerReferences = []metav1.OwnerReference{reference} }),
		"record, whose owner is gone":    configMap("sh.helm.release.v1.y.v1", func(c *corev1.ConfigMap) { c.Labels = map[string]string{kit.ManagedBy: "welcome-operator"} }),
		"event":                          &corev1.Event{ObjectMeta: objectMeta(s.namespace, "e"), InvolvedObject: corev1.ObjectReference{Namespace: s.namespace}},
	} {
		if err := operator.Create(ctx, object, client.DryRunAll); err != nil {
			t.Errorf("create: %s: %v", name, err)
		}
	}

	// Rights that it hands out, it does not use.
	account := &corev1.ServiceAccount{ObjectMeta: objectMeta(s.namespace, "somebody")}
	s.must(env.Client.Create(ctx, account))
	denied("make a token", operator.SubResource("token").Create(ctx, account, &authenticationv1.TokenRequest{}), noSubresource)
	api, err := kubernetes.NewForConfig(env.As(token))
	s.must(err)
	denied("run a command in a pod", api.CoreV1().RESTClient().Post().Namespace(s.namespace).Resource("pods").Name("x").SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Command: []string{"id"}}, scheme.ParameterCodec).Do(ctx).Error(), noSubresource)

	// What is somebody else's stays that.
	foreign := probeDeployment(s.namespace)
	s.must(env.Client.Create(ctx, foreign))
	scaled := foreign.DeepCopy()
	scaled.Spec.Replicas = new(int32(0))
	denied("scale a foreign Deployment", operator.Patch(ctx, scaled, client.MergeFrom(foreign)), noOwner)
	taken := foreign.DeepCopy()
	taken.OwnerReferences = []metav1.OwnerReference{reference}
	denied("take a foreign Deployment", operator.Patch(ctx, taken, client.MergeFrom(foreign)), noOwner)
	denied("delete a foreign Deployment", operator.Delete(ctx, foreign), noOwner)
	restored := foreign.DeepCopy()
	restored.Labels = map[string]string{kit.ManagedBy: "welcome-operator"}
	s.must(env.Client.Patch(ctx, restored, client.MergeFrom(foreign)))
	adopted := restored.DeepCopy()
	adopted.OwnerReferences = []metav1.OwnerReference{reference}
	s.must(operator.Patch(ctx, adopted, client.MergeFrom(restored)))
	s.must(operator.Delete(ctx, adopted))

	// In its own namespace, it tells how it was started, and changes nothing else.
	tells := &corev1.ConfigMap{ObjectMeta: objectMeta(operatorNamespace, published)}
	s.must(client.IgnoreNotFound(env.Client.Delete(ctx, tells.DeepCopy()))) // of another test
	tells.Labels = map[string]string{markOfPublished: "entries"}
	s.must(operator.Create(ctx, tells))
	tells.Data = map[string]string{"a": "b"}
	s.must(operator.Update(ctx, tells))
	denied("delete what is published", operator.Delete(ctx, tells.DeepCopy()), noOwner)
	plain := tells.DeepCopy()
	plain.Labels = nil
	s.must(env.Client.Update(ctx, plain))
	plain.Labels = tells.Labels
	denied("publish in a ConfigMap of somebody else", operator.Update(ctx, plain.DeepCopy()), noOwner)
	s.must(env.Client.Delete(ctx, plain))
	denied("publish under another name", operator.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: s.namespace, Labels: tells.Labels}}), noOwner)

	// What is kept is made, repaired, given an owner and taken from it. It is deleted by nobody who has only
	// the operator's token.
	keep := kept(func(*corev1.ConfigMap) {})
	s.must(operator.Create(ctx, keep))
	for _, owners := range [][]metav1.OwnerReference{{reference}, nil} {
		before := client.MergeFrom(keep.DeepCopy())
		keep.OwnerReferences, keep.Data = owners, map[string]string{"owners": fmt.Sprint(owners)}
		s.must(operator.Patch(ctx, keep, before))
	}
	denied("delete a kept ConfigMap", operator.Delete(ctx, keep), noOwner)

	// A custom resource is its author's.
	patch := func(edit kit.Edit) error {
		welcome := s.welcome("hello")
		before := client.MergeFrom(welcome.DeepCopy())
		edit(welcome)
		return operator.Patch(ctx, welcome, before)
	}
	denied("edit a Welcome", patch(kit.Greet("intruders")), "the spec of custom resources")
	for what, edit := range map[string]kit.Edit{
		"label": func(welcome *unstructured.Unstructured) {
			welcome.SetLabels(map[string]string{kit.ManagedBy: "welcome-operator"})
		},
		"annotate": kit.Annotate(madeForKind, "Welcome."+kit.Group),
		"give an owner to": func(welcome *unstructured.Unstructured) {
			welcome.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "none", UID: "none"}})
		},
	} {
		denied(what+" a Welcome", patch(edit), "the spec of custom resources")
	}
	s.must(patch(func(welcome *unstructured.Unstructured) { welcome.SetFinalizers([]string{"example.com/test"}) }))
	s.must(patch(func(welcome *unstructured.Unstructured) { welcome.SetFinalizers(nil) }))
}

// A webhook or policy that changes custom resources changes them in the operator's own writes, too: of the finalizers of
// one that is new, and of one that goes.
func TestWelcomesThatAdmissionChanges(t *testing.T) {
	s := newScene(t)
	s.operator()
	s.deploy("before")
	by := func() error {
		welcome := s.welcome("before")
		err := env.Client.Update(ctx, welcome, client.DryRunAll)
		if err == nil && welcome.GetAnnotations()["example.com/by"] == "" {
			err = errors.New("it does not say who has changed it")
		}
		return err
	}
	s.mutate(`(has(object.metadata.annotations) ? [] : [JSONPatch{op: "add", path: "/metadata/annotations", value: {"example.com/seen": "yes"}}]) +
[JSONPatch{op: "add", path: "/metadata/annotations/example.com~1by", value: request.userInfo.username}] +
(has(object.metadata.deletionTimestamp) || object.metadata.name == "never" ? [JSONPatch{op: "add", path: "/spec/name", value: request.userInfo.username}] : [])`, "welcomes", by, admissionregistrationv1.Update)
	s.deploy("after")
	s.create("never")
	s.awaitEvent("never", "WriteRefused", "have the webhook or policy that changes this custom resource")
	for _, name := range []string{"before", "after"} {
		s.delete(s.welcome(name))
		s.awaitGone(kit.Welcome(s.namespace, name), name)
	}
}
