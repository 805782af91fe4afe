package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/internal/status"
)

// welcomes is the kind that a name without a kind means, if the cluster has it.
var welcomes = schema.GroupKind{Group: "webapp.demo.welcome.domain", Kind: "Welcome"}

// selection is which custom resources a command is about: those that its arguments name, those that -l
// selects, or all in every namespace.
type selection struct {
	all    bool
	labels string
	// advice is for callers without rights in all namespaces. By default, it is to leave out -A.
	advice string
}

func (s *selection) addTo(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&s.all, "all-namespaces", "A", false, "All custom resources, of all kinds that the operator serves, in all namespaces")
	cmd.Flags().StringVarP(&s.labels, "selector", "l", "", "Those with these labels: key=value,key2!=value2")
}

// isNamed is whether arguments name custom resources one by one.
func (s *selection) isNamed(args []string) bool {
	isKind := func(arg string) bool { return strings.HasSuffix(arg, "/") }
	return !s.all && s.labels == "" && len(args) > 0 && !slices.ContainsFunc(args, isKind)
}

// find reads the custom resources that are meant: NAME and KIND/NAME mean one each, KIND/ all of a kind; -l,
// -A and no argument mean all kinds. They are in the namespace of the flags, except with -A. Beside an
// unlisted error, it returns those that could be read.
func (c *cluster) find(ctx context.Context, s selection, args []string) ([]unstructured.Unstructured, error) {
	namespace, err := c.namespace()
	if err != nil {
		return nil, err
	}
	if s.isNamed(args) {
		var found []unstructured.Unstructured
		var failed []error
		known := sets.New[string]() // UIDs and errors: whatever is named twice is one
		for _, arg := range args {
			switch obj, err := c.named(ctx, namespace, arg); {
			case isOutage(err) || ctx.Err() != nil:
				return nil, cmp.Or(err, ctx.Err()) // it may be interrupted after the last answer
			case err != nil && !known.Has(err.Error()):
				known.Insert(err.Error())
				failed = append(failed, err)
			case err == nil && !known.Has(string(obj.GetUID())):
				known.Insert(string(obj.GetUID()))
				found = append(found, *obj)
			}
		}
		return found, among(failed, known.Len())
	}
	selector, err := labels.Parse(s.labels)
	if err != nil {
		return nil, fmt.Errorf("read --selector: %w", err)
	}
	var kinds []*meta.RESTMapping
	for _, arg := range args {
		resource, name, _ := strings.Cut(arg, "/")
		if name != "" || !strings.Contains(arg, "/") {
			return nil, fmt.Errorf("%s: a name cannot be combined with -A, -l or KIND/ (all of a kind)", arg)
		}
		if resource == "" { // a script's variables that are not set, for example
			return nil, fmt.Errorf("%q has no kind: write KIND/, or -A for all", arg)
		}
		kind, err := c.kind(ctx, resource)
		if err != nil {
			return nil, err
		}
		if isThis := func(other *meta.RESTMapping) bool { return other.GroupVersionKind == kind.GroupVersionKind }; !slices.ContainsFunc(kinds, isThis) {
			kinds = append(kinds, kind)
		}
	}
	if len(args) == 0 {
		if kinds, err = c.served(ctx); err != nil {
			return nil, err
		}
	}
	if s.all {
		namespace = metav1.NamespaceAll
	}
	var found []unstructured.Unstructured
	var failed []error
	for _, kind := range kinds {
		list, err := c.list(ctx, kind.GroupVersionKind, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: selector})
		switch {
		case isOutage(err) || ctx.Err() != nil:
			return nil, cmp.Or(err, ctx.Err())
		case apierrors.IsNotFound(err) && len(args) == 0: // somebody has deleted the CRD meanwhile
		case err != nil: // of one kind whose conversion webhook is down, for example
			failed = append(failed, fmt.Errorf("list %s: %w", kind.Resource.Resource, err))
		}
		found = append(found, list...)
	}
	if s.all && slices.ContainsFunc(failed, apierrors.IsForbidden) {
		last := &failed[len(failed)-1]
		*last = fmt.Errorf("%w\n%s", *last, cmp.Or(s.advice, "Without rights in all namespaces, leave out -A and name yours by -n"))
	}
	if !s.all && len(found)+len(failed) == 0 && c.isNoNamespace(ctx, namespace) {
		return nil, fmt.Errorf("there is no namespace %q", namespace)
	}
	return found, among(failed, len(kinds))
}

// isNoNamespace is whether a namespace does not exist, as far as the caller may know.
func (c *cluster) isNoNamespace(ctx context.Context, name string) bool {
	api, err := c.client()
	return err == nil && apierrors.IsNotFound(api.Get(ctx, client.ObjectKey{Name: name}, object.Empty(corev1.SchemeGroupVersion.WithKind("Namespace"))))
}

