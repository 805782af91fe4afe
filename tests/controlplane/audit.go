package controlplane

import (
	"bufio"
	"bytes"
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

// Request is one that the API server answered, whichever client of a process sent it.
type Request struct {
	Verb           string
	RequestURI     string
	ResponseStatus struct{ Code int }
	User           struct{ Username string }
	ObjectRef      struct{ Resource, Subresource, Name string }
	// StageTimestamp is when it was answered.
	StageTimestamp time.Time
}

// String says what the request was about, in the same words for all objects.
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

// Writes is whether it was meant to change something.
func (r Request) Writes() bool {
	return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, r.Verb)
}

// Tells is whether it tells people, in an event, what happened.
func (r Request) Tells() bool { return r.ObjectRef.Resource == "events" }

// isOverhead is what a process does however many custom resources there are: watch, keep the lease, ask who may read its
// metrics.
func (r Request) isOverhead() bool {
	return r.Verb == "watch" || slices.Contains([]string{"leases", "tokenreviews", "subjectaccessreviews"}, r.ObjectRef.Resource)
}

// Mark is a place in the audit log.
type Mark int64

// Mark returns the place in the audit log before which everything stands that was answered until now.
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

// Requests returns those of a user since mark, without the overhead of a process.
func (c *ControlPlane) Requests(ctx context.Context, user string, mark Mark) ([]Request, error) {
	until, err := c.Mark(ctx)
	if err != nil {
		return nil, err
	}
	text, err := c.auditedSince(mark)
	if err != nil {
		return nil, err
	}
	var requests []Request
	lines := bufio.NewScanner(bytes.NewReader(text[:until-mark]))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var one Request
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			return nil, fmt.Errorf("read the audit log: %w", err)
		}
		if one.User.Username == user && !one.isOverhead() {
			requests = append(requests, one)
		}
	}
	return requests, lines.Err()
}

// Count says how many requests of each sort there are, the most frequent first.
func Count(requests []Request) string {
	counts := map[string]int{}
	for _, r := range requests {
		counts[r.String()]++
	}
	kinds := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		if d := counts[b] - counts[a]; d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	var out []string
	for _, kind := range kinds {
		out = append(out, fmt.Sprintf("%d × %s", counts[kind], kind))
	}
	return strings.Join(out, ", ")
}
