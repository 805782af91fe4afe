package operator

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// metricsAuth serves metrics to those whom the API server authenticates by their bearer token
// and authorizes to get the path (ClusterRole welcome-operator-metrics-reader). It stands in for the filter of
// controller-runtime, which does the same and links in the libraries of the API server: 10 MB
// of 69, with which the image would be over its bound.
func metricsAuth(config *rest.Config, httpClient *http.Client) (metricsserver.Filter, error) {
	tokens, err := authenticationclient.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("create the client that authenticates: %w", err)
	}
	access, err := authorizationclient.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("create the client that authorizes: %w", err)
	}
	return func(log logr.Logger, metrics http.Handler) (http.Handler, error) {
		return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
			token, _ := strings.CutPrefix(request.Header.Get("Authorization"), "Bearer ")
			user, err := authenticate(request.Context(), tokens.TokenReviews(), token)
			if err != nil {
				log.Error(err, "Cannot authenticate a request for metrics")
				http.Error(w, "authentication failed", http.StatusInternalServerError)
				return
			}
			if user == nil {
				http.Error(w, "send the bearer token of a ServiceAccount", http.StatusUnauthorized)
				return
			}
			allowed, err := authorize(request, access.SubjectAccessReviews(), *user)
			if err != nil {
				log.Error(err, "Cannot authorize a request for metrics", "user", user.Username)
				http.Error(w, "authorization failed", http.StatusInternalServerError)
				return
			}
			if !allowed {
				http.Error(w, fmt.Sprintf("%s may not get %s: bind the ClusterRole welcome-operator-metrics-reader to it", user.Username, request.URL.Path), http.StatusForbidden)
				return
			}
			metrics.ServeHTTP(w, request)
		}), nil
	}, nil
}

// authenticate returns whose token it is, nil if nobody's.
func authenticate(ctx context.Context, reviews authenticationclient.TokenReviewInterface, token string) (*authenticationv1.UserInfo, error) {
	if token == "" {
		return nil, nil
	}
	review, err := reviews.Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil || !review.Status.Authenticated {
		return nil, err
	}
	return &review.Status.User, nil
}

func authorize(request *http.Request, reviews authorizationclient.SubjectAccessReviewInterface, user authenticationv1.UserInfo) (bool, error) {
	extra := map[string]authorizationv1.ExtraValue{}
	for key, value := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(value)
	}
	review, err := reviews.Create(request.Context(), &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: request.URL.Path, Verb: strings.ToLower(request.Method)},
	}}, metav1.CreateOptions{})
	return err == nil && review.Status.Allowed, err
}
