package release

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"helm.sh/helm/v3/pkg/action"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// surroundings are what, besides the inputs, decides what a chart renders: facts of the cluster. A change of
// theirs alone is no reason to upgrade: the rendering may be the same.
type surroundings struct {
	// Capabilities is the digest of the cluster's version and APIs, empty if the chart does not ask for them.
	Capabilities string
	// Lookups is the digest of what lookup has found, empty if the chart does not look.
	Lookups string
}

// maxLookup bounds the answer to a lookup, in bytes. It takes many times that in memory, and anybody who may
// write ConfigMaps decides how large a list of them is.
const maxLookup = 4 << 20

// lookups notes what a rendering has looked up. Objects of the release itself are left out: they follow from
// it.
type lookups struct {
	owner   client.Object
	unowned []types.UID // of objects of the release without owner reference
	secrets bool        // whether the kind may have Secrets
	begins  bool        // whether nothing of the owner was deployed yet
	adopts  bool        // whether the owner may take over what is given to it
	mu      sync.Mutex
	found   map[string]string // digests by what was asked
}

// digest is a short name of all that was found, empty if nothing was looked up.
func (l *lookups) digest() string {
	found := l.all()
	if len(found) == 0 {
		return ""
	}
	return digestOf(found)
}

func (l *lookups) all() map[string]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.found)
}

// notingGetter makes the lookups of Helm's template engine, which has a client of its own, pass through
// lookups.
type notingGetter struct {
	action.RESTClientGetter
	lookups *lookups
}

// ToRESTConfig is what the template engine asks for.
func (g notingGetter) ToRESTConfig() (*rest.Config, error) {
	config, err := g.RESTClientGetter.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("find out where the API server is: %w", err)
	}
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return notingTransport{next, g.lookups, strings.TrimSuffix(server.JoinPath().Path, "/")}
	})
	return config, nil
}

type notingTransport struct {
	next    http.RoundTripper
	lookups *lookups
	base    string // of the paths of the API server, not empty where that is behind a proxy for several
}

// RoundTrip notes the answer to a lookup. Outside of the namespace of the custom resource nothing is found: its
// author may choose what is looked up, without a right to see it.
func (t notingTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	path := strings.TrimPrefix(request.URL.Path, t.base)
	if secret := secretPath.FindStringSubmatch(path); secret != nil {
		return t.lookUpSecrets(request, secret[1], secret[2])
	}
	what, namespace, isObject := lookedUp(path)
	if isObject && namespace != t.lookups.owner.GetNamespace() {
		return notFound(request)
	}
	response, err := t.next.RoundTrip(request)
	if err != nil || !isObject {
		return response, err
	}
	text, err := read(response.Body, what)
	if err != nil {
		return nil, err
	}
	response.Body = io.NopCloser(bytes.NewReader(text))
	t.lookups.note(what, response.StatusCode, text)
	return response, nil
}

// read reads the answer to a lookup.
func read(body io.ReadCloser, what string) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(body, maxLookup+1))
	if err == nil && len(text) > maxLookup {
		err = fmt.Errorf("it is larger than %d MiB: look up single objects, or fewer", maxLookup>>20)
	}
	if closeErr := body.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, fmt.Errorf("look up %s: %w", what, err)
	}
	return text, nil
}

// lookedUp describes the objects at a path of the API server, and their namespace. isObject is false for
// discovery.
func lookedUp(path string) (what, namespace string, isObject bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case parts[0] == "api" && len(parts) > 2:
		parts = parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		parts = parts[3:]
	default:
		return "", "", false
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		return strings.Join(parts[2:], " ") + " in namespace " + parts[1], parts[1], true
	}
	return strings.Join(parts, " "), "", true
}

func (l *lookups) note(what string, code int, text []byte) {
	digest := ""
	content := map[string]any{}
	if code == http.StatusOK && json.Unmarshal(text, &content) == nil {
		items, isList := content["items"].([]any)
		if isList {
			content["items"] = slices.DeleteFunc(items, func(item any) bool {
				fields, _ := item.(map[string]any)
				return !l.stripForeign(fields)
			})
			delete(content, "metadata") // of the list: its version
		}
		if isList || l.stripForeign(content) {
			digest = digestOf(content)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.found == nil {
		l.found = map[string]string{}
	}
	l.found[what] = digest
}

// stripForeign is whether an object is not of the release. From such an object it removes what every write
// changes.
func (l *lookups) stripForeign(content map[string]any) bool {
	found := &unstructured.Unstructured{Object: content}
	if object.Owned(found, l.owner, l.unowned) {
		return false
	}
	found.SetManagedFields(nil)
	found.SetResourceVersion("")
	return true
}

func digestOf(content any) string {
	text, _ := json.Marshal(content) // texts, or what was JSON before; it sorts the keys
	return object.Plain.Digest(text)
}

// differences lists the keys that only after has, or with another value.
func differences(before, after map[string]string) []string {
	var differ []string
	for what, digest := range after {
		if other, known := before[what]; !known || other != digest {
			differ = append(differ, what)
		}
	}
	slices.Sort(differ)
	return differ
}
