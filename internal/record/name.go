package record

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// Names says how the releases of a kind are named in their records. In charts, .Release.Name is the name of the
// custom resource anyway.
type Names string

const (
	// NamesPlain names them as their custom resources: hello.
	NamesPlain Names = "plain"
	// NamesKind adds the kind, so that custom resources of two kinds may have the same name: hello.welcome.
	NamesKind Names = "kind"

	// maxName is how long the name of a release may be, by Helm's rules.
	maxName = 53
)

// Validate says what may be written instead.
func (n Names) Validate() error {
	if n != NamesPlain && n != NamesKind {
		return fmt.Errorf("it is plain or kind, not %q", n)
	}
	return nil
}

func (n Names) of(owner client.Object) string {
	return owner.GetName() + n.suffix(owner.GetObjectKind().GroupVersionKind().Kind)
}

func (n Names) suffix(kind string) string {
	if n == NamesKind {
		return "." + strings.ToLower(kind)
	}
	return ""
}

// MaxLength is how long the name of a custom resource of a kind may be.
func (n Names) MaxLength(kind string) int { return maxName - len(n.suffix(kind)) }

func (n Names) other() Names {
	if n == NamesKind {
		return NamesPlain
	}
	return NamesKind
}

// namePrefix is of the names that Helm gives to its records.
const namePrefix = "sh.helm.release.v1."

// NameOf is how the record of a revision is called.
func NameOf(release string, revision int) string {
	return fmt.Sprintf("%s%s.v%d", namePrefix, release, revision)
}

// Is is whether an object that a custom resource owns is a record of its release.
func Is(child object.Child) bool {
	return (child.Kind == "ConfigMap" || child.Kind == object.Secret.Kind) && strings.HasPrefix(child.Name, namePrefix)
}

// revisionOf reads the revision from the name of a record of a release; false if it is not one.
func revisionOf(name, release string) (int, bool) {
	number, ok := strings.CutPrefix(name, namePrefix+release+".v")
	revision, err := strconv.Atoi(number)
	// As Helm writes it: two records of one revision would break the history.
	return revision, ok && err == nil && revision > 0 && strconv.Itoa(revision) == number
}

// releaseOf is the name of the release that a record is of, empty if it is none.
func releaseOf(name string) string {
	name, named := strings.CutPrefix(name, namePrefix)
	if end := strings.LastIndex(name, ".v"); named && end > 0 {
		return name[:end]
	}
	return ""
}

// CheckName fails if the owner, which has no release yet, cannot have one of this name. Helm would notice late
// or never: it sees only the owner's own records, and those of another release may begin with any revision.
func (r *Store) CheckName(ctx context.Context) error {
	if len(r.release) > maxName {
		return fmt.Errorf("release name %q is longer than the %d characters that Helm allows: make the custom resource anew, with a name of at most %d",
			r.release, maxName, r.names.MaxLength(r.owner.GetObjectKind().GroupVersionKind().Kind))
	}
	records, err := r.recordsOf(ctx, labels.Everything())
	if err != nil {
		return err
	}
	for i := range records {
		if holder := r.holder(&records[i]); holder != nil {
			if records[i].DeletionTimestamp != nil { // of a namesake that is gone, perhaps
				return r.inTheWay(ctx, records[i].Name)
			}
			advice := "rename one of the two"
			if r.names == NamesPlain {
				advice += ", or, as long as no custom resource of this kind has a release, set releaseName: kind for it in the operator's watches.yaml"
			}
			return fmt.Errorf("release name %q is taken by %s %q in this namespace: %s", r.release, holder.Kind, holder.Name, advice)
		}
	}
	before := r.called(r.names.other())
	records, err = before.cached(ctx, labels.Everything())
	if err == nil && len(records) == 0 && before.earlier != nil {
		records, err = before.earlier.cached(ctx, labels.Everything())
	}
	if err != nil || len(records) == 0 {
		return err
	}
	return fmt.Errorf("release name %q is not %q, by which the release is recorded: set releaseName of this kind back to %s in the operator's watches.yaml, "+
		"or delete the custom resource and make it anew", r.release, before.release, before.names)
}

// AsRecorded returns the store of the release that the owner has, even if releases of its kind are named
// otherwise by now.
func (r *Store) AsRecorded(ctx context.Context) (*Store, error) {
	for _, store := range []*Store{r, r.called(r.names.other())} {
		if records, err := store.cached(ctx, labels.Everything()); err != nil || len(records) > 0 {
			return store, err
		}
	}
	return r, nil
}

func (r *Store) called(names Names) *Store {
	store, sanitizer := *r, *r.sanitizer
	store.names, store.release, store.sanitizer = names, names.of(r.owner), &sanitizer
	sanitizer.release = store.release
	if r.earlier != nil {
		store.earlier = r.earlier.called(names)
	}
	return &store
}

// holder is the custom resource whose release a record is of, nil if it is the owner's or nobody's.
func (r *Store) holder(record *corev1.ConfigMap) *metav1.OwnerReference {
	if _, isRecord := revisionOf(record.Name, r.release); !isRecord || metav1.IsControlledBy(record, r.owner) || object.Inheritable(record, r.owner) {
		return nil
	}
	return metav1.GetControllerOfNoCopy(record)
}
