package main

import (
	"fmt"
	"strings"
	"time"
)

// table is what was measured, as Markdown: a column for each number of Welcomes, then the later phases, as far as
// they were run.
func (s scaled) table() string {
	var out strings.Builder
	row := func(title string, cell func(rung) string) {
		fmt.Fprintf(&out, "| %s |", title)
		for _, r := range s.steps {
			fmt.Fprintf(&out, " %s |", cell(r))
		}
		out.WriteString("\n")
	}
	row("Welcomes", func(r rung) string { return fmt.Sprint(r.welcomes) })
	row("---", func(rung) string { return "---:" })
	row("installs a second, thousands waiting", func(r rung) string { return fmt.Sprintf("%.1f", r.rate()) })
	row("raw creation of the same objects a second", func(r rung) string { return fmt.Sprintf("%.1f", 1/r.floor.Seconds()) })
	row("from a Welcome to its children, 10 Welcomes a second, p50", func(r rung) string { return repaired(percentile(r.latencies, 50)) })
	row("the same, p99", func(r rung) string { return repaired(percentile(r.latencies, 99)) })
	for _, program := range s.steps[0].programs() {
		row("CPU per install: "+program, func(r rung) string { return milliseconds(r.cpu[program], r.added) })
	}
	row("resident memory", func(r rung) string { return megabytes(r.rss) })
	row("live heap", func(r rung) string { return megabytes(r.heap) })
	row("resident, per Welcome above that without", func(r rung) string { return kilobytes(r.rss-s.baseRSS, r.welcomes) })
	row("live, per Welcome above that without", func(r rung) string { return kilobytes(r.heap-s.baseHeap, r.welcomes) })
	row("goroutines", func(r rung) string { return fmt.Sprint(r.goroutines) })
	row("requests per reconcile with nothing to do", func(r rung) string { return each(r.idleRequests, r.reconciles) })
	row("CPU per reconcile with nothing to do", func(r rung) string { return milliseconds(r.idleCPU, r.reconciles) })
	row("a changed Deployment is repaired, p50", func(r rung) string { return repaired(r.drifts.driftAt(50)) })
	row("a changed Deployment is repaired, p99", func(r rung) string { return repaired(r.drifts.driftAt(99)) })
	row("the metrics are read in", func(r rung) string { return repaired(r.scrape) })
	row("resident memory of kube-apiserver", func(r rung) string { return megabytes(r.memory["kube-apiserver"]) })
	row("resident memory of etcd", func(r rung) string { return megabytes(r.memory["etcd"]) })
	fmt.Fprintf(&out, "\nWithout a Welcome, the operator holds %s, %s of them live. With %d:\n\n| | |\n|---|---|\n", megabytes(s.baseRSS), megabytes(s.baseHeap), s.total())
	end := func(measured bool, title, format string, args ...any) {
		if measured {
			fmt.Fprintf(&out, "| %s | %s |\n", title, fmt.Sprintf(format, args...))
		}
	}
	end(s.peak > 0, "memory", "at most %s were resident, while growing and at a start; its container has %s, without what it has for trials", megabytes(s.peak), megabytes(memoryLimit(s.welcomes)))
	end(s.restart > 0, "the operator is started again", "caught up after %s, with %d requests, %d of them writes", seconds(s.restart), s.restartRequests, s.restartWrites)
	end(s.deletion > 0, fmt.Sprintf("%d Welcomes are deleted", s.deleted), "gone after %s, with %s requests each", seconds(s.deletion), each(s.deletedRequests, s.deleted))
	end(s.heapAfter > 0, fmt.Sprintf("%d are created and deleted", s.churned), "live heap from %s to %s (%+.1f %%), goroutines from %d to %d",
		megabytes(s.heapBefore), megabytes(s.heapAfter), 100*float64(s.heapAfter-s.heapBefore)/float64(max(s.heapBefore, 1)), s.goroutinesBefore, s.goroutine)
	end(s.upgrade > 0, fmt.Sprintf("a new image is rolled out over %d, the other %d wait", s.upgraded, s.waiting), "upgraded after %s with %s requests each, events included; %d of all %d say that they are on their way, or wait, after %s, with %d writes of a status",
		seconds(s.upgrade), each(s.upgradeRequests, s.upgraded), s.told, s.upgraded+s.waiting, seconds(s.telling), s.statusesWritten)
	return out.String()
}

func (s scaled) total() int {
	if len(s.steps) == 0 {
		return 0
	}
	return s.steps[len(s.steps)-1].welcomes
}

// percentile of durations, the shortest first.
func percentile(sorted []time.Duration, percent int) time.Duration {
	return result{drifts: sorted, drifting: len(sorted)}.driftAt(percent)
}

func kilobytes(bytes int64, count int) string {
	return fmt.Sprintf("%.1f KB", float64(bytes)/1000/float64(max(count, 1)))
}

// chart is a line chart of one measure over the number of Welcomes.
type chart struct {
	title string
	lines []line
}

type line struct {
	name, color string
	value       func(rung) float64
}

const (
	blue, gray, orange, green = "#0969da", "#8c959f", "#bc4c00", "#1a7f37"

	chartWidth, chartHeight  = 300, 150
	scaleColumns, scaleRows  = 3, 3
	chartLeft, chartBetween  = 24, 52
	chartTop, chartRowHeight = 60, 250
)

