package main

import (
	"fmt"
	"strings"
	"time"
)

// table is the results as Markdown, a column for each contender.
func table(results []result) string {
	var out strings.Builder
	row := func(title string, cell func(result) string) {
		fmt.Fprintf(&out, "| %s |", title)
		for _, r := range results {
			fmt.Fprintf(&out, " %s |", cell(r))
		}
		out.WriteString("\n")
	}
	row("", func(r result) string { return r.name })
	row("---", func(result) string { return "---:" })
	row("Welcomes", func(r result) string { return fmt.Sprint(r.welcomes) })
	row("created until all children exist", func(r result) string { return seconds(r.children) })
	row("created until all statuses say ready", operators(func(r result) string { return seconds(r.settled) }))
	row("requests per install", func(r result) string { return each(r.installRequests, r.welcomes) })
	row("events per install, on top", func(r result) string { return each(r.installEvents, r.welcomes) })
	row("CPU per install", operators(func(r result) string { return milliseconds(r.installCPU, r.welcomes) }))
	row("requests per reconcile with nothing to do", operators(func(r result) string { return each(r.idleRequests, r.reconciles) }))
	row("CPU per reconcile with nothing to do", operators(func(r result) string { return milliseconds(r.idleCPU, r.reconciles) }))
	row("a changed Deployment is repaired, p50", operators(func(r result) string { return repaired(r.driftAt(50)) }))
	row("a changed Deployment is repaired, p99", operators(func(r result) string { return repaired(r.driftAt(99)) }))
	row("memory without Welcomes", operators(func(r result) string { return megabytes(r.baseRSS) }))
	row("memory after all installs", operators(func(r result) string { return megabytes(r.installRSS) }))
	row("restart: Welcomes", operators(func(r result) string { return fmt.Sprint(r.welcomes + r.more) }))
	row("restart: caught up after", operators(func(r result) string { return seconds(r.restart) }))
	row("restart: requests", operators(func(r result) string { return fmt.Sprint(r.restartRequests) }))
	row("restart: writes", operators(func(r result) string { return fmt.Sprint(r.restartWrites) }))
	row("restart: memory", operators(func(r result) string { return megabytes(r.restartRSS) }))
	row("restart: memory per Welcome above that without", operators(func(r result) string {
		return fmt.Sprintf("%.1f KB", float64(r.restartRSS-r.baseRSS)/1000/float64(r.welcomes+r.more))
	}))
	return out.String()
}

// operators are the results without the floor, which has no process.
func operators(cell func(result) string) func(result) string {
	return func(r result) string {
		if r.program == "" {
			return "–"
		}
		return cell(r)
	}
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

func milliseconds(d time.Duration, count int) string {
	return fmt.Sprintf("%.1f ms", d.Seconds()*1000/float64(max(count, 1)))
}

// each is the mean, with enough digits that one request in a thousand reconciles does not look like none.
func each(total, count int) string {
	if mean := float64(total) / float64(max(count, 1)); mean == 0 || mean >= 0.05 {
		return strings.TrimSuffix(fmt.Sprintf("%.1f", mean), ".0")
	}
	return fmt.Sprintf("%d in %d", total, count)
}

func megabytes(bytes int64) string { return fmt.Sprintf("%.0f MB", float64(bytes)/1e6) }

func repaired(d time.Duration) string {
	if d == 0 {
		return "never"
	}
	return fmt.Sprintf("%d ms", d.Milliseconds())
}
