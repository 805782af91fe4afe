package main

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/internal/record"
	"demo.welcome.domain/welcome-operator/internal/status"
)

// revision is a revision of a release, and what it has changed.
type revision struct {
	Revision    int         `json:"revision"`
	Status      string      `json:"status"`
	Created     metav1.Time `json:"created"`
	Chart       string      `json:"chart"`
	Version     string      `json:"version"`
	Generation  int64       `json:"generation,omitempty"`
	Description string      `json:"description,omitempty"`
	// Changes are the differences from the revision before, in words. First is whether that is no longer
	// kept.
	Changes []string `json:"changes"`
	First   bool     `json:"first,omitempty"`

	values  map[string]any
	objects map[string]map[string]any // by kind and name
}

// NewCmdHistory shows the revisions of a release.
func NewCmdHistory(c *cluster) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "history NAME | KIND/NAME",
		Short: "Show what each revision of a custom resource's release has changed",
		Long: fmt.Sprintf(`Show what each revision of a custom resource's release has changed: fields of the spec with their values, the version of the chart, and
fields of objects. It is read from the release records, which are ConfigMaps beside the custom resource. Where they are Secrets, values are
left out. The newest %d revisions are kept.`, record.MaxHistory),
		Example:           examples("kubectl welcome history hello\nkubectl welcome history crontab/nightly -o yaml"),
		Args:              oneName,
		ValidArgsFunction: c.completeNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			if output != "table" && output != "json" && output != "yaml" {
				return fmt.Errorf("--output is table, json or yaml, not %q", output)
			}
			obj, err := c.one(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			revisions, err := c.history(cmd.Context(), obj)
			if err != nil {
				return err
			}
			if output != "table" {
				text, err := marshalled(map[string]any{"revisions": revisions, "kept": record.MaxHistory}, output)
				c.printf("%s", text)
				return err
			}
			var out strings.Builder
			showHistory(&out, revisions, time.Now())
			c.printf("%s", c.here(out.String()))
			return nil
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table, json or yaml")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// noRelease is the error for a custom resource of which nothing was applied yet.
func noRelease(obj *unstructured.Unstructured) error {
	return fmt.Errorf("%s has no release yet: kubectl welcome status %s", label(obj), typed(obj))
}

// history reads the revisions of a release, newest first.
func (c *cluster) history(ctx context.Context, obj *unstructured.Unstructured) ([]*revision, error) {
	of := status.Of(obj).Release
	if of == nil {
		return nil, noRelease(obj)
	}
	kind := recordKind(of)
	secret := kind.Kind == object.Secret.Kind
	records, err := c.list(ctx, kind, client.InNamespace(obj.GetNamespace()), client.MatchingLabels{"owner": "helm", "name": of.Name})
	if apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("the revisions are in %ss, which you may not list: %w", kind.Kind, err)
	}
	if err != nil {
		return nil, err
	}
	revisions := []*revision{} // not nil: JSON shows an empty list
	for i := range records {
		known := record.Parse(&records[i], of.Name)
		if known == nil || !metav1.IsControlledBy(&records[i], obj) {
			continue
		}
		r := &revision{Revision: known.Revision, Status: string(known.Status), Created: metav1.NewTime(known.Created), Generation: known.Generation, Changes: []string{}}
		revisions = append(revisions, r)
		data, _, _ := unstructured.NestedString(records[i].Object, "data", "release")
		if secret {
			text, err := base64.StdEncoding.DecodeString(data)
			if err != nil {
				return nil, fmt.Errorf("read %s %s: %w", kind.Kind, known.Name, err)
			}
			data = string(text)
		}
		if err := r.read(data); err != nil {
			r.Changes = append(r.Changes, "cannot be read: "+err.Error())
		}
	}
	slices.SortFunc(revisions, func(a, b *revision) int { return b.Revision - a.Revision })
	compare(revisions, secret)
	return revisions, nil
}

