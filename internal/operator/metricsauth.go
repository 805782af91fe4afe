package operator

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"demo.welcome.domain/welcome-operator/internal/pace"
)

const (
	// How long an answer of the API server counts, as in the filter of controller-runtime.
	tokenTTL, allowedTTL, deniedTTL = time.Minute, 5 * time.Minute, 30 * time.Second
	// goodTTL is for how long a reader is remembered after a successful read. During that time, the API server
	// may always be asked again about the reader's token, however many questions others cause. Nor does the limit
	// for all hold for other tokens from the reader's address: tokens are renewed.
	goodTTL = time.Hour
	// maxAnswers bounds how many answers are remembered. Fewer new ones come in a minute.
	maxAnswers = 4096
	// How often the API server is asked per second: in total, and for one address. Bursts are ten times that.
	asksPerSecond, asksPerCaller = 20, 1
	// maxToken is longer than any ServiceAccount token.
	maxToken = 16 << 10
	// askTimeout bounds one question.
	askTimeout = 10 * time.Second
)

// errTooMany is the answer to those who cause too many questions to the API server.
var errTooMany = errors.New("too many requests with new or bad tokens, try again later")

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
	asked := newAnswers()
	return func(log logr.Logger, metrics http.Handler) (http.Handler, error) {
		return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
			token, _ := strings.CutPrefix(request.Header.Get("Authorization"), "Bearer ")
			question := "token " + token
			user, err := authenticate(request, asked, tokens.TokenReviews(), token, question)
			if err != nil {
				refuse(w, log, err, "authenticate", "")
				return
			}
			if user == nil {
				http.Error(w, "send the bearer token of a ServiceAccount", http.StatusUnauthorized)
				return
			}
			allowed, err := authorize(request, asked, access.SubjectAccessReviews(), *user)
			if err != nil {
				refuse(w, log, err, "authorize", user.Username)
				return
			}
			if !allowed {
				http.Error(w, fmt.Sprintf("%s may not get %s: bind the ClusterRole welcome-operator-metrics-reader to it", user.Username, request.URL.Path), http.StatusForbidden)
				return
			}
			asked.trust(request, question)
			metrics.ServeHTTP(w, request)
		}), nil
	}, nil
}

// refuse answers the request if the API server has not answered, or was not asked.
func refuse(w http.ResponseWriter, log logr.Logger, err error, verb, user string) {
	if errors.Is(err, errTooMany) {
		http.Error(w, err.Error(), http.StatusTooManyRequests)
		return
	}
	log.Error(err, "Cannot "+verb+" a request for metrics", "user", user)
	http.Error(w, "cannot "+verb+" the request: the log of the operator says why", http.StatusInternalServerError)
}

// authenticate returns the user of a token, nil if it has none.
func authenticate(request *http.Request, asked *answers, reviews authenticationclient.TokenReviewInterface, token, question string) (*authenticationv1.UserInfo, error) {
	if token == "" || len(token) > maxToken {
		return nil, nil
	}
	a, err := asked.of(request, question, func(ctx context.Context) (answer, error) {
		review, err := reviews.Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
		if err != nil || !review.Status.Authenticated {
			return answer{ttl: tokenTTL}, err
		}
		return answer{ttl: tokenTTL, user: &review.Status.User}, nil
	})
	return a.user, err
}

func authorize(request *http.Request, asked *answers, reviews authorizationclient.SubjectAccessReviewInterface, user authenticationv1.UserInfo) (bool, error) {
	extra := map[string]authorizationv1.ExtraValue{}
	for key, value := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(value)
	}
	spec := authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: request.URL.Path, Verb: strings.ToLower(request.Method)},
	}
	key, err := json.Marshal(spec)
	if err != nil {
		return false, err
	}
	a, err := asked.of(request, "access "+string(key), func(ctx context.Context) (answer, error) {
		review, err := reviews.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
		if err != nil || !review.Status.Allowed {
			return answer{ttl: deniedTTL}, err
		}
		return answer{good: true, ttl: allowedTTL}, nil
	})
	return a.good, err
}

// answer is an answer of the API server.
type answer struct {
	good  bool // it has led to a successful read
	user  *authenticationv1.UserInfo
	ttl   time.Duration
	until time.Time
}

// answers caches the API server's answers, refusals too, and limits how often it is asked.
type answers struct {
	known   *cache.LRUExpireCache // of answer, by the digest of the question
	readers *cache.LRUExpireCache // addresses of successful reads

	asking  sync.Mutex // only one question at a time, because most are the same
	all     *rate.Limiter
	callers *pace.Limiters // by address
}

func newAnswers() *answers {
	return &answers{
		known:   cache.NewLRUExpireCache(maxAnswers),
		readers: cache.NewLRUExpireCache(maxAnswers),
		all:     rate.NewLimiter(asksPerSecond, 10*asksPerSecond),
		callers: pace.New(asksPerCaller, 10*asksPerCaller),
	}
}

// of returns the answer to a question. It asks the API server if the answer is not known. A question whose
// answer was good is asked again without a limit, so that a reader is not shut out while others try many
// tokens. A token that is merely valid is not good: anybody can get any number of those.
func (a *answers) of(request *http.Request, question string, ask func(context.Context) (answer, error)) (answer, error) {
	key := sha256.Sum256([]byte(question))
	known, fresh := a.lookUp(key)
	if fresh {
		return known, nil
	}
	if !known.good && !a.mayAsk(hostOf(request)) {
		return answer{}, errTooMany
	}
	a.asking.Lock()
	defer a.asking.Unlock()
	if known, fresh := a.lookUp(key); fresh {
		return known, nil
	}
	ctx, cancel := context.WithTimeout(request.Context(), askTimeout)
	defer cancel()
	got, err := ask(ctx)
	if err != nil {
		return answer{}, err
	}
	got.until = time.Now().Add(got.ttl)
	a.remember(key, got)
	return got, nil
}

// trust marks the answer to a question as good, after a successful read.
func (a *answers) trust(request *http.Request, question string) {
	a.readers.Add(hostOf(request), true, goodTTL)
	key := sha256.Sum256([]byte(question))
	if known, fresh := a.lookUp(key); fresh && !known.good {
		known.good = true
		a.remember(key, known)
	}
}

func (a *answers) remember(key [sha256.Size]byte, got answer) {
	keep := got.ttl
	if got.good {
		keep = goodTTL
	}
	a.known.Add(key, got, keep)
}

func (a *answers) lookUp(key [sha256.Size]byte) (known answer, fresh bool) {
	if found, ok := a.known.Get(key); ok {
		known = found.(answer)
	}
	return known, time.Now().Before(known.until)
}

// mayAsk is whether the API server may be asked for an address. The limit on all strangers together does not
// apply to addresses of readers.
func (a *answers) mayAsk(host string) bool {
	if !a.callers.Allow(host) {
		return false
	}
	_, reads := a.readers.Get(host)
	return reads || a.all.Allow()
}

// hostOf is the address that a request comes from, without the port.
func hostOf(request *http.Request) string {
	host, _, err := net.SplitHostPort(request.RemoteAddr)
	if err != nil {
		return request.RemoteAddr
	}
	return host
}