func (s scaled) charts() []chart {
	ms := func(d time.Duration) float64 { return d.Seconds() * 1000 }
	perInstall := func(program string) func(rung) float64 {
		return func(r rung) float64 { return ms(r.cpu[program]) / float64(r.added) }
	}
	return []chart{
		{"Installs a second", []line{
			{"welcome-operator", blue, rung.rate},
			{"raw creation", gray, func(r rung) float64 { return 1 / r.floor.Seconds() }},
		}},
		{"From a Welcome to its children (ms)", []line{
			{"p50", blue, func(r rung) float64 { return ms(percentile(r.latencies, 50)) }},
			{"p99", orange, func(r rung) float64 { return ms(percentile(r.latencies, 99)) }},
		}},
		{"CPU per install (ms)", []line{
			{"operator", blue, perInstall(operatorProgram)}, {"kube-apiserver", orange, perInstall("kube-apiserver")},
			{"etcd", green, perInstall("etcd")}, {"the bench", gray, perInstall("bench")},
		}},
		{"Memory of the operator (MB)", []line{
			{"resident", blue, func(r rung) float64 { return float64(r.rss) / 1e6 }},
			{"live heap", gray, func(r rung) float64 { return float64(r.heap) / 1e6 }},
		}},
		{"Memory per Welcome (KB)", []line{
			{"resident", blue, func(r rung) float64 { return float64(r.rss-s.baseRSS) / 1000 / float64(r.welcomes) }},
			{"live heap", gray, func(r rung) float64 { return float64(r.heap-s.baseHeap) / 1000 / float64(r.welcomes) }},
		}},
		{"Memory of the control plane (MB)", []line{
			{"kube-apiserver", orange, func(r rung) float64 { return float64(r.memory["kube-apiserver"]) / 1e6 }},
			{"etcd", green, func(r rung) float64 { return float64(r.memory["etcd"]) / 1e6 }},
		}},
		{"CPU per reconcile with nothing to do (ms)", []line{
			{"welcome-operator", blue, func(r rung) float64 { return ms(r.idleCPU) / float64(max(r.reconciles, 1)) }},
		}},
		{"A changed Deployment is repaired (ms)", []line{
			{"p50", blue, func(r rung) float64 { return ms(r.drifts.driftAt(50)) }},
			{"p99", orange, func(r rung) float64 { return ms(r.drifts.driftAt(99)) }},
		}},
		{"The metrics are read in (ms)", []line{
			{"welcome-operator", blue, func(r rung) float64 { return ms(r.scrape) }},
		}},
	}
}

// plot is what was measured as SVG.
func (s scaled) plot() string {
	width, height := chartLeft+scaleColumns*(chartWidth+chartBetween), scaleRows*chartRowHeight+chartLeft
	var out strings.Builder
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="system-ui, sans-serif" font-size="12" role="img" aria-label="welcome-operator with more and more Welcomes">`+"\n", width, height)
	fmt.Fprintf(&out, `<rect width="%d" height="%d" rx="8" fill="#ffffff" stroke="#d0d7de"/>`+"\n", width, height)
	for i, c := range s.charts() {
		s.draw(&out, c, chartLeft+i%scaleColumns*(chartWidth+chartBetween), i/scaleColumns*chartRowHeight)
	}
	out.WriteString("</svg>\n")
	return out.String()
}

// label of a number: 3.5, 48, 13960.
func label(number float64) string {
	if number < 10 {
		return fmt.Sprintf("%.1f", number)
	}
	return fmt.Sprintf("%.0f", number)
}

func (s scaled) draw(out *strings.Builder, c chart, x, y int) {
	fmt.Fprintf(out, `<text x="%d" y="%d" font-weight="600" fill="#1f2328">%s</text>`+"\n", x, y+28, c.title)
	most := 0.0
	for _, l := range c.lines {
		for _, r := range s.steps {
			most = max(most, l.value(r))
		}
	}
	bottom := y + chartTop + chartHeight
	fmt.Fprintf(out, `<path d="M%d %dV%dH%d" fill="none" stroke="#d0d7de"/>`+"\n", x, y+chartTop, bottom, x+chartWidth)
	fmt.Fprintf(out, `<text x="%d" y="%d" font-size="11" fill="#59636e">%s</text>`+"\n", x+4, y+chartTop-3, label(most))
	fmt.Fprintf(out, `<text x="%d" y="%d" font-size="11" text-anchor="end" fill="#59636e">%d Welcomes</text>`+"\n", x+chartWidth, bottom+15, s.total())
	for i, l := range c.lines {
		var points []string
		for _, r := range s.steps {
			points = append(points, fmt.Sprintf("%.1f,%.1f", float64(x)+chartWidth*float64(r.welcomes)/float64(s.total()), float64(bottom)-chartHeight*l.value(r)/max(most, 1e-9)))
		}
		fmt.Fprintf(out, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.Join(points, " "), l.color)
		fmt.Fprintf(out, `<text x="%d" y="%d" font-size="11" fill="%s">%s</text>`+"\n", x+i*85, y+43, l.color, l.name)
	}
}
