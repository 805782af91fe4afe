package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// errNoDryRun is the error for a request that would change something.
var errNoDryRun = errors.New("not sent: it would change something, and a diff changes nothing")

// readOnly is access to the cluster that cannot change anything.
type readOnly struct {
	client.Client
	config *rest.Config
	mapper meta.RESTMapper
}

func (c *cluster) readOnly() (*readOnly, error) {
	config, err := c.flags.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	mapper, err := c.flags.ToRESTMapper()
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.WarningHandlerWithContext = rest.NoWarnings{} // there would be one for each custom resource
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return onlyDryRuns{next} })
	api, err := client.New(config, client.Options{Mapper: mapper})
	return &readOnly{api, config, mapper}, err
}

type onlyDryRuns struct{ next http.RoundTripper }

// RoundTrip refuses every request that is neither a read nor a dry run, whichever library sends it.
func (o onlyDryRuns) RoundTrip(request *http.Request) (*http.Response, error) {
	dryRun := request.URL.Query()["dryRun"]
	if request.Method == http.MethodDelete && request.Body != nil { // then dryRun is in the body, and the API server ignores the query
		text, err := io.ReadAll(request.Body)
		if err = errors.Join(err, request.Body.Close()); err != nil {
			return nil, err
		}
		options := metav1.DeleteOptions{}
		if err := json.Unmarshal(text, &options); err != nil {
			return nil, errNoDryRun
		}
		request, dryRun = request.Clone(request.Context()), options.DryRun
		request.Body = io.NopCloser(bytes.NewReader(text))
	}
	if request.Method != http.MethodGet && !slices.Equal(dryRun, []string{metav1.DryRunAll}) {
		return nil, errNoDryRun
	}
	return o.next.RoundTrip(request)
}
