package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/fatih/color"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	kstatus "sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"demo.welcome.domain/welcome-operator/internal/status"
	"demo.welcome.domain/welcome-operator/internal/terminal"
)

// Colours of what is well, in progress, not well, and a heading. The library omits them if the output is no
// terminal.
var (
	good = color.New(color.FgGreen).SprintFunc()
	busy = color.New(color.FgYellow).SprintFunc()
	bad  = color.New(color.FgRed).SprintFunc()
	head = color.New(color.Bold).SprintFunc()
)

// safe and safeLines make text that others wrote safe for a terminal, as one line or as several.
var safe, safeLines = terminal.Line, terminal.Lines

// painted colours a text by how the custom resource is.
func (r *report) painted(text string) string {
	switch rank := r.rank(); {
	case rank == 7:
		return good(text)
	case rank < 2:
		return bad(text)
	default:
		return busy(text)
	}
}

// coloured colours the lines of a diff.
func coloured(diff string) string {
	lines := strings.Split(diff, "\n")
	for i, line := range lines {
		switch {
		case strings.HasPrefix(line, "+"):
			lines[i] = good(line)
		case strings.HasPrefix(line, "-"):
			lines[i] = bad(line)
		case strings.HasPrefix(line, "@@"):
			lines[i] = busy(line)
		}
	}
	return strings.Join(lines, "\n")
}

// turns say whose turn it is.
var turns = map[turn]string{
	nobodys: "Nobody has to do anything.", yours: "It is your turn.", operators: "It is the operator's turn: wait.", clusters: "It is the cluster's turn: wait.",
	rollouts: "Its turn in the rollout of a new chart is yet to come: wait.", othersTurn: "It is somebody else's turn.",
}

// screen prints all that is known about one custom resource.
func screen(out io.Writer, r *report, now time.Time) {
	ago := func(t metav1.Time) string { return duration.HumanDuration(now.Sub(t.Time)) }
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format+"\n", args...) }
	words := map[metav1.ConditionStatus]string{metav1.ConditionTrue: "Ready", metav1.ConditionFalse: "Not ready", metav1.ConditionUnknown: "Unknown"}[r.Ready]
	if r.Reason != "" && r.Reason != status.ReasonHealthy {
		words += ": " + safe(r.Reason)
	}
	if r.Since != nil {
		words += ", for " + ago(*r.Since)
	}
	line("%s %s in namespace %s", head(r.Kind), head(r.Name), r.Namespace)
	line("%s", r.painted(words))
	said, more, several := strings.Cut(r.Message, "\n")
	line("  %s", safe(said))
	for several { // of each further object, not to be taken for what follows: a message may quote others
		said, more, several = strings.Cut(more, "\n")
		line("    %s", safe(said))
	}
	if r.Reason == notSeen && r.Turn == operators {
		line("  It is the operator's turn, if one runs.")
	} else {
		line("  %s", turns[r.Turn])
	}
	line("")
	if r.Release != nil {
		line("Release     %s", safe(fmt.Sprintf("%s, revision %d, %s %s ago from chart %s %s", r.Release.Name, r.Release.Revision, r.Release.Status, ago(r.Release.LastApplied), r.Release.Chart, r.Release.Version)))
		if r.Release.Generation == r.Generation {
			line("Spec        applied: generation %d", r.Generation)
		} else {
			line("Spec        %s", busy(fmt.Sprintf("generation %d; applied is %d", r.Generation, r.Release.Generation)))
		}
	} else {
		line("Release     none yet")
	}
	if r.WaitsFor != "" {
		line("Rollout     %s", strings.TrimSuffix(busy(safe(r.WaitsFor))+" ("+r.Rollout+")", " ()"))
	}
	if r.URL != "" {
		line("URL         %s", safe(r.URL))
	}
	if r.Operator != "" {
		line("Operator    %s", safe(r.Operator))
	}
	for _, c := range r.Conditions {
		if slices.Contains([]string{status.Drifted, status.DriftLoop, status.Tested, status.Reconciled}, c.Type) {
			paint := good
			if (c.Type == status.Tested || c.Type == status.Reconciled) != (c.Status == metav1.ConditionTrue) {
				paint = bad
			}
			line("%-12s%s, %s ago: %s", c.Type, paint(c.Status), ago(c.LastTransitionTime), safe(c.Message))
		} else if c.Type == status.IgnoredAnnotations {
			line("Annotations %s", busy(safe(c.Message))) // an annotation with a mistyped value, for example
		}
	}
	if r.details == nil {
		return
	}
	line("\n%s", head("Objects"))
	for _, row := range tree(r.Objects, "") {
		line("%s", row)
	}
	if len(r.Objects) == 0 {
		line("  none")
	}
	line("\n%s", head("Drift in the last hour"))
	happenings(out, r.Drift, r.eventless, ago)
	line("\n%s", head("Events"))
	happenings(out, r.Events[:min(len(r.Events), 10)], r.eventless, ago)
	if len(r.Unread) > 0 {
		line("\nMissing here: %s.", safe(strings.Join(r.Unread, "; ")))
	}
}

