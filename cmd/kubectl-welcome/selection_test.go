package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func TestDefaultOf(t *testing.T) {
	kind := func(group, name string) *meta.RESTMapping {
		return &meta.RESTMapping{GroupVersionKind: schema.GroupVersionKind{Group: group, Version: "v1", Kind: name}}
	}
	welcome, crontab, memcached := kind(welcomes.Group, welcomes.Kind), kind("stable.example.com", "CronTab"), kind("cache.example.com", "Memcached")
	for name, test := range map[string]struct {
		served  []*meta.RESTMapping
		want    *meta.RESTMapping
		mistake string
	}{
		"the only one":      {[]*meta.RESTMapping{crontab}, crontab, ""},
		"Welcomes":          {[]*meta.RESTMapping{crontab, welcome}, welcome, ""},
		"none of several":   {[]*meta.RESTMapping{memcached, crontab}, nil, "memcached/NAME or crontab/NAME"},
		"another's Welcome": {[]*meta.RESTMapping{kind("example.com", "Welcome"), crontab}, nil, "welcome/NAME or crontab/NAME"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := defaultOf(test.served)
			if got != test.want || (err == nil) != (test.mistake == "") || err != nil && !strings.Contains(err.Error(), test.mistake) {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}

// Of two kinds of one name in two groups, none is acted on by chance.
func TestCalledSo(t *testing.T) {
	kind := func(group, name, plural string) *meta.RESTMapping {
		return &meta.RESTMapping{GroupVersionKind: schema.GroupVersionKind{Group: group, Version: "v1", Kind: name}, Resource: schema.GroupVersionResource{Group: group, Version: "v1", Resource: plural}}
	}
	served := []*meta.RESTMapping{kind("a.example.com", "Cache", "caches"), kind("b.example.com", "Cache", "caches"), kind("a.example.com", "CronTab", "crontabs")}
	for word, want := range map[string]int{"cache": 2, "caches": 2, "CronTabs": 1, "caches.a.example.com": 0} {
		if got := calledSo(served, word); len(got) != want {
			t.Errorf("%s: %v", word, got)
		}
	}
}

// knowing is a cluster that knows Welcomes, as far as discovery tells, and has what api says.
func knowing(t *testing.T, streams genericiooptions.IOStreams, api interceptor.Funcs) *cluster {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, map[string]string{ // to a client that waits for it
			"/api":  `{"kind":"APIVersions"}`,
			"/apis": `{"kind":"APIGroupList","groups":[{"name":"webapp.demo.welcome.domain","versions":[{"groupVersion":"webapp.demo.welcome.domain/v1","version":"v1"}]}]}`,
			"/apis/webapp.demo.welcome.domain/v1": `{"kind":"APIResourceList","groupVersion":"webapp.demo.welcome.domain/v1","resources":[
				{"name":"welcomes","singularName":"welcome","kind":"Welcome","namespaced":true,"verbs":["get","list"],"categories":["welcome-operator"]}]}`,
		}[r.URL.Path])
	}))
	t.Cleanup(server.Close)
	c := newCluster(streams)
	c.flags.APIServer, c.flags.CacheDir = &server.URL, new(t.TempDir())
	c.client = func() (client.Client, error) {
		return interceptor.NewClient(fake.NewClientBuilder().Build(), api), nil
	}
	return c
}

// After ctrl-c, what was found is not taken for all that there is: diff would say that nothing changes.
func TestFindInterrupted(t *testing.T) {
	for _, args := range [][]string{{"hello"}, {"welcome/"}, nil} {
		ctx, interrupt := context.WithCancel(t.Context())
		c := knowing(t, genericiooptions.NewTestIOStreamsDiscard(), interceptor.Funcs{
			Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
				interrupt()
				return nil
			},
			List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
				interrupt()
				return nil
			},
		})
		if found, err := c.find(ctx, selection{}, args); !errors.Is(err, context.Canceled) {
			t.Errorf("%q: %v, %v", args, found, err)
		}
	}
}
