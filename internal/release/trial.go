package release

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// A chart is a program, and a spec its input. Helm bounds neither how long a rendering runs nor how much it
// makes, and nothing can stop one, or keep it from ending this process, and the next one as well. So a spec
// that could make much is first rendered by a process of its own, with limits.
const (
	// trialMemory is what that process may take besides what the chart takes with an empty spec, in bytes. A
	// release has 2 MiB at most. The memory of maxTrials of them is part of limits.memory.
	trialMemory = 48 << 20
	// trialTime is the CPU time that it may take. On a busy machine that may last up to trialPatience; after that,
	// the trial is made again later.
	trialTime, trialPatience = 5 * time.Second, time.Minute
	// maxTrials is how many trials run at once, one in each namespace.
	maxTrials = 2
	// maxNumber, maxElements and maxText bound what is rendered without a trial. The number lets ports pass,
	// elements are those of all lists and maps, and text is in bytes.
	maxNumber, maxElements, maxText = 70_000, 500, 16 << 10
	// maxTimes bounds the iterations, and maxMade the output in bytes, of what is rendered without a trial.
	maxTimes, maxMade = 1_000_000, 16 << 20
	// maxAliases bounds the YAML aliases in texts that have anchors as well. A chart may write a text unquoted, or read
	// it as YAML, of which 16 KiB can stand for a gigabyte. With three aliases, it stands for at most eight times itself.
	maxAliases = 3
	// maxCostly bounds elements, and maxCostlyNumber numbers, if the chart has functions that take tenths of a
	// second.
	maxCostly, maxCostlyNumber = 50, 1000
)

// trialArgument is the only argument of a program that is to serve a trial.
const trialArgument = "render-on-trial"

// looping are functions whose output grows with a number, and which charts nest.
var looping = regexp.MustCompile(`\b(until|untilStep|seq|repeat)\b`)

// costly are functions that take tenths of a second, whatever they are given.
var costly = regexp.MustCompile(`\b(htpasswd|bcrypt|derivePassword|gen[A-Z]\w*)\b`)

// exhausted is what Go prints when a process got no more memory.
var exhausted = regexp.MustCompile(`out of memory|cannot allocate memory`)

// trial is what is to be rendered, as JSON.
type trial struct {
	Name, Namespace string
	Files           []*chart.File // of the chart
	Spec            map[string]any
	KubeVersion     chartutil.KubeVersion
	APIVersions     []string
	IsUpgrade       bool
}

// tryWanted is try with the wanted inputs. A first revision is compared with a rendering as an installation,
// too.
func (a *actionClient) tryWanted() error {
	if a.current != nil && a.current.Revision == 1 {
		return a.try(a.values, a.inputsJSON, false, true)
	}
	return a.try(a.values, a.inputsJSON, a.current != nil)
}

// try fails if rendering the chart with a spec, as an upgrade or not, takes more than the operator can afford.
// The result of a trial is kept, unless somebody asks to have it tried again.
func (a *actionClient) try(spec map[string]any, whole string, upgrades ...bool) error {
	m := measure{}
	m.look(spec, "")
	if runs := a.source.runsValues && m.templates; !runs && !m.isMuch(a.source.loops, a.source.costly) {
		return nil
	}
	inputs := object.Plain.Digest(fmt.Appendf(nil, "%s %t %s", a.source.digest, upgrades, whole))
	if last := a.remembered().trial; last.inputs == inputs && (last.err == nil || a.request == "") {
		return last.err
	}
	namespace := a.owner.GetNamespace()
	if !a.clients.trials.Take(namespace) {
		return noPlace{fmt.Errorf("not begun: another spec with large numbers, long lists or templates is being tried in this namespace, or %d in others", maxTrials)}
	}
	defer a.clients.trials.Give(namespace)
	capabilities := a.clients.capabilities.get()
	var err error
	for _, upgrade := range upgrades {
		ended, failed := trial{a.owner.GetName(), namespace, a.Chart.Raw, spec, capabilities.KubeVersion, capabilities.APIVersions, upgrade}.run(a.ctx)
		if failed != nil {
			return noPlace{fmt.Errorf("not begun: the trial of this spec did not finish: %w", failed)}
		}
		if ended {
			err = notAllowed{fmt.Errorf("not allowed: to render the chart with this spec takes more than %d MiB of memory, or %s of a processor: its largest number, or longest list or map, is %.100s (%.0f), its longest text has %d bytes, and its texts %d YAML aliases (*); change that",
				trialMemory>>20, trialTime, m.most, m.size, m.longest, m.aliases)}
			break
		}
	}
	a.remember(func(n *note) { n.trial = tried{inputs, err} })
	return err
}

// run runs a trial, and says whether a limit has ended it. An error is why that is not known.
func (t trial) run(ctx context.Context) (ended bool, err error) {
	var said bytes.Buffer
	program, err := os.Executable()
	if err != nil {
		return false, err
	}
	input, err := json.Marshal(t)
	if err != nil {
		return false, err
	}
	within, cancel := context.WithTimeout(ctx, trialPatience)
	defer cancel()
	command := exec.CommandContext(within, program, trialArgument)
	// The operator's own limits, such as GOMEMLIMIT, must not apply.
	command.Env, command.Stdin, command.Stderr = []string{"GOMAXPROCS=1"}, bytes.NewReader(input), &said
	if err = command.Run(); within.Err() != nil {
		return false, within.Err()
	}
	if exit, is := errors.AsType[*exec.ExitError](err); is && (exhausted.Match(said.Bytes()) || exit.UserTime()+exit.SystemTime() >= trialTime) {
		return true, nil
	}
	return false, err
}

