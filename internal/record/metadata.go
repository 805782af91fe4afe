package record

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/release"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/internal/object"
)

const (
	// inputsAnnotation of a release record is the digest of what the release was rendered from. The other two
	// are digests of what its chart has asked the cluster.
	inputsAnnotation       = "webapp.demo.welcome.domain/inputs"
	capabilitiesAnnotation = "webapp.demo.welcome.domain/capabilities"
	lookupsAnnotation      = "webapp.demo.welcome.domain/lookups"
	// madeFromAnnotation of a release record is the digest of its inputs but for what is allowed.
	madeFromAnnotation = "webapp.demo.welcome.domain/made-from"
	// maxShort bounds the texts that are kept in memory: the API server bounds neither annotations nor
	// the texts of owner references.
	maxShort = 256
	// maxOperator bounds the name of the operator: that of a namespace or a machine, and that of a lease, of at
	// most 253 each.
	maxOperator = 512

	// operatorAnnotation and generationAnnotation of a release record name the operator that made it, and the
	// metadata.generation of the custom resource that it was made from.
	operatorAnnotation   = "webapp.demo.welcome.domain/operator"
	generationAnnotation = "webapp.demo.welcome.domain/generation"
	// unmadeAnnotation of a release record says that its installation has made nothing.
	unmadeAnnotation = "webapp.demo.welcome.domain/unmade"

	// releaseIndex indexes the release records in the cache by the name of their release.
	releaseIndex = "release"
)

// Record is the metadata of a release record. Whoever may edit ConfigMaps can have forged it.
type Record struct {
	Name     string
	Revision int
	Status   release.Status
	// Inputs is the digest of what the release was rendered from.
	Inputs string
	// MadeFrom is the digest of the inputs without what is allowed, which has no influence on the rendering. It
	// is empty if it equals Inputs.
	MadeFrom string `json:",omitempty"`
	// Capabilities and Lookups are digests of what the chart has asked the cluster for, empty if it did not.
	Capabilities string `json:",omitempty"`
	Lookups      string `json:",omitempty"`
	// Operator is the one that made the record, from that Generation of the custom resource. Version 0.1.0
	// wrote neither.
	Operator   string
	Generation int64
	// Unmade is whether the installation ended before its first object: the next attempt installs again.
	Unmade bool `json:",omitempty"`
	// Created is when the record was created. Nobody can choose that, so it tells the record from a later one
	// with the same number.
	Created time.Time `json:"-"`
	// Children are the objects of the release, nil if they are not known. The status lists them, and not the record.
	Children []object.Child
	// Key of the digests, empty where records are ConfigMaps.
	Key object.Key `json:"-"`
}

// Newest reads the newest record from the cache: nil if there is none.
func (r *Store) Newest(ctx context.Context) (*Record, error) {
	list, err := r.cached(ctx, r.labelled())
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, nil
	}
	revision, _ := revisionOf(list[0].Name, r.release)
	return parseRecord(&list[0], revision), nil
}

// Proof is the proof of all metadata that is used. The status proves the children by itself.
func (r *Record) Proof() string { return r.Key.Proof(r.text()) }

// IsProven is whether proof is the proof of r.
func (r *Record) IsProven(proof string) bool { return r.Key.Proves(proof, r.text()) }

func (r *Record) text() string {
	of := *r
	of.Children = nil
	text, _ := json.Marshal(of) // texts and numbers
	return string(text)
}

func parseRecord(meta *corev1.ConfigMap, revision int) *Record {
	r := &Record{
		Name:     meta.Name,
		Revision: revision,
		Status:   release.Status(meta.Labels["status"]),
		Inputs:   meta.Annotations[inputsAnnotation],
		MadeFrom: meta.Annotations[madeFromAnnotation],
		Operator: meta.Annotations[operatorAnnotation],
		Unmade:   meta.Annotations[unmadeAnnotation] == "true",
		Created:  meta.CreationTimestamp.Time,

		Capabilities: meta.Annotations[capabilitiesAnnotation], Lookups: meta.Annotations[lookupsAnnotation], Key: object.Key(meta.Data[keyOfDigests]),
	}
	r.Generation, _ = strconv.ParseInt(meta.Annotations[generationAnnotation], 10, 64)
	return r
}

