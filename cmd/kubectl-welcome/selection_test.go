package main

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
