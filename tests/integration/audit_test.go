package integration

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// request is one that the API server answered.
type request struct {
	Verb           string
	RequestURI     string
	ResponseStatus struct{ Code int }
	User           struct {
		Username string
		Extra    map[string][]string
	}
	ObjectRef *struct{ APIGroup, Resource, Subresource, Namespace, Name string }
}

func (r request) String() string {
	return fmt.Sprintf("%s %s → %d", r.Verb, r.RequestURI, r.ResponseStatus.Code)
}

// writes is whether it was meant to change something. To ask who may see the metrics changes nothing.
func (r request) writes() bool {
	return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, r.Verb) && !r.asksForRights()
}

func (r request) asksForRights() bool {
	return strings.Contains(r.RequestURI, "tokenreviews") || strings.Contains(r.RequestURI, "subjectaccessreviews")
}

// recording is a place in the audit log.
type recording struct {
	*scene
	from int64
}

// record starts to count requests.
func (s *scene) record() recording {
	s.Helper()
	return recording{s, s.auditFence()}
}

// of returns the requests of an operator since, for the namespace of the test or for none, without those that authorize
// readers of its metrics.
func (r recording) of(operator *process) requests {
	r.Helper()
	until := r.auditFence()
	file, err := os.Open(env.auditLog)
	r.must(err)
	defer func() { _ = file.Close() }()
	lines := bufio.NewScanner(io.NewSectionReader(file, r.from, until-r.from))
	lines.Buffer(nil, 1<<20)
	var found requests
	for lines.Scan() {
		var one request
		r.must(json.Unmarshal(lines.Bytes(), &one))
		if slices.Contains(one.User.Extra["authentication.kubernetes.io/credential-id"], operator.credential) && !one.asksForRights() &&
			(one.ObjectRef == nil || one.ObjectRef.Namespace == "" || one.ObjectRef.Namespace == r.namespace) {
			found = append(found, one)
		}
	}
	r.must(lines.Err())
	return found
}

// auditFence returns how long the audit log is once everything that was answered until now stands in it.
func (s *scene) auditFence() int64 {
	s.Helper()
	marker := "fence-" + rand.String(10)
	if err := env.client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: marker}, &corev1.ConfigMap{}); !apierrors.IsNotFound(err) {
		s.Fatalf("fence: %v", err)
	}
	var length int64
	s.await("the audit log has all requests", func() error {
		text, err := os.ReadFile(env.auditLog)
		if err != nil {
			return err
		}
		at := bytes.Index(text, []byte(marker))
		if at < 0 {
			return fmt.Errorf("%s is missing", marker)
		}
		end := bytes.IndexByte(text[at:], '\n')
		if end < 0 {
			return fmt.Errorf("the line of %s is not complete", marker)
		}
		length = int64(at + end + 1)
		return nil
	})
	return length
}

type requests []request

// statuses are those that wrote a status.
func (all requests) statuses() requests {
	return slices.DeleteFunc(slices.Clone(all), func(r request) bool { return !r.writes() || r.ObjectRef == nil || r.ObjectRef.Subresource != "status" })
}

// String counts them by what they are, for people to read.
func (all requests) String() string {
	counts := map[string]int{}
	for _, r := range all {
		what := r.Verb + " " + strings.SplitN(r.RequestURI, "?", 2)[0]
		if r.ObjectRef != nil {
			what = r.Verb + " " + strings.TrimSuffix(r.ObjectRef.Resource+"/"+r.ObjectRef.Subresource, "/")
		}
		counts[what]++
	}
	var lines []string
	for what, count := range counts {
		lines = append(lines, fmt.Sprintf("%d× %s", count, what))
	}
	slices.Sort(lines)
	return fmt.Sprintf("%d requests: %s", len(all), strings.Join(lines, ", "))
}
