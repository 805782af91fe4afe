package kit

import (
	"context"
	"crypto/tls"
	"net/http"
	"regexp"
	"strconv"
	"time"
)

// scraper trusts any certificate: the operator's is self-signed.
var scraper = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}

// Scrape reads the metrics at url with a token, or without one.
func Scrape(ctx context.Context, url, token string) (status int, metrics string, err error) {
	return get(ctx, scraper, url, token)
}

// Metric is the sum of a metric over the label sets that match a regular expression.
func Metric(metrics, name, labels string) float64 {
	var sum float64
	for _, match := range regexp.MustCompile(`(?m)^`+name+`(?:\{([^}]*)\})? (\S+)$`).FindAllStringSubmatch(metrics, -1) {
		if value, err := strconv.ParseFloat(match[2], 64); err == nil && regexp.MustCompile(labels).MatchString(match[1]) {
			sum += value
		}
	}
	return sum
}
