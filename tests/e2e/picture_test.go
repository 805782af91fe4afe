package e2e

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
	"time"
)

// Sizes of the picture in pixels, and its colors. It has a dark background, so that it looks the same on a light and on
// a dark page.
const (
	gridColumn, gridRow = 40, 28 // of Grafana's grid, which has 24 columns
	gap                 = 8
	header              = 40
	axisWidth           = 66 // left of the lines
	letterWidth         = 6.4
	legendRow           = 16

	ground, surface, rule, ink, faint = "#111217", "#181b1f", "#2c3235", "#e4e5e9", "#9fa7b3"
)

var (
	lineColors  = []string{"#73bf69", "#f2cc0c", "#8ab8ff", "#ff780a", "#f2495c", "#5794f2", "#b877d9", "#37872d", "#fade2a", "#ffa6b0", "#6ed0e0", "#c8f2c2"}
	namedColors = map[string]string{"green": "#73bf69", "red": "#f2495c"}
)

// units are the units of the dashboard, by Grafana's names.
var units = map[string]func(float64) string{
	"":      number,
	"ops":   func(v float64) string { return number(v) + " ops/s" },
	"reqps": func(v float64) string { return number(v) + " req/s" },
	"bytes": func(v float64) string { return number(v/(1<<20)) + " MiB" },
	"s": func(v float64) string {
		if v < 1 {
			return number(v*1000) + " ms"
		}
		return number(v) + " s"
	},
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }

