package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/kustomize/api/konfig"

	"demo.welcome.domain/welcome-operator/config"
	"demo.welcome.domain/welcome-operator/internal/object"
	boot "demo.welcome.domain/welcome-operator/internal/operator"
	"demo.welcome.domain/welcome-operator/internal/release"
)

// operatorLabel is the label of operators' Deployments, set in config/manager.
const operatorLabel = "webapp.demo.welcome.domain/operator"

// wholeCluster is the advice for callers without rights in all namespaces.
const wholeCluster = "The doctor looks at the whole cluster: have somebody run it who may"

// patient is what the doctor examines. It is read once.
type patient struct {
	*cluster
	client.Client
	operators []operator
	// needs are the CRDs, roles and bindings that an operator needs, from files or, without files, from
	// config/.
	needs []*unstructured.Unstructured
	files []string
	// customResources are those of all kinds that are served, as far as these could be listed.
	customResources []unstructured.Unstructured
	// unlisted is why customResources lacks some kinds, or all.
	unlisted error
}

// operator is the Deployment of an operator.
type operator struct {
	appsv1.Deployment
	// options are what its flags and environment variables say.
	options boot.Options
	// serves are the kinds of the custom resources whose status names this operator.
	serves sets.Set[schema.GroupKind]
	// version that it has published, empty if it has not, or the caller may not read that.
	version string
	// refused is why the operator of this plugin's version would not start with these flags. One of another
	// version might.
	refused error
	// unread is why its environment is not known.
	unread error
}

// newOperator parses a Deployment's flags and environment variables as the operator does. What of these is in a
// ConfigMap, it takes from there.
func newOperator(ctx context.Context, api client.Reader, deployment appsv1.Deployment) operator {
	o, template := operator{Deployment: deployment}, deployment.Spec.Template
	manager := o.manager()
	read := func(configMap string) map[string]string {
		read := &corev1.ConfigMap{}
		o.unread = errors.Join(o.unread, client.IgnoreNotFound(api.Get(ctx, client.ObjectKey{Namespace: deployment.Namespace, Name: configMap}, read)))
		return read.Data
	}
	o.options, o.refused = boot.ParseOptions(manager.Args, func(name string) (value string) {
		for _, from := range manager.EnvFrom {
			if key, found := strings.CutPrefix(name, from.Prefix); found && from.ConfigMapRef != nil {
				value = cmp.Or(read(from.ConfigMapRef.Name)[key], value)
			}
		}
		for _, variable := range manager.Env {
			if variable.Name != name {
				continue
			}
			value = variable.Value
			switch from := variable.ValueFrom; {
			case from != nil && from.ConfigMapKeyRef != nil:
				value = read(from.ConfigMapKeyRef.Name)[from.ConfigMapKeyRef.Key]
			case from == nil || from.FieldRef == nil:
			case from.FieldRef.FieldPath == "metadata.namespace":
				value = deployment.Namespace
			default: // OLM sets WATCH_NAMESPACE from an annotation
				key := strings.TrimSuffix(strings.TrimPrefix(from.FieldRef.FieldPath, "metadata.annotations['"), "']")
				value = template.Annotations[key]
			}
		}
		return value
	})
	from := &corev1.ConfigMap{}
	if err := api.Get(ctx, client.ObjectKey{Namespace: o.leaseNamespace(), Name: o.options.LeaderElectionID}, from); err == nil {
		if published, err := boot.ReadPublished(from); err == nil {
			o.version = published.Version
		}
	}
	return o
}

// otherVersion says that one of these operators has another version than the plugin, which only knows what an operator of
// its own version needs. It is nil with files, which may be those of any version.
func (p *patient) otherVersion(operators ...operator) error {
	for _, o := range operators {
		if other := otherVersion(o.String(), o.version); other != "" && len(p.files) == 0 {
			return errors.New(other)
		}
	}
	return nil
}

// manager is the container that is the operator.
func (o operator) manager() corev1.Container {
	containers := o.Spec.Template.Spec.Containers
	return containers[max(0, slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == "manager" }))]
}

// leaseNamespace is the namespace of the operator's lease.
func (o operator) leaseNamespace() string {
	return cmp.Or(o.options.LeaderElectionNamespace, o.Namespace)
}

// claim is how the status of custom resources names the operator.
func (o operator) claim() string { return o.leaseNamespace() + "/" + o.options.LeaderElectionID }

func (o operator) String() string { return o.Namespace + "/" + o.Name }

// account is the operator's user name at the API server.
func (o operator) account() string {
	return "system:serviceaccount:" + o.Namespace + ":" + cmp.Or(o.Spec.Template.Spec.ServiceAccountName, "default")
}

// logs is the command that shows the end of the operator's log.
func (o operator) logs() string {
	return fmt.Sprintf("kubectl -n %s logs deployment/%s --all-pods --tail=20", o.Namespace, o.Name)
}

