package main

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestReport(t *testing.T) {
	r := &report{errors: map[string]int{}, took: time.Second}
	for i := range 100 { // 100 ms, 99 ms, … 1 ms
		r.add(time.Duration(100-i)*time.Millisecond, i == 0, nil)
	}
	r.add(time.Hour, false, errors.New("status 503"))
	r.add(time.Hour, false, errors.New("status 503"))
	want := `requests   102 in 1s (102/s)
failed     2
           2 × status 503
sent again 1
p50        50ms
p90        90ms
p99        99ms
max        100ms
`
	if got := r.String(); got != want {
		t.Errorf("the report is\n%s\nwant\n%s", got, want)
	}
}

func TestReportWithoutAnswers(t *testing.T) {
	r := &report{errors: map[string]int{"timeout": 1}, took: time.Second}
	if got := r.String(); !strings.Contains(got, "1 × timeout") || !strings.Contains(got, "max        0s") {
		t.Errorf("the report is\n%s", got)
	}
}