// svg draws the dashboard in Grafana's layout.
func (d dashboard) svg(start, end time.Time) (string, error) {
	rows := 0
	for _, p := range d.Panels {
		rows = max(rows, p.GridPos.Y+p.GridPos.H)
	}
	width, height := 24*gridColumn+gap, header+rows*gridRow+gap
	var out strings.Builder
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="system-ui, sans-serif" font-size="11" role="img" aria-label="The dashboard %s">`+"\n", width, height, html.EscapeString(d.Title))
	fmt.Fprintf(&out, `<rect width="%d" height="%d" rx="8" fill="%s"/>`+"\n", width, height, ground)
	write(&out, 2*gap, 26, `font-size="16" font-weight="600" fill="`+ink+`"`, d.Title)
	write(&out, width-2*gap, 26, `text-anchor="end" fill="`+faint+`"`, start.Format(time.DateOnly+" 15:04:05")+" to "+end.Format("15:04:05"))
	for _, p := range d.Panels {
		x, y := gap+p.GridPos.X*gridColumn, header+p.GridPos.Y*gridRow
		w, h := p.GridPos.W*gridColumn-gap, p.GridPos.H*gridRow-gap
		fmt.Fprintf(&out, `<rect x="%d" y="%d" width="%d" height="%d" rx="3" fill="%s" stroke="%s"/>`+"\n", x, y, w, h, surface, rule)
		write(&out, x+gap, y+18, `font-size="12" font-weight="500" fill="`+ink+`"`, p.Title)
		unit, known := units[p.FieldConfig.Defaults.Unit]
		switch {
		case !known:
			return "", fmt.Errorf("panel %q has the unit %q, which picture_test.go does not know", p.Title, p.FieldConfig.Defaults.Unit)
		case len(p.lines) == 0:
			write(&out, x+w/2, y+h/2, `text-anchor="middle" fill="`+faint+`"`, "No data")
		case p.Type == "stat":
			p.stat(&out, x+w/2, y+h/2+24, unit)
		case p.Type == "timeseries":
			p.plot(&out, x, y, w, h, start, end, unit)
		default:
			return "", fmt.Errorf("panel %q is a %s, which picture_test.go cannot draw", p.Title, p.Type)
		}
	}
	out.WriteString("</svg>\n")
	return out.String(), nil
}

func write(out *strings.Builder, x, y int, style, words string) {
	fmt.Fprintf(out, `<text x="%d" y="%d" %s>%s</text>`+"\n", x, y, style, html.EscapeString(words))
}

// stat writes the last value, in the color of its threshold.
func (p *panel) stat(out *strings.Builder, x, y int, unit func(float64) string) {
	points := p.lines[0].points
	last := points[len(points)-1].value
	color, words := namedColors["green"], unit(last)
	for _, step := range p.FieldConfig.Defaults.Thresholds.Steps {
		if last >= step.Value {
			color = namedColors[step.Color]
		}
	}
	if p.Options.TextMode == "name" {
		words = p.lines[0].name
	}
	write(out, x, y, `font-size="40" font-weight="600" text-anchor="middle" fill="`+color+`"`, words)
}

// plot draws the lines of a panel, its axes and its legend.
func (p *panel) plot(out *strings.Builder, x, y, w, h int, start, end time.Time, unit func(float64) string) {
	legend := p.legend(w - 2*gap)
	left, right := x+axisWidth, x+w-2*gap
	top, bottom := y+32, y+h-22-legendRow*len(legend)
	most := roundUp(highest(p.lines), p.FieldConfig.Defaults.Unit == "bytes")
	for i := range 3 {
		at := bottom - i*(bottom-top)/2
		fmt.Fprintf(out, `<path d="M%d %dH%d" stroke="%s"/>`+"\n", left, at, right, rule)
		write(out, left-6, at+4, `text-anchor="end" fill="`+faint+`"`, unit(most*float64(i)/2))
	}
	for i, anchor := range []string{"start", "middle", "end"} {
		at := start.Add(end.Sub(start) * time.Duration(i) / 2)
		write(out, left+i*(right-left)/2, bottom+15, `text-anchor="`+anchor+`" fill="`+faint+`"`, at.Format("15:04:05"))
	}
	place := func(p point) (string, string) {
		px := float64(left) + (p.at-float64(start.Unix()))/(end.Sub(start).Seconds())*float64(right-left)
		py := float64(bottom) - p.value/most*float64(bottom-top)
		return strconv.FormatFloat(px, 'f', 1, 64), strconv.FormatFloat(py, 'f', 1, 64)
	}
	for i, line := range p.lines {
		fmt.Fprintf(out, `<path d="%s" fill="none" stroke="%s" stroke-width="1.5" stroke-linejoin="round" stroke-linecap="round"/>`+"\n", line.path(place), colorOf(i))
	}
	i := 0
	for row, names := range legend {
		at := float64(x + gap)
		for _, name := range names {
			baseline := y + h - gap - legendRow*(len(legend)-1-row)
			fmt.Fprintf(out, `<rect x="%.0f" y="%d" width="12" height="3" rx="1" fill="%s"/>`+"\n", at, baseline-5, colorOf(i))
			write(out, int(at)+16, baseline, `fill="`+ink+`"`, name)
			at += legendWidth(name)
			i++
		}
	}
}

func colorOf(line int) string { return lineColors[line%len(lineColors)] }

func legendWidth(name string) float64 { return 30 + letterWidth*float64(len(name)) }

// legend breaks the names of the lines into rows.
func (p *panel) legend(width int) (rows [][]string) {
	used := math.Inf(1)
	for _, line := range p.lines {
		if used += legendWidth(line.name); used > float64(width) {
			rows, used = append(rows, nil), legendWidth(line.name)
		}
		rows[len(rows)-1] = append(rows[len(rows)-1], line.name)
	}
	return rows
}

// path is a line through all points, without those in the middle of a level stretch, and with a gap where there are
// no values.
func (l line) path(place func(point) (x, y string)) string {
	step := math.Inf(1)
	for i := 1; i < len(l.points); i++ {
		step = min(step, l.points[i].at-l.points[i-1].at)
	}
	var path strings.Builder
	for i, p := range l.points {
		starts := i == 0 || p.at-l.points[i-1].at > step
		ends := i == len(l.points)-1 || l.points[i+1].at-p.at > step
		x, y := place(p)
		switch {
		case starts:
			path.WriteString("M" + x + " " + y + "H" + x) // a point if nothing follows
		case !ends && l.points[i-1].value == p.value && l.points[i+1].value == p.value:
		default:
			path.WriteString("L" + x + " " + y)
		}
	}
	return path.String()
}

// roundUp returns the next round number, at which an axis ends.
func roundUp(v float64, bytes bool) float64 {
	if v <= 0 {
		return 1
	}
	if bytes {
		return roundUp(v/(1<<20), false) * (1 << 20)
	}
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, factor := range []float64{1, 2, 4, 6, 8} {
		if v <= factor*power {
			return factor * power
		}
	}
	return 10 * power
}