// noneFound says that there is none of what was meant.
func (c *cluster) noneFound(s selection) string {
	return fmt.Sprintf("No custom resources found%s.\n", c.where(s))
}

// where is in which namespace nothing was found: it may be misspelt. It is empty for all namespaces.
func (c *cluster) where(s selection) string {
	namespace, err := c.namespace()
	if err != nil || s.all {
		return ""
	}
	return " in namespace " + namespace
}

// unlisted is why some custom resources are missing beside those that were found: their kind may not be
// listed, the API server cannot serve it now, or a name does not exist.
type unlisted struct{ error }

// isUnlisted is whether only some custom resources are missing.
func isUnlisted(err error) bool { return errors.As(err, &unlisted{}) }

// among joins the errors of failed reads. If some of all reads succeeded, the error is unlisted.
func among(failed []error, all int) error {
	err := errors.Join(failed...)
	if err != nil && len(failed) < all {
		err = unlisted{err}
	}
	return err
}

// oneName is cobra's ExactArgs(1) with a clearer message.
func oneName(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%d names, not one: %s", len(args), cmd.UseLine())
	}
	return nil
}

// one reads the custom resource that an argument names.
func (c *cluster) one(ctx context.Context, arg string) (*unstructured.Unstructured, error) {
	namespace, err := c.namespace()
	if err != nil {
		return nil, err
	}
	return c.named(ctx, namespace, arg)
}

// list reads all objects of a kind, page by page.
func (c *cluster) list(ctx context.Context, kind schema.GroupVersionKind, options ...client.ListOption) ([]unstructured.Unstructured, error) {
	api, err := c.client()
	if err != nil {
		return nil, err
	}
	var found []unstructured.Unstructured
	page := &unstructured.UnstructuredList{}
	for {
		next := page.GetContinue()
		page = &unstructured.UnstructuredList{}
		page.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := api.List(ctx, page, append(slices.Clone(options), client.Limit(500), client.Continue(next))...); err != nil {
			return nil, err
		}
		found = append(found, page.Items...)
		if page.GetContinue() == "" {
			return found, nil
		}
	}
}

// cutName splits NAME or KIND/NAME. kind is empty if there is none.
func cutName(arg string) (kind, name string) {
	if kind, name, found := strings.Cut(arg, "/"); found {
		return kind, name
	}
	return "", arg
}

// named reads the custom resource that NAME or KIND/NAME names.
func (c *cluster) named(ctx context.Context, namespace, arg string) (*unstructured.Unstructured, error) {
	resource, name := cutName(arg)
	if name == "" { // a script's variable that is not set, for example
		return nil, fmt.Errorf("%q has no name: write NAME or KIND/NAME", arg)
	}
	kind, err := c.kind(ctx, resource)
	if err != nil {
		return nil, err
	}
	api, err := c.client()
	if err != nil {
		return nil, err
	}
	obj := object.Empty(kind.GroupVersionKind)
	err = api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, obj)
	if apierrors.IsNotFound(err) {
		err = fmt.Errorf("%w in namespace %s", err, namespace)               // it may be another one than the caller means
		if _, noKind := c.kind(ctx, name); resource == "" && noKind == nil { // kubectl would take it for one
			err = fmt.Errorf("%w\n%s is a kind: write %[2]s/NAME or, for a command that takes several, %[2]s/ for all", err, name)
		}
	}
	return obj, err
}

// kind is the kind that a word means to kubectl: its kind, plural, singular or short name, with or without
// its group. An empty word means the default.
func (c *cluster) kind(ctx context.Context, word string) (*meta.RESTMapping, error) {
	if word == "" {
		served, err := c.served(ctx)
		if err != nil {
			return nil, err
		}
		return defaultOf(served)
	}
	mapper, err := c.flags.ToRESTMapper()
	if err != nil {
		return nil, err
	}
	// Kinds that the operator serves come first: another operator may have a kind of the same name in another
	// group.
	served, _ := c.served(ctx)
	switch called := calledSo(served, word); len(called) {
	case 0:
	case 1:
		return called[0], nil
	default:
		return nil, fmt.Errorf("the operator serves several kinds called %q here: write %s/NAME or %s/NAME", word, called[0].Resource.GroupResource(), called[1].Resource.GroupResource())
	}
	full, resource := schema.ParseResourceArg(strings.ToLower(word))
	if full == nil {
		full = &schema.GroupVersionResource{}
	}
	gvk, err := mapper.KindFor(*full)
	if full.Empty() || err != nil {
		if gvk, err = mapper.KindFor(resource.WithVersion("")); err != nil {
			if meta.IsNoMatchError(err) {
				return nil, fmt.Errorf("the cluster has no kind %q: kubectl api-resources --categories=%s lists those that the operator serves", word, object.Category)
			}
			return nil, fmt.Errorf("%s: %w", word, err)
		}
	}
	if object.BuiltIn(gvk) {
		return nil, fmt.Errorf("%s: the operator serves no %s", word, gvk.Kind)
	}
	return mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
}