// ServedTrial serves a trial if these arguments ask for one, and then is true: main has nothing else to do.
func ServedTrial(args []string, input io.Reader) bool {
	if !slices.Equal(args, []string{trialArgument}) {
		return false
	}
	serveTrial(input)
	return true
}

// serveTrial renders a chart that it reads as JSON, and drops the result. If that takes too much, the process
// ends. Errors of the chart or the values are left for the operator to find.
func serveTrial(input io.Reader) {
	text, err := io.ReadAll(input)
	if err != nil {
		return
	}
	t := trial{}
	if err := utiljson.Unmarshal(text, &t); err != nil { // this keeps whole numbers, over which templates range
		return
	}
	files := []*loader.BufferedFile{}
	for _, file := range t.Files {
		files = append(files, &loader.BufferedFile{Name: file.Name, Data: file.Data})
	}
	c, err := loader.LoadFiles(files)
	if err != nil {
		return
	}
	revision := 1
	if t.IsUpgrade {
		revision = 2
	}
	render := func(spec map[string]any) {
		_, _ = renderWith(&metav1.ObjectMeta{Name: t.Name, Namespace: t.Namespace}, c, spec, &t.KubeVersion, t.APIVersions, revision)
	}
	render(map[string]any{}) // what the chart takes by itself does not count
	bound()
	render(t.Spec)
}

// bound lets the process take trialTime and, where the system can bound that, trialMemory more.
func bound() {
	used := syscall.Rusage{}
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err == nil {
		seconds := uint64(time.Duration(used.Utime.Nano()+used.Stime.Nano())+trialTime+time.Second-1) / uint64(time.Second)
		_ = syscall.Setrlimit(syscall.RLIMIT_CPU, &syscall.Rlimit{Cur: seconds, Max: seconds + 1}) // less is always allowed
	}
	taken := runtime.MemStats{}
	runtime.ReadMemStats(&taken)
	debug.SetMemoryLimit(int64(taken.Sys) + trialMemory/2) // garbage is collected before the end is near
	statm, err := os.ReadFile("/proc/self/statm")
	fields := strings.Fields(string(statm))
	if err != nil || len(fields) < 6 {
		return
	}
	pages, err := strconv.ParseUint(fields[5], 10, 64)
	if err != nil {
		return
	}
	limit := pages*uint64(os.Getpagesize()) + trialMemory
	_ = syscall.Setrlimit(syscall.RLIMIT_DATA, &syscall.Rlimit{Cur: limit, Max: limit})
}

// measure says how much a chart could make of a spec.
type measure struct {
	largest, second float64 // of its numbers
	elements        int     // of its lists and maps, together
	longest         int     // of its texts, in bytes
	templates       bool    // whether there are any among these
	anchors         bool    // whether there are any of YAML
	aliases         int     // of YAML, in all texts
	most            string  // the path of the largest number, or of the longest list or map
	size            float64 // and how large that is
}

// look measures a value.
func (m *measure) look(value any, path string) {
	switch value := value.(type) {
	case map[string]any:
		m.has(len(value), path)
		for key, element := range value {
			m.reads(key)
			m.look(element, below(path, key))
		}
	case []any:
		m.has(len(value), path)
		for _, element := range value {
			m.look(element, path+"[]")
		}
	case string:
		m.reads(value)
		m.counts(math.Abs(number(value)), path)
	default:
		m.counts(math.Abs(number(value)), path)
	}
}

func (m *measure) reads(text string) {
	m.longest, m.templates = max(m.longest, len(text)), m.templates || strings.Contains(text, "{{")
	m.anchors, m.aliases = m.anchors || strings.Contains(text, "&"), m.aliases+strings.Count(text, "*")
}

func (m *measure) has(elements int, path string) {
	m.elements += elements
	m.note(float64(elements), path)
}

func (m *measure) counts(number float64, path string) {
	m.second = max(m.second, min(m.largest, number))
	m.largest = max(m.largest, number)
	m.note(number, path)
}

func (m *measure) note(size float64, path string) {
	if size > m.size {
		m.size, m.most = size, cmp.Or(path, "the spec")
	}
}

// isMuch is whether that could be too much. The chart may go through one half of the elements within a loop over the other,
// and write a text each time (four times as often where it goes through the same list again, which limits.memory has room
// for). loops is whether the chart has loops that numbers bound: a number may bound a loop
// within another one with the same bound, and with others. costly is whether it has costly functions.
func (m *measure) isMuch(loops, costly bool) bool {
	elements := float64(m.elements)
	times, within := max(m.largest, elements), min(m.largest, elements)
	return m.largest > maxNumber || m.elements > maxElements || m.longest > maxText ||
		times*max(within, float64(m.longest)) > maxMade || elements*elements/4*float64(m.longest) > maxMade ||
		m.anchors && m.aliases > maxAliases || loops && times*times*max(m.second, within, 1) > maxTimes || costly && (m.elements > maxCostly || m.largest > maxCostlyNumber)
}

// number is what Helm's functions convert a value to, which may be a text.
func number(value any) float64 {
	text := strings.TrimSpace(fmt.Sprint(value))
	if whole, err := strconv.ParseInt(text, 0, 64); err == nil {
		return float64(whole)
	}
	part, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil:
		return 0
	case math.IsNaN(part): // it is converted to the smallest integer
		return math.Inf(1)
	}
	return part
}
