package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"

	helmrelease "helm.sh/helm/v3/pkg/release"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/internal/object"
	boot "demo.welcome.domain/welcome-operator/internal/operator"
	"demo.welcome.domain/welcome-operator/internal/record"
)

// helmRecords are the records of a plain Helm release: Secrets, or ConfigMaps if HELM_DRIVER says so.
type helmRecords struct {
	api             client.Client
	kind            string
	namespace, name string
}

func (c *cluster) helmRecords(namespace, name string) (*helmRecords, error) {
	api, err := c.client()
	if err != nil {
		return nil, err
	}
	r := &helmRecords{api: api, namespace: namespace, name: name}
	switch where := os.Getenv("HELM_DRIVER"); where {
	case "", "secret", "secrets":
		r.kind = "Secret"
	case "configmap", "configmaps":
		r.kind = "ConfigMap"
	default:
		return nil, fmt.Errorf("HELM_DRIVER is %s: a release can be adopted that is recorded in Secrets (secret, the default) or ConfigMaps (configmap)", where)
	}
	return r, nil
}

// list returns Helm's records, newest first, without those of the operator.
func (r *helmRecords) list(ctx context.Context) ([]metav1.PartialObjectMetadata, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(r.kind + "List"))
	if err := r.api.List(ctx, list, client.InNamespace(r.namespace), client.MatchingLabels{"owner": "helm", "name": r.name}); err != nil {
		return nil, fmt.Errorf("look for the records of the Helm release: %w", err)
	}
	records := slices.DeleteFunc(list.Items, func(one metav1.PartialObjectMetadata) bool {
		return object.ManagedBy().Matches(labels.Set(one.Labels)) || one.Name != record.NameOf(r.name, revisionOf(&one))
	})
	slices.SortFunc(records, func(a, b metav1.PartialObjectMetadata) int { return cmp.Compare(revisionOf(&b), revisionOf(&a)) })
	return records, nil
}

// revisionOf is 0 if a record of Helm's has no valid revision.
func revisionOf(obj metav1.Object) int {
	number, _ := strconv.Atoi(obj.GetLabels()["version"])
	return number
}

// deployed is the release that Helm has deployed last, and the metadata of its record.
func (r *helmRecords) deployed(ctx context.Context) (*helmrelease.Release, *metav1.PartialObjectMetadata, error) {
	records, err := r.list(ctx)
	if err != nil {
		return nil, nil, err
	}
	newest, err := r.deployedOf(records)
	if err != nil {
		return nil, nil, err
	}
	rel, err := r.read(ctx, newest.Name)
	if err == nil && rel == nil {
		err = fmt.Errorf("%s %s was deleted just now: run it again", r.kind, newest.Name)
	}
	if err == nil && (rel.Chart == nil || rel.Chart.Metadata == nil || slices.Contains(rel.Hooks, nil)) {
		err = fmt.Errorf("%s %s is no record of Helm's: it names no chart, or a hook that is none", r.kind, newest.Name)
	}
	return rel, newest, err
}

// read decodes the release of a record; it is nil if there is no such record. Helm's own driver is not used:
// it unpacks a release of any size, and panics if a Secret cannot be read.
func (r *helmRecords) read(ctx context.Context, name string) (*helmrelease.Release, error) {
	key := client.ObjectKey{Namespace: r.namespace, Name: name}
	secret, configMap := &corev1.Secret{}, &corev1.ConfigMap{}
	var err error
	if r.kind == "Secret" {
		err = r.api.Get(ctx, key, secret)
	} else {
		err = r.api.Get(ctx, key, configMap)
	}
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	rel, err := record.Decode(configMap.Data["release"]+string(secret.Data["release"]), maxHelmRecord)
	if err != nil {
		return nil, fmt.Errorf("read %s %s: %w", r.kind, name, err)
	}
	return rel, nil
}

// marked matches the value of the annotation adopts. Earlier versions wrote no kind. The match is strict,
// because the name goes into commands that people type.
var marked = regexp.MustCompile(`^(?:(Secret|ConfigMap)/)?(sh\.helm\.release\.v1\.([a-z0-9][-a-z0-9.]*)\.v[0-9]+)$`)

// recordIn parses the annotation: the kind and name of the record, and the release. All are empty if it names
// none.
func recordIn(mark string) (kind, release, name string) {
	if parts := marked.FindStringSubmatch(mark); parts != nil {
		kind, name, release = parts[1], parts[2], parts[3]
	}
	return kind, release, name
}

// checkStill fails if the record that was read is no longer the deployed one. It compares UIDs, for a record
// that was deleted and created anew has the same name.
func (r *helmRecords) checkStill(ctx context.Context, read *metav1.PartialObjectMetadata) error {
	records, err := r.list(ctx)
	if err != nil {
		return err
	}
	now, err := r.deployedOf(records)
	if err == nil && now.UID != read.UID {
		err = fmt.Errorf("somebody has had Helm make revision %d of %s meanwhile: run it again", revisionOf(now), r.name)
	}
	return err
}

