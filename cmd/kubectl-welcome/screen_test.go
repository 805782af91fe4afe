package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"demo.welcome.domain/welcome-operator/internal/release"
	"demo.welcome.domain/welcome-operator/tests/kit"
)

func TestScreen(t *testing.T) {
	r := reportOf(seen("hello", pulling, "Reconciling=True:ImagePullFailed:x", "Tested=False:TestsFailed:pod a failed", "IgnoredAnnotations=True:NoEffect:Without effect: paused."))
	at := metav1.NewTime(start.Add(-12 * time.Minute))
	drift := happening{Last: at, Count: 3, Type: "Normal", Reason: "DriftCorrected", Message: `Service "hello": put back spec.type, which was changed by field manager "kubectl-edit"`}
	r.details = &details{
		Objects: []*node{
			{Kind: "Deployment", Name: "hello", Health: "InProgress", Message: "Available: 0/1", Parts: []*node{
				{Kind: "Pod", Name: "hello-1", Health: "InProgress", Message: "ImagePullBackOff, 0 of 1 ready"},
				{Kind: "Pod", Name: "hello-2", Health: "Current", Message: "Running, 1 of 1 ready"},
			}},
			{Kind: "Service", Name: "hello", Health: "Current"},
			{Kind: "Ingress", Name: "hello", Health: "Unknown", Message: "you may not read it"},
		},
		Drift:  []happening{drift},
		Events: []happening{{Last: at, Count: 1, Type: "Warning", Reason: "Failed", Message: "bad \033[2Jimage\nof two lines"}, drift},
		Unread: []string{"you have no right to read pods", "x.example.com: \033[2J"},
	}
	var out strings.Builder
	screen(&out, r, start)
	want := `Welcome hello in namespace shop
Not ready: ImagePullFailed, for 5m
  Pod "a" cannot pull the image b: not found
  It is your turn.

Release     hello, revision 3, deployed 60m ago from chart welcome 0.1.0
Spec        applied: generation 2
URL         http://hello.shop.svc:8080/hello/
Operator    system/lease
Tested      False, 5m ago: pod a failed
Annotations Without effect: paused.

Objects
├─ Deployment/hello  InProgress  Available: 0/1
│  ├─ Pod/hello-1  InProgress  ImagePullBackOff, 0 of 1 ready
│  └─ Pod/hello-2  Current  Running, 1 of 1 ready
├─ Service/hello     Current
└─ Ingress/hello     Unknown  you may not read it

Drift in the last hour
  12m ago (3 times)  DriftCorrected  Service "hello": put back spec.type, which was changed by field manager "kubectl-edit"

Events
  12m ago  Failed  bad �[2Jimage of two lines
  12m ago (3 times)  DriftCorrected  Service "hello": put back spec.type, which was changed by field manager "kubectl-edit"

Missing here: you have no right to read pods; x.example.com: �[2J.
`
	if out.String() != want {
		t.Errorf("got\n%s", out.String())
	}
}

// Whether an operator runs at all is not known of a custom resource that none has looked at.
func TestScreenOfWhatNobodyHasSeen(t *testing.T) {
	var out strings.Builder
	obj := welcome("hello", nil)
	screen(&out, reportOf(&obj), time.Now())
	if said := out.String(); !strings.Contains(said, "turn, if one runs.") || strings.Contains(said, "wait") {
		t.Error(said)
	}
}

// Where others keep changing an object of what is Ready, the table says so: it is your turn.
func TestTableOfADriftLoop(t *testing.T) {
	var out strings.Builder
	table(&out, []*report{reportOf(seen("hello", healthy, "DriftLoop=True:DriftLoop:Service \"hello\": spec.type was changed"))}, false, start)
	if want := "True    you    3          24h   DriftLoop: Service \"hello\": spec.type was changed"; !strings.Contains(out.String(), want) {
		t.Error(out.String())
	}
}

// What is said of several objects is a line for each.
func TestScreenOfSeveralObjects(t *testing.T) {
	var out strings.Builder
	screen(&out, reportOf(seen("hello", "Ready=False:ObjectInTheWay:Service \"hello\" exists\nDeployment \"hello\" exists", "Stalled=True:ObjectInTheWay:x")), start)
	if want := "Not ready: ObjectInTheWay, for 5m\n  Service \"hello\" exists\n    Deployment \"hello\" exists\n  It is your turn.\n"; !strings.Contains(out.String(), want) {
		t.Error(out.String())
	}
}

// The message about a rollout names objects of others: it is made safe for a terminal.
func TestRolloutIsText(t *testing.T) {
	r := reportOf(seen("hello", "Ready=True:Healthy:Well. "+release.Outdated+"\033[2Jothers."))
	r.details = &details{}
	var out strings.Builder
	screen(&out, r, start)
	table(&out, []*report{r}, false, start)
	if strings.Contains(out.String(), "\033") || strings.Count(out.String(), "�[2Jothers") != 2 {
		t.Errorf("got\n%q", out.String())
	}
}

// A kind of somebody else's may have a status that anybody writes.
func TestStatusIsText(t *testing.T) {
	obj := seen("hello", healthy)
	theirs := "a\tb\033[2Jc"
	obj.Object["status"].(map[string]any)["operator"] = theirs
	of := obj.Object["status"].(map[string]any)["release"].(map[string]any)
	for _, field := range []string{"name", "chart", "version", "status"} {
		of[field] = theirs
	}
	var out strings.Builder
	screen(&out, reportOf(obj), start)
	table(&out, []*report{reportOf(obj)}, true, start)
	if strings.Contains(out.String(), "\033") || strings.Count(out.String(), "a b�[2Jc") != 8 {
		t.Errorf("got\n%q", out.String())
	}
}

// An error may quote what others have written, which is made safe, and keeps its own line breaks.
func TestErrorsAreText(t *testing.T) {
	streams, _, _, notes := genericiooptions.NewTestIOStreams()
	code := newCluster(streams).codeOf(errors.New("made of \033[2Jothers\nTo go back:\n  kubectl delete welcome/hello"))
	if want := "error: made of \uFFFD[2Jothers\nTo go back:\n  kubectl delete welcome/hello\n"; code != 1 || notes.String() != want {
		t.Errorf("%d, %q", code, notes.String())
	}
}

func TestTable(t *testing.T) {
	reports := []*report{reportOf(seen("bad", pulling)), reportOf(with(seen("idle", "Ready=Unknown:Paused:x"), kit.Pause(true))), reportOf(seen("hello", healthy))}
	var out strings.Builder
	table(&out, reports, false, start)
	want := `NAMESPACE   NAME            READY     TURN     REVISION   AGE   REASON
shop        welcome/bad     False     you      3          24h   ImagePullFailed: Pod "a" cannot pull the image b: not found
shop        welcome/idle    Unknown   you      3          24h   Paused: Somebody has paused it. To end that: kubectl welcome resume idle -n shop
shop        welcome/hello   True      nobody   3          24h   Healthy

3 Welcomes: 1 ready, 1 not (1 ImagePullFailed), 1 paused
`
	if out.String() != want {
		t.Errorf("got\n%s", out.String())
	}
}
