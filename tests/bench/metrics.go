package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
)

// readings are the metrics of controller-runtime that tell what an operator does.
type readings struct {
	reconciles int // that have ended
	waiting    int // in the queue
	working    int
}

var metricLine = regexp.MustCompile(`(?m)^(controller_runtime_reconcile_total|workqueue_depth|controller_runtime_active_workers)\{[^}]*\} (\S+)$`)

// unverified is the client of metrics: ours come with a self-signed certificate.
var unverified = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}

// read asks an operator for its metrics.
func (b *bench) read(o *operator) (readings, error) {
	request, err := http.NewRequest(http.MethodGet, o.metrics, nil)
	if err != nil {
		return readings{}, err
	}
	if o.ours {
		request.Header.Set("Authorization", "Bearer "+b.reader)
	}
	response, err := unverified.Do(request)
	if err != nil {
		return readings{}, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return readings{}, err
	}
	if response.StatusCode != http.StatusOK {
		return readings{}, fmt.Errorf("%s answers %d: %s", o.metrics, response.StatusCode, body)
	}
	var r readings
	for _, match := range metricLine.FindAllStringSubmatch(string(body), -1) {
		value, err := strconv.ParseFloat(match[2], 64)
		if err != nil {
			return readings{}, err
		}
		switch match[1] {
		case "controller_runtime_reconcile_total":
			r.reconciles += int(value)
		case "workqueue_depth":
			r.waiting += int(value)
		default:
			r.working += int(value)
		}
	}
	return r, nil
}
