package release

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/release"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

// RunTests is the annotation of a custom resource that asks for the tests of its chart (helm.sh/hook: test).
// They run once for each new value, of which MaxRequest bytes count.
const (
	RunTests   = "webapp.demo.welcome.domain/test"
	MaxRequest = 63
)

// testPause is after how long a custom resource asks again that has found no place to run its tests.
const testPause = 20 * time.Second

// Tests is what became of the tests of a chart.
type Tests struct {
	// Asked is the value of the annotation that asked for them. It is empty if none ran since the operator started.
	Asked string
	// Generation of the custom resource that was tested: it may have been edited meanwhile.
	Generation int64
	// Run are their objects.
	Run []string
	// Err is why they failed, nil if they did not.
	Err error
}

// String says what succeeded.
func (t Tests) String() string {
	if len(t.Run) == 0 {
		return "The chart has no tests"
	}
	return "Succeeded: " + strings.Join(t.Run, ", ")
}

// test runs the tests of a release that is as the chart and the spec have it, once all of its objects are
// healthy, if somebody asks for that. What becomes of them changes nothing else.
func (a *actionClient) test() {
	asked := a.askedBy(RunTests)
	if ran := cmp.Or(a.state().Tests.Asked, textInStatus(a.owner, "tested")); asked == "" || asked == ran || a.current.Status != release.StatusDeployed {
		return
	}
	if !a.proven || a.health() != healthy || !a.testPlaces.Take(a.owner.GetNamespace()) { // unproven, health would look at what somebody has written into the record
		a.schedule.after(a.owner, testPause)
		return
	}
	defer a.testPlaces.Give(a.owner.GetNamespace())
	a.Waits(a.ctx, a.owner) // else it says for as long as the tests take what it said before all objects were healthy
	tests := Tests{Asked: asked, Generation: a.owner.GetGeneration()}
	var err error
	tests.Run, tests.Err, err = a.runTests()
	if a.ctx.Err() != nil {
		return // the operator stops: the next one runs them
	}
	if err != nil {
		logf.FromContext(a.ctx).Error(err, "The tests of the chart cannot be begun; trying again", "after", testPause.String())
		a.schedule.after(a.owner, testPause)
		return
	}
	a.remember(func(n *note) { n.state.Tests = tests })
	if tests.Err != nil {
		a.warn(TestsFailed, tests.Err.Error())
	} else {
		a.tell(TestsSucceeded, "%s", tests.String())
	}
}

// runTests runs those of the chart as it is now, with what the custom resource says now, and names their
// objects. An error is that they could not be begun.
func (a *actionClient) runTests() (run []string, failed, err error) {
	if !a.Tests {
		return nil, errors.New("not allowed: without tests: true, the operator's watches.yaml allows this kind no tests"), nil
	}
	op, err := a.begin(nil, false)
	if err != nil {
		return nil, nil, err
	}
	defer op.end()
	rel, err := a.rerender(op)
	if err != nil {
		return nil, nil, err
	}
	due := slices.DeleteFunc(slices.Clone(rel.Hooks), func(hook *release.Hook) bool { return !slices.Contains(hook.Events, release.HookTest) })
	for _, hook := range due {
		run = append(run, fmt.Sprintf("%s %q", hook.Kind, hook.Name))
	}
	op.tests = true
	if failed = op.judgeHooks(due); failed == nil {
		failed = op.runHooks(due, release.HookTest)
	}
	return run, brief(a.told(failed)), nil
}
