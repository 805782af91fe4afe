package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// isNoRight is whether the caller lacks the right for a request. A refusal by an admission plugin does not
// count: it would hit the operator, too.
func isNoRight(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	says := status.Status().Message
	return apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err) && strings.Contains(says, `User "`) && strings.Contains(says, " cannot ")
}

// isForNow is whether the API server answers that it cannot serve the request now, for example because a
// webhook is down.
func isForNow(err error) bool {
	var answer apierrors.APIStatus
	return errors.As(err, &answer) && (answer.Status().Code == http.StatusTooManyRequests || answer.Status().Code >= http.StatusInternalServerError)
}

// isOutage is whether the API server did not answer. An error of a file would pass for one of the network: both
// say whether they are temporary.
func isOutage(err error) bool {
	var ofFile *fs.PathError
	var ofURL *url.Error
	var ofNet net.Error
	return !errors.As(err, &ofFile) && (errors.As(err, &ofURL) || errors.As(err, &ofNet) || errors.Is(err, context.DeadlineExceeded))
}

// isTemporary is whether a retry may succeed, for example while an API server is replaced.
func isTemporary(err error) bool { return isForNow(err) || isOutage(err) }

// errInterrupted is what is said after ctrl-c.
var errInterrupted = errors.New("interrupted")

// advised adds to an error of the libraries what the caller can do about it.
func advised(err error) error {
	switch {
	case errors.Is(err, context.Canceled): // of each request that was under way
		return errInterrupted
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%w\nThe cluster does not know you: log in again, or look which user the kubeconfig has (kubectl config view --minify)", err)
	case isOutage(err):
		return fmt.Errorf("%w\nThe API server does not answer: is this the cluster that you mean (kubectl config get-contexts)? Without any, set KUBECONFIG or --kubeconfig", err)
	}
	return err
}