// compare says of each revision, newest first, what it has changed.
func compare(revisions []*revision, discreet bool) {
	for i, r := range revisions {
		switch {
		case i == len(revisions)-1:
			r.First = true
		case r.objects == nil: // that it cannot be read is said already
		case revisions[i+1].objects == nil:
			r.Changes = append(r.Changes, fmt.Sprintf("unknown, for revision %d cannot be read", revisions[i+1].Revision))
		default:
			r.Changes = append(r.Changes, changes(revisions[i+1], r, discreet)...)
		}
	}
}

func (r *revision) read(data string) error {
	rel, err := record.Decode(data, record.MaxRecord)
	if err != nil {
		return err
	}
	if rel.Chart != nil && rel.Chart.Metadata != nil {
		r.Chart, r.Version = rel.Chart.Metadata.Name, rel.Chart.Metadata.Version
	}
	if rel.Info != nil {
		r.Description = rel.Info.Description
	}
	objects, err := object.Documents(strings.NewReader(rel.Manifest))
	if err != nil {
		return err
	}
	r.values, r.objects = rel.Config, map[string]map[string]any{}
	for _, obj := range objects {
		r.objects[fmt.Sprintf("%s %q", obj.GetKind(), obj.GetName())] = obj.Object
	}
	return nil
}

// changes are the differences between two revisions in words; if discreet, without values.
func changes(before, after *revision, discreet bool) (words []string) {
	if a, b := before.Chart+" "+before.Version, after.Chart+" "+after.Version; a != b {
		words = append(words, fmt.Sprintf("chart: %s → %s", a, b))
	}
	a, b := map[string]string{}, map[string]string{}
	flatten("values", before.values, a)
	flatten("values", after.values, b)
	for _, path := range union(a, b) {
		switch {
		case a[path] == b[path]:
		case discreet:
			words = append(words, path+": changed")
		default:
			words = append(words, fmt.Sprintf("%s: %s → %s", path, cmp.Or(a[path], "unset"), cmp.Or(b[path], "unset")))
		}
	}
	for _, name := range union(before.objects, after.objects) {
		was, is := before.objects[name], after.objects[name]
		switch {
		case was == nil:
			words = append(words, name+": new")
		case is == nil:
			words = append(words, name+": gone")
		default:
			if fields := object.Few(object.Changes(was, is), 8); len(fields) > 0 {
				words = append(words, name+": "+strings.Join(fields, ", "))
			}
		}
	}
	return words
}

// flatten collects scalars and lists by their paths.
func flatten(path string, values any, into map[string]string) {
	if inner, ok := values.(map[string]any); ok && (len(inner) > 0 || path == "values") {
		for key, value := range inner {
			flatten(path+"."+key, value, into)
		}
		return
	}
	if values == nil && path == "values" {
		return
	}
	text, _ := json.Marshal(values) // it was decoded from JSON, so that it cannot fail
	into[path] = string(text)
}

// showHistory prints revisions, newest first.
func showHistory(out io.Writer, revisions []*revision, now time.Time) {
	if len(revisions) == 0 {
		_, _ = fmt.Fprintln(out, "No revision is recorded any more.")
		return
	}
	for _, r := range revisions {
		_, _ = fmt.Fprintf(out, "%s  %s, %s ago, chart %s %s, generation %d\n", head(fmt.Sprintf("Revision %d", r.Revision)), r.Status,
			duration.HumanDuration(now.Sub(r.Created.Time)), safe(r.Chart), safe(r.Version), r.Generation)
		words := r.Changes
		if r.Status == "failed" && r.Description != "" {
			words = append([]string{r.Description}, words...)
		}
		switch {
		case len(words) > 0:
		case r.First && r.Revision == 1:
			words = []string{"the first"}
		case r.First:
			words = []string{"those before are not kept"}
		default:
			words = []string{"nothing changed"}
		}
		for _, line := range words {
			_, _ = fmt.Fprintf(out, "  %s\n", safe(line))
		}
	}
	_, _ = fmt.Fprintf(out, "The newest %d revisions are kept.\n", record.MaxHistory)
}
