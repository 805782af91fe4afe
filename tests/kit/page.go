package kit

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// visitor opens a new connection for each page: on a kept one it would see only its first pod.
var visitor = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// Page is nil if the page at url comes within 10 seconds, which a node may take that is starting pods, and
// has a text.
func Page(ctx context.Context, url, text string) error {
	status, page, err := get(ctx, visitor, url, "")
	if err == nil && (status != http.StatusOK || !strings.Contains(page, text)) {
		err = fmt.Errorf("%s answers %d without %q: %.500s", url, status, text, page)
	}
	return err
}

func get(ctx context.Context, client *http.Client, url, token string) (status int, body string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}
