package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/internal/object"
	boot "demo.welcome.domain/welcome-operator/internal/operator"
)

// crdsFit checks that the CRDs are those that this plugin was built with. An older one may lack a field, and
// the API server drops what people write there.
func crdsFit(ctx context.Context, p *patient) (string, []finding, error) {
	crds, err := p.crds()
	if err != nil {
		return "", nil, err
	}
	serving, err := p.serving(crds)
	if errors.Is(err, errOtherKinds) { // Welcome's CRD would be one that nobody serves
		return "", nil, err
	}
	apply := "make install, or kubectl apply --server-side --force-conflicts -f config/crd/bases" // whoever has changed one owns fields of it
	if len(p.files) > 0 {
		apply = p.deploys(operator{})
	}
	remedy, other := apply+"; under OLM: upgrade the operator", p.otherVersion(serving...)
	var names []string
	var found []finding
	var unknown error
	for _, want := range crds {
		is := &apiextensionsv1.CustomResourceDefinition{}
		names = append(names, want.Name)
		live := object.Empty(want.GroupVersionKind())
		err := p.Get(ctx, client.ObjectKeyFromObject(want), live)
		if apierrors.IsNotFound(err) {
			found = append(found, finding{want.Name + " is not there", remedy})
			continue
		} else if err != nil {
			return "", nil, err
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, is); err != nil {
			return "", nil, err
		}
		for _, condition := range is.Status.Conditions {
			if condition.Type == apiextensionsv1.Established && condition.Status != apiextensionsv1.ConditionTrue ||
				condition.Type == apiextensionsv1.NamesAccepted && condition.Status != apiextensionsv1.ConditionTrue {
				found = append(found, finding{fmt.Sprintf("%s is not served: %s", want.Name, condition.Message), "kubectl describe crd " + want.Name})
			}
		}
		for _, wanted := range want.Spec.Versions {
			i := slices.IndexFunc(is.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == wanted.Name })
			switch {
			case i >= 0 && equality.Semantic.DeepEqual(wanted.Schema, is.Spec.Versions[i].Schema):
			case other != nil:
				unknown = other
			case i < 0:
				found = append(found, finding{fmt.Sprintf("%s has no version %s", want.Name, wanted.Name), remedy})
			default:
				found = append(found, finding{fmt.Sprintf("%s has another schema than this plugin (%s) was built with, in: %s", want.Name, version, few(differing("", wanted.Schema.OpenAPIV3Schema, is.Spec.Versions[i].Schema.OpenAPIV3Schema))),
					"if the operator has the plugin's version, " + remedy + "; else use the plugin of the operator's version"})
			}
		}
	}
	return strings.Join(names, ", "), found, unknown
}

// differing are the paths of the fields in which two schemas differ, or that only one of them has.
func differing(path string, a, b *apiextensionsv1.JSONSchemaProps) (paths []string) {
	own := func(s *apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
		c := *s
		c.Properties = nil
		return &c
	}
	if !equality.Semantic.DeepEqual(own(a), own(b)) {
		paths = append(paths, strings.TrimPrefix(path, "."))
	}
	for _, name := range union(a.Properties, b.Properties) {
		in, hasIn := a.Properties[name]
		out, hasOut := b.Properties[name]
		if hasIn && hasOut {
			paths = append(paths, differing(path+"."+name, &in, &out)...)
		} else {
			paths = append(paths, strings.TrimPrefix(path+"."+name, "."))
		}
	}
	return paths
}

// serving are the operators of the kinds of these CRDs, with new shards beside them. If no operator is known to serve
// these kinds, they are those of which it is not known what they serve; if there are no CRDs, they are all operators. The
// error says that there is none.
func (p *patient) serving(crds []*apiextensionsv1.CustomResourceDefinition) (serving []operator, err error) {
	kinds := sets.New[schema.GroupKind]()
	for _, crd := range crds {
		kinds.Insert(schema.GroupKind{Group: crd.Spec.Group, Kind: crd.Spec.Names.Kind})
	}
	serves := func(o operator) bool { return kinds.HasAny(o.serves.UnsortedList()...) }
	known := slices.ContainsFunc(p.operators, serves)
	isNewShard := func(o operator) bool { // which has claimed nothing yet
		return o.options.Shard != "" && slices.ContainsFunc(p.operators, func(other operator) bool { return serves(other) && other.leaseNamespace() == o.leaseNamespace() })
	}
	for _, o := range p.operators {
		if len(kinds) == 0 || serves(o) || len(o.serves) == 0 && (!known || isNewShard(o)) {
			serving = append(serving, o)
		}
	}
	switch {
	case len(serving) > 0:
		return serving, nil
	case len(p.operators) > 0 && len(p.files) == 0:
		return nil, errOtherKinds
	}
	return nil, errNoOperator
}

