package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// report is what came of the requests. Its methods may run side by side until the last add.
type report struct {
	mu        sync.Mutex
	latencies []time.Duration // of successful requests
	errors    map[string]int  // failed requests by kind
	retried   int             // requests that took a second connection, successful or not
	took      time.Duration   // from the first request to the last answer
}

func (r *report) add(latency time.Duration, retried bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if retried {
		r.retried++
	}
	if err != nil {
		r.errors[kind(err)]++
		return
	}
	r.latencies = append(r.latencies, latency)
}

// failed is the number of requests without a complete answer of status 200.
func (r *report) failed() int {
	sum := 0
	for _, n := range r.errors {
		sum += n
	}
	return sum
}

// percentile is the latency that p percent of the successful requests did not exceed (nearest rank), 0 without any.
func (r *report) percentile(p int) time.Duration {
	if len(r.latencies) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(r.latencies))
	return sorted[(p*len(sorted)+99)/100-1]
}

// String is the report for people.
func (r *report) String() string {
	var b strings.Builder
	total := len(r.latencies) + r.failed()
	fmt.Fprintf(&b, "requests   %d in %s (%.0f/s)\n", total, r.took.Round(time.Millisecond), float64(total)/r.took.Seconds())
	fmt.Fprintf(&b, "failed     %d\n", r.failed())
	for _, kind := range slices.Sorted(maps.Keys(r.errors)) {
		fmt.Fprintf(&b, "           %d × %s\n", r.errors[kind], kind)
	}
	fmt.Fprintf(&b, "sent again %d\n", r.retried)
	for _, p := range []int{50, 90, 99, 100} {
		name := fmt.Sprintf("p%d", p)
		if p == 100 {
			name = "max"
		}
		fmt.Fprintf(&b, "%-10s %s\n", name, r.percentile(p).Round(10*time.Microsecond))
	}
	return b.String()
}
