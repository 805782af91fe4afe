package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
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