// deployedOf is the newest record, if that is deployed. An older deployed one must not be taken if a newer
// revision has failed: its manifest lacks the objects that the failed one has created, which would belong to
// nobody.
func (r *helmRecords) deployedOf(records []metav1.PartialObjectMetadata) (*metav1.PartialObjectMetadata, error) {
	if len(records) == 0 {
		return nil, fmt.Errorf("there is no Helm release %[1]s in namespace %[2]s, recorded in a %[3]s (HELM_DRIVER says where), that is not of a custom resource already: helm ls -n %[2]s", r.name, r.namespace, r.kind)
	}
	statusOf := func(one metav1.PartialObjectMetadata) helmrelease.Status {
		return helmrelease.Status(one.Labels["status"])
	}
	status := statusOf(records[0])
	switch {
	case status.IsPending() || status == helmrelease.StatusUninstalling:
		return nil, fmt.Errorf("the Helm release %[1]s is %[2]s: wait until that has ended or, if it was interrupted, helm rollback %[1]s -n %[3]s", r.name, status, r.namespace)
	case status != helmrelease.StatusDeployed:
		to := ""
		if at := slices.IndexFunc(records, func(one metav1.PartialObjectMetadata) bool { return statusOf(one) == helmrelease.StatusDeployed }); at >= 0 {
			to = fmt.Sprintf(" %d", revisionOf(&records[at]))
		}
		return nil, fmt.Errorf("the Helm release %[1]s is not deployed, but %[2]s: helm rollback %[1]s%[4]s -n %[3]s", r.name, status, r.namespace, to)
	}
	if owner := metav1.GetControllerOf(&records[0]); owner != nil {
		return nil, fmt.Errorf("the Helm release %s is of %s %s, of another Helm operator: docs/migrate.md says how that is taken over", r.name, owner.Kind, owner.Name)
	}
	return &records[0], nil
}

// mayRemove checks by dry runs that the records may be deleted, before anything is changed.
func (r *helmRecords) mayRemove(ctx context.Context) error {
	records, err := r.list(ctx)
	for i := range records {
		if err == nil {
			err = r.api.Delete(ctx, &records[i], client.DryRunAll)
		}
	}
	if err != nil {
		return fmt.Errorf("find out whether the records of the Helm release may be deleted in the end: %w", err)
	}
	return nil
}

// checkRoom fails if the operator's records of the custom resource called as would get the names of Helm's
// records, which stay until it is Ready.
func (r *helmRecords) checkRoom(entry boot.PublishedEntry, as string) error {
	if as != r.name || entry.Secrets != (r.kind == "Secret") || entry.ReleaseName == record.NamesKind {
		return nil
	}
	return fmt.Errorf("the records that Helm has of %[1]s are in the way of the operator's, which are %[2]ss, too, and would be called the same. As long as no %[3]s has a release, write\n  releaseName: kind\n"+
		"in the entry of %[3]s in its watches.yaml, and deploy it again. Or do it by hand, and delete Helm's records before the %[3]s is created: docs/migrate.md", r.name, r.kind, entry.Kind)
}

// remove deletes all records, if the adopted one is still the deployed one and taken confirms that its
// objects were taken over. The adopted one is deleted last: without it, another run would not know what was
// adopted.
func (r *helmRecords) remove(ctx context.Context, adopted string, taken func(context.Context, *helmrelease.Release) error) error {
	records, err := r.list(ctx)
	if err != nil {
		return err
	}
	rel, err := r.read(ctx, adopted)
	switch {
	case err != nil:
		return err
	case len(records) == 0 && rel == nil: // an earlier run has deleted all of them
		return nil
	case len(records) == 0:
		return fmt.Errorf("%s %s is there, and does not say by its labels that it is a record of the Helm release %s", r.kind, adopted, r.name)
	case records[0].Name != adopted:
		return fmt.Errorf("somebody has had Helm make revision %d (%s) meanwhile, and not %s. Look what of it the operator has put back: kubectl welcome diff. Then: kubectl delete %s -n %s -l owner=helm,name=%s",
			revisionOf(&records[0]), records[0].Labels["status"], adopted, r.kind, r.namespace, r.name)
	case rel == nil:
		return fmt.Errorf("%s %s was deleted just now: run it again", r.kind, adopted)
	}
	deployed, err := r.deployedOf(records)
	if err != nil {
		return err
	}
	if err := taken(ctx, rel); err != nil {
		return err
	}
	for _, one := range slices.Backward(records) {
		if one.UID == deployed.UID {
			continue
		}
		if err := r.delete(ctx, &one); err != nil {
			return err
		}
	}
	return r.delete(ctx, deployed)
}

func (r *helmRecords) delete(ctx context.Context, one *metav1.PartialObjectMetadata) error {
	return client.IgnoreNotFound(r.api.Delete(ctx, one, client.Preconditions{UID: new(one.UID)}))
}
