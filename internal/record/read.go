package record

import (
	"encoding/json"

	"helm.sh/helm/v3/pkg/release"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Parse reads the metadata of a record of a release; nil if it is none. It is for people to look at, and proves nothing.
func Parse(meta metav1.Object, release string) *Record {
	revision, isRecord := revisionOf(meta.GetName(), release)
	if !isRecord {
		return nil
	}
	return parseRecord(slim(meta), revision)
}

// Decode reads what a record has under "release", of which it unpacks at most limit bytes. It is for people to
// look at: Helm would take more, and the operator less.
func Decode(data string, limit int64) (*release.Release, error) {
	raw, err := inflate(data, limit)
	if err != nil {
		return nil, err
	}
	rel := &release.Release{}
	return rel, json.Unmarshal(raw, rel)
}