// watches is whether the operator watches a namespace.
func (o operator) watches(namespace string) bool {
	return len(o.options.WatchNamespaces) == 0 || slices.Contains(o.options.WatchNamespaces, namespace)
}

// endsDeletionOf is whether the operator runs and serves a custom resource: it has claimed it, or takes it over where
// the one that has is gone. A shard takes over only what it selects, which is not known here.
func (o operator) endsDeletionOf(obj *unstructured.Unstructured) bool {
	serves := o.serves.Has(obj.GroupVersionKind().GroupKind())
	switch claimed := release.ClaimedBy(obj); {
	case o.Status.AvailableReplicas == 0 || !o.watches(obj.GetNamespace()):
		return false
	case claimed == "":
		return serves || len(o.serves) == 0
	default:
		return o.claim() == claimed || serves && o.options.Shard == ""
	}
}

// examine reads what all checks need.
func (c *cluster) examine(ctx context.Context, files []string) (*patient, error) {
	api, err := c.client()
	if err != nil {
		return nil, err
	}
	p := &patient{cluster: c, Client: api, files: files}
	if p.needs, err = needs(files); err != nil {
		return nil, err
	}
	deployments := &appsv1.DeploymentList{}
	if err := api.List(ctx, deployments, client.HasLabels{operatorLabel}); err != nil {
		if apierrors.IsForbidden(err) {
			err = fmt.Errorf("%w\n%s", err, wholeCluster)
		}
		return nil, fmt.Errorf("look for operators: %w", err)
	}
	p.customResources, p.unlisted = c.find(ctx, selection{all: true, advice: wholeCluster}, nil)
	p.operators = p.meant(ctx, deployments.Items)
	return p, nil
}

// meant are the operators among the Deployments. Anybody may set the label, but not status.operator: if
// custom resources name operators there, only those are meant. If some custom resources could not be listed,
// they may name any, so that all are.
func (p *patient) meant(ctx context.Context, deployments []appsv1.Deployment) (named []operator) {
	serving, beside := map[string]sets.Set[schema.GroupKind]{}, sets.New[string]() // by the operator's lease, and the namespaces of these
	for i := range p.customResources {
		claimed := release.ClaimedBy(&p.customResources[i])
		if serving[claimed] == nil {
			serving[claimed] = sets.New[schema.GroupKind]()
		}
		serving[claimed].Insert(p.customResources[i].GroupVersionKind().GroupKind())
		namespace, _, _ := strings.Cut(claimed, "/")
		beside.Insert(namespace)
	}
	var others []operator
	for _, deployment := range deployments {
		o := newOperator(ctx, p, deployment)
		if o.serves = serving[o.claim()]; beside.Has(o.leaseNamespace()) {
			named = append(named, o)
		} else {
			others = append(others, o)
		}
	}
	if len(named) == 0 || p.unlisted != nil {
		named = append(named, others...)
	}
	return named
}

// deploys is the command that restores an operator's rights, also where somebody has changed them, and so owns fields.
func (p *patient) deploys(o operator) string {
	switch {
	case len(p.files) > 0 && isKustomization(filepath.Dir(p.files[0])): // as make kind INTO= says
		return "kubectl apply --server-side --force-conflicts --kustomize " + filepath.Dir(p.files[0])
	case len(p.files) > 0:
		return "kubectl apply --server-side --force-conflicts -f " + strings.Join(p.files, " -f ")
	case o.options.Shard != "": // without BASE, it would add an operator that is not a shard
		return "make deploy BASE=config/shards (with IMG and OPERAND_IMG as before)"
	default:
		return "make deploy (with IMG and OPERAND_IMG as before)"
	}
}

// isKustomization is whether kustomize can build a directory.
func isKustomization(dir string) bool {
	return slices.ContainsFunc(konfig.RecognizedKustomizationFileNames(), func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	})
}

// crds are the CRDs among needs.
func (p *patient) crds() (crds []*apiextensionsv1.CustomResourceDefinition, err error) {
	for _, need := range p.needs {
		if need.GetKind() != "CustomResourceDefinition" {
			continue
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(need.Object, crd); err != nil {
			return nil, err
		}
		crds = append(crds, crd)
	}
	return crds, nil
}

// needs are the objects of files or, without files, of config/.
func needs(files []string) (objects []*unstructured.Unstructured, err error) {
	read := os.ReadFile
	if len(files) == 0 {
		read = config.Files.ReadFile
		for _, pattern := range []string{"crd/bases/*.yaml", "rbac/*.yaml"} {
			names, err := fs.Glob(config.Files, pattern)
			if err != nil {
				return nil, err
			}
			files = append(files, names...)
		}
	}
	for _, file := range files {
		text, err := read(file)
		if err != nil {
			return nil, fmt.Errorf("read --files: %w", err)
		}
		found, err := object.Documents(bytes.NewReader(text))
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		objects = append(objects, found...)
	}
	return objects, nil
}
