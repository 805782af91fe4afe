package controlplane

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Request is a request that the API server has answered.
type Request struct {
	Verb           string
	RequestURI     string
	ResponseStatus struct{ Code int }
	User           struct {
		Username string
		Extra    map[string][]string
	}
	ObjectRef struct{ APIGroup, Resource, Subresource, Namespace, Name string }
	// StageTimestamp is the time of the answer.
	StageTimestamp time.Time
}

// String describes the request in words that are the same for all objects of a kind.
func (r Request) String() string {
	resource := r.ObjectRef.Resource
	if resource == "" {
		resource, _, _ = strings.Cut(r.RequestURI, "?")
	}
	if r.ObjectRef.Subresource != "" {
		resource += "/" + r.ObjectRef.Subresource
	}
	what := strings.ToUpper(r.Verb) + " " + resource
	if r.ResponseStatus.Code >= 400 {
		what += fmt.Sprintf(" → %d", r.ResponseStatus.Code)
	}
	return what
}

// Writes is whether the request was meant to change something.
func (r Request) Writes() bool {
	return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, r.Verb)
}

// AsksForRights is whether it is an access review, as one is sent for each reader of metrics.
func (r Request) AsksForRights() bool {
	return slices.Contains([]string{"tokenreviews", "subjectaccessreviews"}, r.ObjectRef.Resource)
}

// Tells is whether it writes an event.
func (r Request) Tells() bool { return r.ObjectRef.Resource == "events" }

// By is whether a user sent the request, and it is no overhead. Overhead is what a process does however many
// custom resources there are: watches, the lease, access reviews for its metrics.
func By(user string) func(Request) bool {
	return func(r Request) bool {
		return r.User.Username == user && r.Verb != "watch" && r.ObjectRef.Resource != "leases" && !r.AsksForRights()
	}
}

// Mark is a position in the audit log.
type Mark int64

// Mark returns the current end of the audit log: all requests that were answered until now are before it.
func (c *ControlPlane) Mark(ctx context.Context) (Mark, error) {
	marker := "mark-" + rand.String(10)
	from, err := os.Stat(c.auditLog())
	if err != nil {
		return 0, err
	}
	if err := c.Client.Get(ctx, client.ObjectKey{Namespace: "default", Name: marker}, &corev1.ConfigMap{}); !apierrors.IsNotFound(err) {
		return 0, fmt.Errorf("mark a place in the audit log: %w", err)
	}
	var mark Mark
	err = wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) {
		text, err := c.auditedSince(Mark(from.Size()))
		if err != nil {
			return false, err
		}
		at := bytes.Index(text, []byte(marker))
		if at < 0 {
			return false, nil
		}
		end := bytes.IndexByte(text[at:], '\n')
		mark = Mark(from.Size()) + Mark(at+end+1)
		return end >= 0, nil
	})
	if err != nil {
		return 0, fmt.Errorf("find %s in the audit log: %w", marker, err)
	}
	return mark, nil
}

func (c *ControlPlane) auditedSince(mark Mark) ([]byte, error) {
	file, err := os.Open(c.auditLog())
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	if _, err := file.Seek(int64(mark), io.SeekStart); err != nil {
		return nil, err
	}
	return io.ReadAll(file)
}

// Requests returns the wanted requests since mark.
func (c *ControlPlane) Requests(ctx context.Context, mark Mark, wanted func(Request) bool) (Requests, error) {
	until, err := c.Mark(ctx)
	if err != nil {
		return nil, err
	}
	text, err := c.auditedSince(mark)
	if err != nil {
		return nil, err
	}
	var requests Requests
	lines := bufio.NewScanner(bytes.NewReader(text[:until-mark]))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var one Request
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			return nil, fmt.Errorf("read the audit log: %w", err)
		}
		if wanted(one) {
			requests = append(requests, one)
		}
	}
	return requests, lines.Err()
}

// Requests are requests of the audit log.
type Requests []Request

// Statuses are the requests that wrote a status.
func (all Requests) Statuses() Requests {
	return slices.DeleteFunc(slices.Clone(all), func(r Request) bool { return !r.Writes() || r.ObjectRef.Subresource != "status" })
}

// String counts the requests of each sort, the most frequent first.
func (all Requests) String() string {
	counts := map[string]int{}
	for _, r := range all {
		counts[r.String()]++
	}
	kinds := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(counts[b]-counts[a], strings.Compare(a, b))
	})
	var sorts []string
	for _, kind := range kinds {
		sorts = append(sorts, fmt.Sprintf("%d × %s", counts[kind], kind))
	}
	return fmt.Sprintf("%d requests: %s", len(all), strings.Join(sorts, ", "))
}