// tree draws objects with their parts below them.
func tree(nodes []*node, indent string) (rows []string) {
	longest := 0
	for _, n := range nodes {
		longest = max(longest, len(n.Kind)+len(n.Name)+1)
	}
	for i, n := range nodes {
		branch, below := "├─ ", "│  "
		if i == len(nodes)-1 {
			branch, below = "└─ ", "   "
		}
		health := n.Health
		switch kstatus.Status(n.Health) {
		case kstatus.CurrentStatus:
			health = good(health)
		case kstatus.FailedStatus, kstatus.NotFoundStatus:
			health = bad(health)
		default:
			health = busy(health)
		}
		rows = append(rows, strings.TrimRight(fmt.Sprintf("%s%s%-*s  %s  %s", indent, branch, longest, safe(n.Kind+"/"+n.Name), health, safe(n.Message)), " "))
		rows = append(rows, tree(n.Parts, indent+below)...)
	}
	return rows
}

// happenings prints events, newest first.
func happenings(out io.Writer, events []happening, unread bool, ago func(metav1.Time) string) {
	switch {
	case unread:
		_, _ = fmt.Fprintln(out, "  unknown")
		return
	case len(events) == 0:
		_, _ = fmt.Fprintln(out, "  none")
		return
	}
	for _, e := range events {
		reason := safe(e.Reason)
		if e.Type == "Warning" {
			reason = busy(reason)
		}
		times := ""
		if e.Count > 1 {
			times = fmt.Sprintf(" (%d times)", e.Count)
		}
		_, _ = fmt.Fprintf(out, "  %s ago%s  %s  %s\n", ago(e.Last), times, reason, safe(e.Message))
	}
}

// table prints a row for each custom resource, and a summary. Only the last column is coloured: tabwriter
// counts escape codes as text.
func table(out io.Writer, reports []*report, wide bool, now time.Time) {
	rows := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0)
	row := func(cells ...string) { _, _ = fmt.Fprintln(rows, strings.Join(cells, "\t")) }
	header := []string{"NAMESPACE", "NAME", "READY", "TURN", "REVISION", "AGE"}
	if wide {
		header = append(header, "CHART", "OPERATOR", "URL")
	}
	row(append(header, "REASON")...)
	for _, r := range reports {
		cells := []string{r.Namespace, strings.ToLower(r.Kind) + "/" + r.Name, string(r.Ready), string(r.Turn), "-", duration.HumanDuration(now.Sub(r.Age.Time))}
		chart := "-"
		if r.Release != nil {
			cells[4], chart = fmt.Sprint(r.Release.Revision), safe(r.Release.Chart+" "+r.Release.Version)
		}
		if wide {
			cells = append(cells, chart, safe(r.Operator), safe(r.URL))
		}
		reason, says := r.Reason, r.Message
		if loop := meta.FindStatusCondition(r.Conditions, status.DriftLoop); r.rank() == 5 && loop != nil && !meta.IsStatusConditionTrue(r.Conditions, status.Stalled) { // it is Ready, and that is why it is your turn
			reason, says = loop.Type, loop.Message
		}
		why := r.painted(safe(reason))
		if r.rank() < 7 {
			const most = 120
			message := []rune(safe(says))
			if len(message) > most && !wide {
				message = append(message[:most], '…')
			}
			why += ": " + strings.TrimSpace(string(message)+" "+safe(r.WaitsFor))
		}
		row(append(cells, why)...)
	}
	_ = rows.Flush()
	_, _ = fmt.Fprintln(out, "\n"+summary(reports))
}

// summary counts custom resources by their state.
func summary(reports []*report) string {
	var ready, paused, waiting int
	kinds, reasons := map[string]int{}, map[string]int{}
	for _, r := range reports {
		kinds[r.Kind]++
		switch {
		case r.Ready == metav1.ConditionTrue:
			ready++
		case r.Reason == status.ReasonPaused:
			paused++
		default:
			reasons[r.Reason]++
		}
		if r.WaitsFor != "" {
			waiting++
		}
	}
	var all, why []string
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		all = append(all, counted(kinds[kind], kind))
	}
	for _, reason := range mostCommon(reasons) {
		why = append(why, fmt.Sprintf("%d %s", reasons[reason], reason))
	}
	text := fmt.Sprintf("%s: %d ready", strings.Join(all, ", "), ready)
	if not := len(reports) - ready - paused; not > 0 {
		text += fmt.Sprintf(", %d not (%s)", not, strings.Join(why, ", "))
	}
	if paused > 0 {
		text += fmt.Sprintf(", %d paused", paused)
	}
	if waiting > 0 {
		text += fmt.Sprintf("; %d wait for their turn in a rollout", waiting)
	}
	return text
}