// Slim is the cache's transform for ConfigMaps. Anybody can put on a ConfigMap the label by which the cache
// selects. So of each only what the operator itself writes is kept, if it is no longer than that; and of one
// whose name is not of a record, only its name.
func Slim(object any) (any, error) {
	if whole, ok := object.(*corev1.ConfigMap); ok {
		return slim(whole), nil
	}
	return object, nil
}

func slim(whole metav1.Object) *corev1.ConfigMap {
	slim := &corev1.ConfigMap{}
	slim.Namespace, slim.Name, slim.ResourceVersion, slim.UID = object.Common(whole.GetNamespace()), whole.GetName(), whole.GetResourceVersion(), whole.GetUID()
	if !strings.HasPrefix(slim.Name, namePrefix) {
		return slim
	}
	slim.CreationTimestamp, slim.DeletionTimestamp, slim.OwnerReferences = whole.GetCreationTimestamp(), whole.GetDeletionTimestamp(), slimOwners(whole)
	slim.Labels, slim.Annotations = map[string]string{}, map[string]string{}
	given, annotations := whole.GetLabels(), whole.GetAnnotations()
	for _, key := range []string{"owner", "name", "status"} { // Helm's, by which it finds records
		if value, ok := given[key]; ok {
			slim.Labels[key] = object.Common(value)
		}
	}
	for key, most := range longest {
		if text, ok := annotations[key]; ok && len(text) <= most {
			slim.Annotations[key] = text
		}
	}
	return slim
}

// longest are the annotations that the operator writes, each with the length up to which the cache keeps it.
var longest = map[string]int{
	inputsAnnotation:       maxShort,
	madeFromAnnotation:     maxShort,
	capabilitiesAnnotation: maxShort,
	lookupsAnnotation:      maxShort,
	operatorAnnotation:     maxOperator,
	generationAnnotation:   maxShort,
	unmadeAnnotation:       maxShort,
}

// slimOwners are the controller of a record or, without one, its only owner. Owner references that no operator
// writes become an empty one, by which the record counts as somebody else's.
func slimOwners(whole metav1.Object) []metav1.OwnerReference {
	of := metav1.GetControllerOfNoCopy(whole)
	switch {
	case len(whole.GetOwnerReferences()) == 0:
		return nil
	case of == nil:
		of = &whole.GetOwnerReferences()[0]
	}
	if of.Controller == nil && len(whole.GetOwnerReferences()) > 1 || len(of.APIVersion)+len(of.Kind)+len(of.Name)+len(of.UID) > 3*maxShort {
		return []metav1.OwnerReference{{}}
	}
	return []metav1.OwnerReference{{
		APIVersion: object.Common(of.APIVersion), Kind: object.Common(of.Kind), Name: object.Common(of.Name),
		UID: types.UID(object.Common(string(of.UID))), Controller: controller[of.Controller != nil && *of.Controller],
	}}
}

var controller = map[bool]*bool{true: new(true)}

// IndexReleases lets the cache find the records of a release. Without it, every reconcile would go through all
// records. secrets is whether some are Secrets.
func IndexReleases(ctx context.Context, indexer client.FieldIndexer, secrets bool) error {
	kinds := []client.Object{&corev1.ConfigMap{}}
	if secrets {
		kinds = append(kinds, object.Empty(object.Secret))
	}
	for _, kind := range kinds {
		if err := indexer.IndexField(ctx, kind, releaseIndex, func(record client.Object) []string {
			if release := releaseOf(record.GetName()); release != "" {
				return []string{release}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// Release is the name by which Helm's commands find the release.
func (r *Record) Release() string { return releaseOf(r.Name) }

// annotations are those of the record in the cluster.
func (r *Record) annotations() map[string]string {
	annotations := map[string]string{
		inputsAnnotation: r.Inputs, operatorAnnotation: r.Operator, generationAnnotation: strconv.FormatInt(r.Generation, 10),
	}
	for key, digest := range map[string]string{madeFromAnnotation: r.MadeFrom, capabilitiesAnnotation: r.Capabilities, lookupsAnnotation: r.Lookups} {
		if digest != "" {
			annotations[key] = digest
		}
	}
	if r.Unmade {
		annotations[unmadeAnnotation] = "true"
	}
	return annotations
}
