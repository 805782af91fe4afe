package main

import (
	"fmt"
	"strings"
)

// panel is one measure of all contenders, as bars. Shorter is better in each.
type panel struct {
	title string
	value func(result) float64
	label func(result) string
}

var panels = []panel{
	{
		"Seconds per 100 Welcomes until all children exist",
		func(r result) float64 { return r.children.Seconds() * 100 / float64(r.welcomes) },
		func(r result) string { return fmt.Sprintf("%.2f", r.children.Seconds()*100/float64(r.welcomes)) },
	},
	{
		"Requests per install",
		func(r result) float64 { return float64(r.installRequests) / float64(r.welcomes) },
		func(r result) string { return each(r.installRequests, r.welcomes) },
	},
	{
		"Requests per reconcile with nothing to do",
		func(r result) float64 { return float64(r.idleRequests) / float64(max(r.reconciles, 1)) },
		func(r result) string { return each(r.idleRequests, r.reconciles) },
	},
	{
		"CPU per reconcile with nothing to do (ms)",
		func(r result) float64 { return r.idleCPU.Seconds() * 1000 / float64(max(r.reconciles, 1)) },
		func(r result) string { return milliseconds(r.idleCPU, r.reconciles) },
	},
	{
		"A changed Deployment is repaired, p99 (ms)",
		func(r result) float64 { return float64(r.driftAt(99).Milliseconds()) },
		func(r result) string { return repaired(r.driftAt(99)) },
	},
	{
		"CPU per install (ms)",
		func(r result) float64 { return r.installCPU.Seconds() * 1000 / float64(r.welcomes) },
		func(r result) string { return milliseconds(r.installCPU, r.welcomes) },
	},
}

const (
	columns     = 2
	panelWidth  = 460
	barHeight   = 22
	nameWidth   = 190
	labelWidth  = 70
	panelMargin = 24
)

// plot is the results as SVG: a panel for each measure, a bar for each contender.
func plot(results []result) string {
	panelHeight := 56 + barHeight*len(results)
	rows := (len(panels) + columns - 1) / columns
	width, height := columns*panelWidth+panelMargin, rows*panelHeight+panelMargin
	var out strings.Builder
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="system-ui, sans-serif" font-size="12" role="img" aria-label="welcome-operator beside other operators">`+"\n", width, height)
	fmt.Fprintf(&out, `<rect width="%d" height="%d" rx="8" fill="#ffffff" stroke="#d0d7de"/>`+"\n", width, height)
	for i, p := range panels {
		drawPanel(&out, p, results, panelMargin+i%columns*panelWidth, panelMargin+i/columns*panelHeight)
	}
	out.WriteString("</svg>\n")
	return out.String()
}

func drawPanel(out *strings.Builder, p panel, results []result, x, y int) {
	fmt.Fprintf(out, `<text x="%d" y="%d" font-weight="600" fill="#1f2328">%s</text>`+"\n", x, y+12, p.title)
	most := 0.0
	for _, r := range results {
		most = max(most, p.value(r))
	}
	for i, r := range results {
		top := y + 24 + i*barHeight
		color, weight := "#8c959f", "400"
		if strings.HasPrefix(r.name, "**") {
			color, weight = "#0969da", "600"
		}
		fmt.Fprintf(out, `<text x="%d" y="%d" font-size="11" font-weight="%s" fill="#1f2328">%s</text>`+"\n", x, top+13, weight, plain(r.name))
		label := operators(p.label)(r)
		if r.program == "" && p.value(r) > 0 {
			label = p.label(r)
		}
		length := 0.0
		if most > 0 {
			length = p.value(r) / most * (panelWidth - nameWidth - labelWidth - panelMargin)
		}
		fmt.Fprintf(out, `<rect x="%d" y="%d" width="%.1f" height="14" rx="2" fill="%s"/>`+"\n", x+nameWidth, top+2, max(length, 1), color)
		fmt.Fprintf(out, `<text x="%.1f" y="%d" font-size="11" font-weight="%s" fill="#1f2328">%s</text>`+"\n", float64(x+nameWidth)+max(length, 1)+5, top+13, weight, label)
	}
}

// plain is a contender's name without Markdown and short enough for a plot.
func plain(name string) string {
	name = strings.NewReplacer("**", "", "`", "", "raw creation of the same objects", "raw creation").Replace(name)
	name, _, _ = strings.Cut(name, ",")
	return strings.NewReplacer(" v0.9.1 run", " v0.9.1", "operator-sdk v1.42.3 helm-operator", "operator-sdk v1.42.3").Replace(name)
}