// rightsSuffice asks the API server whether the operator has each right of config/rbac.
func rightsSuffice(ctx context.Context, p *patient) (string, []finding, error) {
	asked := 0
	var found []finding
	var unknown error
	crds, err := p.crds()
	if err != nil {
		return "", nil, err
	}
	serving, err := p.serving(crds)
	if err != nil {
		return "", nil, err
	}
	for _, o := range serving {
		var all []authorizationv1.SubjectAccessReview
		for _, need := range p.needs {
			all = append(all, questions(need, p.needs, o)...)
		}
		asked += len(all)
		err := each(ctx, len(all), func(ctx context.Context, i int) error { return p.Create(ctx, &all[i]) })
		if err != nil {
			return "", nil, err
		}
		type place struct{ what, namespace string }
		missing := map[place][]string{}
		for _, review := range all {
			if right := review.Spec.ResourceAttributes; !review.Status.Allowed {
				what := strings.TrimSuffix(strings.TrimSuffix(right.Resource+"/"+right.Subresource, "/")+"."+right.Group, ".")
				what = strings.TrimSuffix(what+" "+right.Name, " ")
				missing[place{what, right.Namespace}] = append(missing[place{what, right.Namespace}], right.Verb)
			}
		}
		if other := p.otherVersion(o); other != nil && len(missing) > 0 {
			unknown = errors.Join(unknown, other)
			continue
		}
		in := map[string][]string{} // namespaces, by what may not be done there
		for at, verbs := range missing {
			what := strings.Join(verbs, ", ") + " " + at.what
			in[what] = append(in[what], at.namespace)
		}
		for _, what := range slices.Sorted(maps.Keys(in)) {
			where := " in all namespaces"
			if namespaces := slices.Sorted(slices.Values(in[what])); namespaces[0] != metav1.NamespaceAll {
				where = " in namespace " + few(namespaces)
			}
			found = append(found, finding{
				fmt.Sprintf("%s may not %s%s", o.account(), what, where),
				fmt.Sprintf("%s puts it back; under OLM: kubectl -n %s describe csv; which rights it has: kubectl auth can-i --list --as=%s", p.deploys(o), o.Namespace, o.account()),
			})
		}
	}
	return fmt.Sprintf("%d asked for", asked), found, unknown
}

// rightsIn are the rules of a role. Other objects have none.
func rightsIn(role *unstructured.Unstructured) []rbacv1.PolicyRule {
	typed := &rbacv1.ClusterRole{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(role.Object, typed); err != nil {
		return nil // the API server has accepted the same text, so that this is not reached
	}
	return typed.Rules
}

// questions are one for each right of a role, and each namespace that it is needed in. There are none if no
// binding in needs refers to the role.
func questions(role *unstructured.Unstructured, needs []*unstructured.Unstructured, o operator) (reviews []authorizationv1.SubjectAccessReview) {
	bound := slices.ContainsFunc(needs, func(binding *unstructured.Unstructured) bool {
		kind, _, _ := unstructured.NestedString(binding.Object, "roleRef", "kind")
		name, _, _ := unstructured.NestedString(binding.Object, "roleRef", "name")
		return kind == role.GetKind() && name == role.GetName()
	})
	if !bound {
		return nil
	}
	namespaces := o.options.WatchNamespaces
	if role.GetKind() == "Role" {
		namespaces = []string{o.Namespace}
	}
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	spec := authorizationv1.SubjectAccessReviewSpec{
		User:   o.account(),
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + o.Namespace, "system:authenticated"},
	}
	for _, rule := range rightsIn(role) {
		names := []string{""} // all
		if len(rule.ResourceNames) > 0 {
			names = slices.Clone(rule.ResourceNames)
		}
		if at := slices.Index(names, boot.LeaderElectionID); at >= 0 {
			names[at] = o.options.LeaderElectionID // config/rbac names the lease of an operator that is not a shard
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				resource, subresource, _ := strings.Cut(resource, "/")
				for _, verb := range rule.Verbs {
					for _, namespace := range namespaces {
						for _, name := range names {
							spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
								Namespace: namespace, Verb: verb, Group: group, Resource: resource, Subresource: subresource, Name: name,
							}
							reviews = append(reviews, authorizationv1.SubjectAccessReview{Spec: spec})
						}
					}
				}
			}
		}
	}
	return reviews
}