// calledSo are the kinds with that kind or plural. Two may be in two groups.
func calledSo(served []*meta.RESTMapping, word string) (called []*meta.RESTMapping) {
	for _, kind := range served {
		if strings.EqualFold(word, kind.GroupVersionKind.Kind) || strings.EqualFold(word, kind.Resource.Resource) {
			called = append(called, kind)
		}
	}
	return called
}

// defaultOf is the kind that a name without a kind means.
func defaultOf(served []*meta.RESTMapping) (*meta.RESTMapping, error) {
	if len(served) == 1 {
		return served[0], nil
	}
	names := make([]string, len(served))
	for i, kind := range served {
		if kind.GroupVersionKind.GroupKind() == welcomes {
			return kind, nil
		}
		names[i] = strings.ToLower(kind.GroupVersionKind.Kind) + "/NAME"
	}
	return nil, fmt.Errorf("the operator serves several kinds here: write %s", strings.Join(names, " or "))
}

// served are the kinds that the operator serves in this cluster. They are found by the category of their
// CRDs, which everybody may read.
func (c *cluster) served(ctx context.Context) ([]*meta.RESTMapping, error) {
	known, err := c.flags.ToDiscoveryClient()
	if err != nil {
		return nil, err
	}
	mapper, err := c.flags.ToRESTMapper()
	if err != nil {
		return nil, err
	}
	c.refreshed.Do(func() { meta.MaybeResetRESTMapper(mapper) })
	resources, _ := restmapper.NewDiscoveryCategoryExpanderWithContext(discovery.ToDiscoveryInterfaceWithContext(known)).ExpandWithContext(ctx, object.Category)
	var kinds []*meta.RESTMapping
	for _, resource := range resources {
		gvk, err := mapper.KindFor(resource.WithVersion(""))
		if err != nil {
			return nil, err
		}
		kind, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		if err != nil {
			return nil, err
		}
		kinds = append(kinds, kind)
	}
	if len(kinds) == 0 { // CRDs of an older version have no such category
		kind, err := mapper.RESTMapping(welcomes)
		if meta.IsNoMatchError(err) {
			return nil, errors.New("the cluster has no kind that the operator serves: install the CRDs (make install), or look whether this is the cluster that you mean (kubectl config current-context)")
		} else if err != nil {
			return nil, err
		}
		kinds = append(kinds, kind)
	}
	slices.SortFunc(kinds, func(a, b *meta.RESTMapping) int {
		return strings.Compare(a.GroupVersionKind.GroupKind().String(), b.GroupVersionKind.GroupKind().String())
	})
	return slices.CompactFunc(kinds, func(a, b *meta.RESTMapping) bool { return a.GroupVersionKind == b.GroupVersionKind }), nil
}

// checkServed fails for a kind that the operator does not serve: an annotation would do nothing there. A CRD
// of an older version lacks the category; then the operator's finalizer shows that it is served.
func (c *cluster) checkServed(ctx context.Context, found []unstructured.Unstructured) error {
	served, err := c.served(ctx)
	if err != nil {
		return err
	}
	for i := range found {
		obj := &found[i]
		isServed := func(kind *meta.RESTMapping) bool {
			return kind.GroupVersionKind.GroupKind() == obj.GroupVersionKind().GroupKind()
		}
		if !slices.ContainsFunc(served, isServed) && !slices.Contains(obj.GetFinalizers(), status.Finalizer) {
			return fmt.Errorf("%s: the operator serves no %s", label(obj), obj.GetKind())
		}
	}
	return nil
}

// label names a custom resource as kind/name.
func label(obj *unstructured.Unstructured) string {
	return strings.ToLower(obj.GetKind()) + "/" + obj.GetName()
}

// fullName names an object so that kubectl cannot mistake its kind: deployment.apps/hello.
func fullName(obj *unstructured.Unstructured) string {
	return strings.ToLower(obj.GroupVersionKind().GroupKind().String()) + "/" + obj.GetName()
}

// completeNames is cobra's ValidArgsFunction for NAME and KIND/NAME.
func (c *cluster) completeNames(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	resource, _, hasKind := strings.Cut(typed, "/")
	namespace, err := c.namespace()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	if !hasKind {
		resource = ""
	}
	kind, err := c.kind(cmd.Context(), resource)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	found, err := c.list(cmd.Context(), kind.GroupVersionKind, client.InNamespace(namespace))
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, obj := range found {
		if name := obj.GetName(); hasKind {
			names = append(names, resource+"/"+name)
		} else {
			names = append(names, name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
