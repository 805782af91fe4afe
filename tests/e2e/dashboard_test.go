package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// dashboard is the part of config/prometheus/dashboard.json that the picture shows. Grafana itself is not available
// here.
type dashboard struct {
	Title  string
	Panels []*panel
}

type panel struct {
	Title, Type string
	GridPos     struct{ X, Y, W, H int }
	Targets     []struct{ Expr, LegendFormat string }
	FieldConfig struct {
		Defaults struct {
			Unit       string
			Thresholds struct {
				Steps []struct {
					Color string
					Value float64
				}
			}
		}
	}
	Options struct{ TextMode string }

	lines []line
}

// line is one time series.
type line struct {
	name   string
	points []point
}

type point struct{ at, value float64 } // at: seconds since 1970

// drawDashboard draws the time from start until now into dist/screenshots/dashboard.svg. It fails for a query without
// a result, or with only zeros: the test has caused something of everything.
func (s *scene) drawDashboard(p prometheus, start time.Time) {
	s.Helper()
	text, err := os.ReadFile(kit.File("config/prometheus/dashboard.json"))
	s.must(err)
	var d dashboard
	s.must(json.Unmarshal(text, &d))
	const steps = 120
	// Whole seconds, up to one that is not before the last scrape.
	step := time.Since(start).Truncate(steps*time.Second)/steps + time.Second
	end := start.Add(time.Since(start).Truncate(step) + step)
	for _, panel := range d.Panels {
		for _, target := range panel.Targets {
			lines, err := p.over(start, end, step, strings.ReplaceAll(target.Expr, "[5m]", "[30s]"), target.LegendFormat)
			s.must(err)
			panel.lines = append(panel.lines, lines...)
			// A scrape hardly ever sees a reconcile: it takes milliseconds.
			if most := highest(lines); len(lines) == 0 || most == 0 && panel.Title != "Queue and workers" {
				s.Errorf("panel %q shows nothing: %d series, the highest value is %v, of %s", panel.Title, len(lines), most, target.Expr)
			}
		}
	}
	svg, err := d.svg(start, end)
	s.must(err)
	file := kit.File("dist/screenshots/dashboard.svg")
	s.must(os.MkdirAll(filepath.Dir(file), 0o755))
	s.must(os.WriteFile(file, []byte(svg), 0o644))
	s.Logf("The dashboard is in %s", file)
}

func highest(lines []line) (most float64) {
	for _, line := range lines {
		for _, p := range line.points {
			most = max(most, p.value)
		}
	}
	return most
}

// over returns the results of a query over a period, named as in the legend.
func (p prometheus) over(start, end time.Time, step time.Duration, query, legend string) ([]line, error) {
	var answer struct {
		Data struct {
			Result []struct {
				Metric map[string]string
				Values [][2]any
			}
		}
	}
	if err := p.get(fmt.Sprintf("query_range?query=%s&start=%d&end=%d&step=%g", url.QueryEscape(query), start.Unix(), end.Unix(), step.Seconds()), &answer); err != nil {
		return nil, fmt.Errorf("%s: %w", query, err)
	}
	var lines []line
	for _, result := range answer.Data.Result {
		l := line{name: inLegend.ReplaceAllStringFunc(legend, func(label string) string { return result.Metric[strings.Trim(label, "{}")] })}
		for _, pair := range result.Values {
			at, _ := pair[0].(float64)
			text, _ := pair[1].(string)
			value, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", query, err)
			}
			if !math.IsNaN(value) { // a quantile without values
				l.points = append(l.points, point{at, value})
			}
		}
		if len(l.points) > 0 {
			lines = append(lines, l)
		}
	}
	return lines, nil
}

var inLegend = regexp.MustCompile(`\{\{\w+\}\}`)
