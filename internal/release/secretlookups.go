package release

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/internal/record"
)

// secretPath finds the namespace and the name in the path of Secrets.
var secretPath = regexp.MustCompile(`/api/v1/(?:namespaces/([^/]+)/)?secrets(?:/([^/]+))?/?$`)

// lookUpSecrets answers with Secrets of the release, as if there were no others: who writes a custom resource
// may choose the name that its chart looks up, and need not be allowed to read it. That is not noted: it
// follows from the release.
func (t notingTransport) lookUpSecrets(request *http.Request, namespace, name string) (*http.Response, error) {
	if !t.lookups.secrets {
		return nil, noSecrets("a Secret, which the chart looks up")
	}
	foreign := namespace != t.lookups.owner.GetNamespace() || record.Is(object.Child{Kind: object.Secret.Kind, Name: name})
	switch {
	case name == "" && foreign:
		return answer(request, http.StatusOK, map[string]any{"kind": "SecretList", "apiVersion": "v1", "metadata": map[string]any{}, "items": []any{}})
	case foreign:
		return notFound(request)
	case name == "": // without others, which may be large, and records
		request = request.Clone(request.Context())
		query := request.URL.Query()
		query.Set("labelSelector", object.ManagedBy().String())
		query.Set("fieldSelector", "type!="+record.SecretType)
		request.URL.RawQuery = query.Encode()
	}
	response, err := t.next.RoundTrip(request)
	if err != nil || response.StatusCode != http.StatusOK {
		return response, err
	}
	text, err := read(response.Body, "Secrets")
	if err != nil {
		return nil, err
	}
	found := map[string]any{}
	if err := json.Unmarshal(text, &found); err != nil {
		return nil, errors.New("look up Secrets: the answer is no JSON")
	}
	if name != "" && t.lookups.isHidden(found) {
		return notFound(request)
	}
	if items, isList := found["items"].([]any); isList {
		found["items"] = slices.DeleteFunc(items, t.lookups.isHidden)
	}
	return answer(request, http.StatusOK, found)
}

// isHidden is whether templates are not to find a Secret. They find those of the release, and those that the
// guard would take over, such as one from a backup, or given to the owner: without it, a chart would make another
// password.
func (l *lookups) isHidden(content any) bool {
	fields, _ := content.(map[string]any)
	found := &unstructured.Unstructured{Object: fields}
	takenOver := (l.begins || object.Kept(found)) && object.MarkedFor(found, l.owner) || l.adopts && object.CheckGiven(found, l.owner) == ""
	return !takenOver && !object.Owned(found, l.owner, l.unowned)
}

func notFound(request *http.Request) (*http.Response, error) {
	return answer(request, http.StatusNotFound, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": http.StatusNotFound})
}

// answer is one in the place of the API server's.
func answer(request *http.Request, code int, content map[string]any) (*http.Response, error) {
	text, err := json.Marshal(content)
	return &http.Response{
		Status: http.StatusText(code), StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: request,
		Header: http.Header{"Content-Type": {"application/json"}}, ContentLength: int64(len(text)), Body: io.NopCloser(bytes.NewReader(text)),
	}, err
}
