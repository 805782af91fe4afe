package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestPasses(t *testing.T) {
	code := func(code int) error {
		return apierrors.NewGenericServerResponse(code, "get", schema.GroupResource{}, "hello", "", 0, true)
	}
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"busy":       {code(http.StatusTooManyRequests), true},
		"replaced":   {code(http.StatusServiceUnavailable), true},
		"a proxy":    {code(http.StatusBadGateway), true},
		"no server":  {fmt.Errorf("look: %w", &url.Error{Op: "Get", URL: "https://x", Err: errors.New("connection refused")}), true},
		"no right":   {code(http.StatusForbidden), false},
		"not there":  {code(http.StatusNotFound), false},
		"our answer": {errors.New("somebody else has asked since"), false},
	} {
		if got := isTemporary(test.err); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestAdvised(t *testing.T) {
	canceled := &url.Error{Op: "Patch", URL: "https://x", Err: context.Canceled}
	_, noFile := os.Open("hello.yaml") // of -f, --files, --chart or --kubeconfig
	for want, err := range map[string]error{
		"interrupted": errors.Join(fmt.Errorf("pause a: %w", canceled), fmt.Errorf("pause b: %w", canceled)),
		"is this the cluster that you mean (kubectl config get-contexts)? Without any, set KUBECONFIG or --kubeconfig": &url.Error{Op: "Get", URL: "https://x", Err: errors.New("connection refused")},
		"log in again, or look which user the kubeconfig has (kubectl config view --minify)":                           apierrors.NewUnauthorized("no"),
		"read: open hello.yaml: no such file or directory":                                                             fmt.Errorf("read: %w", noFile),
		`welcomes.webapp.demo.welcome.domain "hello" not found`:                                                        apierrors.NewNotFound(schema.GroupResource{Group: welcomes.Group, Resource: "welcomes"}, "hello"),
	} {
		if got := advised(err).Error(); !strings.HasSuffix(got, want) || strings.Contains(got, "canceled") {
			t.Errorf("%s: %s", want, got)
		}
	}
}
