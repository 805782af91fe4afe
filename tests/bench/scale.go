package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/controlplane"
	"demo.welcome.domain/welcome-operator/tests/kit"
)

const (
	// rungs is the number of steps in which the Welcomes are created.
	rungs = 10
	// sampled is how many Welcomes of each step are created one by one, samplePause apart. They show how long somebody
	// waits who creates one, not how long the queue is after thousands. As many are poked for a reconcile that has
	// nothing to do.
	sampled     = 200
	samplePause = 100 * time.Millisecond
	// floors is the number of Welcomes whose objects are created without an operator at each step, as the floor.
	floors = 300
	// removed is how many Welcomes are deleted in the end.
	removed = 1000
	// toldEvery is how often the progress of a step is printed.
	toldEvery = 30 * time.Second
	// tellLimit bounds how long it may take until Welcomes say that they wait for their turn in a rollout.
	tellLimit = 10 * time.Minute
)

// scaled is what was measured of one operator with increasing numbers of Welcomes.
type scaled struct {
	contender
	baseRSS, baseHeap int64
	steps             []rung

	restart                        time.Duration
	restartRequests, restartWrites int
	peak                           int64 // the highest resident memory of both

	deleted         int
	deletion        time.Duration
	deletedRequests int

	churned                     int
	heapBefore, heapAfter       int64
	goroutinesBefore, goroutine int

	upgraded, waiting     int
	upgrade, telling      time.Duration
	upgradeRequests       int
	told, statusesWritten int
}

// rung is what was measured at one step.
type rung struct {
	welcomes, added int
	installing      time.Duration // until all children of the step exist, without the sampled ones
	floor           time.Duration // of floors
	latencies       []time.Duration
	rss, heap       int64
	goroutines      int
	reconciles      int
	idleRequests    int
	idleCPU         time.Duration
	drifts          result
	scrape          time.Duration
	cpu             map[string]time.Duration // of each process while installing
	memory          map[string]int64         // of each process
}

func (r rung) rate() float64 { return float64(r.added) / r.installing.Seconds() }

// scale measures this operator with increasing numbers of Welcomes.
func (b *bench) scale(ctx context.Context, o options) (scaled, error) {
	pprof, err := kit.FreeAddress()
	if err != nil {
		return scaled{}, err
	}
	s := scaled{contender: contender{
		name: "welcome-operator", user: scaleUser, namespaces: scaleNamespaces, welcomes: o.scale, program: ".", ours: true,
		args: []string{"--pprof-bind-address=" + pprof},
	}}
	if o.scale > deployedFor {
		s.env = []string{fmt.Sprintf("GOMEMLIMIT=%d", memoryLimit(o.scale)/10*9)}
	}
	if o.profiles != "" {
		s.env = append(s.env, "GODEBUG=memprofilerate=8192") // the profile samples an allocation each 8 KiB, not each 512 KiB
	}
	played, stopPlaying := context.WithCancel(ctx)
	defer stopPlaying()
	if err := b.prepareMany(ctx, played, s.contender); err != nil {
		return s, err
	}
	operator, err := b.startAndWait(ctx, s.contender)
	if err != nil {
		return s, err
	}
	m := &scaling{bench: b, scaled: &s, operator: operator, pprof: pprof, profiles: o.profiles}
	defer func() { m.operator.Stop() }()
	if s.baseRSS, err = operator.RSS(); err != nil {
		return s, err
	}
	base, err := m.collected(ctx)
	if err != nil {
		return s, err
	}
	s.baseHeap = base.heap
	steps := []func(context.Context) error{
		func(ctx context.Context) error { return m.grow(ctx, o) }, m.restartAll, m.remove, m.churn,
		func(ctx context.Context) error { stopPlaying(); return m.upgradeSome(ctx) },
	}
	for _, step := range steps {
		if err = step(ctx); err != nil {
			return s, fmt.Errorf("%w\nlast lines of its log:\n%s", err, m.operator.LastLines(20))
		}
	}
	return s, nil
}

// makeServicesHeadless keeps the API server from allocating addresses to Services. For each allocation it counts all
// allocated addresses twice, for its metrics (Used in pkg/registry/core/service/ipallocator of Kubernetes 1.37): with
// 6,000 Services, it creates only half as many objects in a second, for any client.
func (b *bench) makeServicesHeadless(ctx context.Context) error {
	const name = "headless.example.com"
	policy := &admissionregistrationv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
		ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
		MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"services"}},
		}}}},
		Mutations: []admissionregistrationv1.Mutation{{PatchType: admissionregistrationv1.PatchTypeJSONPatch, JSONPatch: &admissionregistrationv1.JSONPatch{
			Expression: `[JSONPatch{op: "add", path: "/spec/clusterIP", value: "None"}]`,
		}}},
	}}
	binding := &admissionregistrationv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: name}}
	if err := errors.Join(b.Client.Create(ctx, policy), b.Client.Create(ctx, binding)); err != nil {
		return err
	}
	return await(ctx, time.Minute, "Services get no address", func() (bool, error) {
		probe := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "probe", Namespace: metav1.NamespaceDefault}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
		err := b.Client.Create(ctx, probe, client.DryRunAll)
		return probe.Spec.ClusterIP == corev1.ClusterIPNone, err
	})
}

// prepareMany prepares a contender with namespaces for many Welcomes. Their objects are made ready until played ends.
func (b *bench) prepareMany(ctx, played context.Context, c contender) error {
	if err := b.prepare(ctx, c); err != nil {
		return err
	}
	if err := b.makeServicesHeadless(ctx); err != nil {
		return err
	}
	for i := range c.namespaces {
		if err := b.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.namespace(i)}}); err != nil {
			return err
		}
	}
	return controlplane.RunDeployments(played, b.Admin)
}

const (
	scaleUser       = "scale"
	scaleNamespaces = 100
	// deployedFor is the number of Welcomes for which config/manager sets the memory.
	deployedFor = 20000
)

// memoryLimit is the memory of the operator's container for that many Welcomes, without the part for trials: as in
// config/manager or, for more Welcomes, as docs/benchmark.md says. GOMEMLIMIT is nine tenths of it.
func memoryLimit(welcomes int) int64 {
	if welcomes <= deployedFor {
		return 768 << 20
	}
	return 100<<20 + 34<<10*int64(welcomes)
}

// scaling is a run of scale.
type scaling struct {
	*bench
	*scaled
	operator        *operator
	pprof, profiles string
}

// collected reads the metrics after two garbage collections: objects that the first one frees may keep others until
// the second.
func (m *scaling) collected(ctx context.Context) (readings, error) {
	var profile []byte
	for range 3 {
		status, text, err := kit.Scrape(ctx, "http://"+m.pprof+"/debug/pprof/heap?gc=1", "")
		if err != nil || status != 200 {
			return readings{}, fmt.Errorf("have the operator collect its garbage: answer %d: %w", status, err)
		}
		profile = []byte(text)
	}
	if m.profiles != "" && m.restart == 0 {
		if err := os.WriteFile(filepath.Join(m.profiles, fmt.Sprintf("heap-%06d.pb.gz", m.total())), profile, 0o600); err != nil {
			return readings{}, err
		}
	}
	return m.read(ctx, m.operator)
}

// grow creates the Welcomes, and ends early when two thirds of the time are over: the rest is for the later phases.
func (m *scaling) grow(ctx context.Context, o options) error {
	start := time.Now()
	for range rungs {
		if time.Since(start) > o.limit*2/3 {
			fmt.Fprintf(os.Stderr, "           %s are over: it stays at %d Welcomes\n", time.Since(start).Round(time.Second), m.total())
			return nil
		}
		r := rung{welcomes: m.total() + o.scale/rungs}
		if err := m.climb(ctx, &r); err != nil {
			return fmt.Errorf("grow to %d Welcomes: %w", r.welcomes, err)
		}
		m.steps = append(m.steps, r)
		passed := time.Since(start)
		fmt.Fprintf(os.Stderr, "  %6.0fs  %d of %d Welcomes, %.1f/s, memory %s, about %s left to create\n", passed.Seconds(), r.welcomes, o.scale, r.rate(), megabytes(r.rss),
			(passed / time.Duration(len(m.steps)) * time.Duration(rungs-len(m.steps))).Round(time.Second))
	}
	return nil
}

func (m *scaling) climb(ctx context.Context, r *rung) error {
	first, count := m.total(), r.welcomes-m.total()
	if err := m.measureFloor(ctx, r, count); err != nil {
		return err
	}
	samples := min(sampled, count/2)
	r.added = count - samples
	use, err := m.accountPrograms(m.operator)
	if err != nil {
		return err
	}
	start := time.Now()
	if _, r.installing, err = m.installed(ctx, first, r.added, func() error { return m.createWelcomes(ctx, m.contender, first, r.added) }); err != nil {
		return err
	}
	if r.cpu, err = use(); err != nil {
		return err
	}
	if err := m.quiet(ctx, m.operator, 0); err != nil {
		return err
	}
	progress(fmt.Sprintf("installed %d Welcomes, %.1f/s, and was done", r.added, r.rate()), start)

	created := map[string]time.Time{}
	had, _, err := m.installed(ctx, first+r.added, samples, func() error {
		for number := first + r.added; number < r.welcomes; number++ {
			created[nameOf(number)] = time.Now()
			if err := m.Client.Create(ctx, m.newWelcome(number)); err != nil {
				return err
			}
			if !pause(ctx, samplePause) {
				return ctx.Err()
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for name, at := range created {
		r.latencies = append(r.latencies, had[name].Sub(at))
	}
	slices.Sort(r.latencies)
	if err := m.quiet(ctx, m.operator, 0); err != nil {
		return err
	}
	return m.look(ctx, r)
}

// installed calls create, waits until that many more Welcomes have their children, and returns when each had them
// and how long all took.
func (m *scaling) installed(ctx context.Context, first, count int, create func() error) (map[string]time.Time, time.Duration, error) {
	wait, err := m.childrenExist(ctx, m.contender, count)
	if err != nil {
		return nil, 0, err
	}
	before, err := m.read(ctx, m.operator)
	if err != nil {
		return nil, 0, err
	}
	start, done := time.Now(), make(chan error, 1)
	if err := create(); err != nil {
		return nil, 0, err
	}
	var had map[string]time.Time
	go func() {
		var err error
		had, err = wait()
		done <- err
	}()
	for {
		select {
		case err := <-done:
			return had, time.Since(start), err
		case <-time.After(toldEvery):
			now, err := m.read(ctx, m.operator)
			if err != nil {
				return nil, 0, err
			}
			made, passed := now.installs-before.installs, time.Since(start)
			if made > 0 {
				left := passed / time.Duration(made) * time.Duration(count-made)
				fmt.Fprintf(os.Stderr, "  %6.0fs  about %d of %d, %.1f/s, %s left of this step\n", passed.Seconds(), first+made, first+count, float64(made)/passed.Seconds(), left.Round(time.Second))
			}
		}
	}
}

// measureFloor times the creation of the same objects without an operator, beside all others. The operator is
// stopped (SIGSTOP) meanwhile, and the objects are deleted before it goes on.
func (m *scaling) measureFloor(ctx context.Context, r *rung, count int) error {
	if err := m.operator.Freeze(); err != nil {
		return err
	}
	start := time.Now()
	err := m.createFloor(ctx, min(floors, count))
	r.floor = time.Since(start) / time.Duration(min(floors, count))
	return errors.Join(err, m.dropFloor(ctx, min(floors, count)), m.operator.Thaw())
}

// floorWelcome has a name for which childrenExist does not wait.
func floorWelcome(number int) *unstructured.Unstructured {
	welcome := newWelcome(scaleUser, number)
	welcome.SetName(fmt.Sprintf("floor-%05d", number))
	return welcome
}

func (m *scaling) createFloor(ctx context.Context, count int) error {
	return forEach(0, count, func(number int) error { return m.createWithChildren(ctx, floorWelcome(number)) })
}

func (m *scaling) dropFloor(ctx context.Context, count int) error {
	return forEach(0, count, func(number int) error {
		welcome := floorWelcome(number)
		objects := []client.Object{welcome}
		for _, object := range []client.Object{&appsv1.Deployment{}, &corev1.Service{}} {
			object.SetNamespace(welcome.GetNamespace())
			object.SetName(welcome.GetName())
			objects = append(objects, object)
		}
		for _, object := range objects {
			if err := client.IgnoreNotFound(m.Client.Delete(ctx, object)); err != nil {
				return err
			}
		}
		return nil
	})
}

// accountPrograms starts to count the CPU time of each program; the operators count as one.
func (b *bench) accountPrograms(operators ...*operator) (use func() (map[string]time.Duration, error), err error) {
	before, err := b.usage(operators...)
	return func() (map[string]time.Duration, error) {
		used, err := b.usage(operators...)
		for program := range used {
			used[program] -= before[program]
		}
		return used, err
	}, err
}

func (b *bench) usage(operators ...*operator) (map[string]time.Duration, error) {
	pids, err := b.pids()
	used := map[string]time.Duration{}
	for program, pid := range pids {
		var cpuErr error
		used[program], cpuErr = controlplane.CPU(pid)
		err = errors.Join(err, cpuErr)
	}
	for _, o := range operators {
		own, ownErr := o.CPU()
		used[operatorProgram] += own
		err = errors.Join(err, ownErr)
	}
	return used, err
}

const operatorProgram = "operator"

// pids are the process IDs of the programs beside the operator.
func (b *bench) pids() (map[string]int, error) {
	pids, err := map[string]int{"bench": os.Getpid()}, error(nil)
	for _, program := range []string{"kube-apiserver", "etcd"} {
		var pidErr error
		pids[program], pidErr = b.PID(program)
		err = errors.Join(err, pidErr)
	}
	return pids, err
}

// look measures what an operator with that many Welcomes costs when it has nothing to do.
func (m *scaling) look(ctx context.Context, r *rung) (err error) {
	start := time.Now()
	if r.rss, err = m.operator.RSS(); err != nil {
		return err
	}
	m.steps = append(m.steps, *r) // for the name of the profile
	now, err := m.collected(ctx)
	m.steps = m.steps[:len(m.steps)-1]
	if err != nil {
		return err
	}
	r.heap, r.goroutines, r.scrape = now.heap, now.goroutines, now.took
	r.memory = map[string]int64{operatorProgram: r.rss}
	pids, err := m.pids()
	if err != nil {
		return err
	}
	for program, pid := range pids {
		if r.memory[program], err = controlplane.RSS(pid); err != nil {
			return err
		}
	}
	idle := result{contender: m.contender}
	idle.pokes = min(sampled, r.welcomes)
	if err := m.measureIdle(ctx, &idle, m.operator); err != nil {
		return err
	}
	r.reconciles, r.idleRequests, r.idleCPU = idle.reconciles, idle.idleRequests, idle.idleCPU
	r.drifts = result{contender: idle.contender, driftFirst: r.welcomes - idle.pokes} // others each time, or it is a fight
	if err := m.measureDrift(ctx, &r.drifts, m.operator); err != nil {
		return err
	}
	progress(fmt.Sprintf("looked at the operator with %d Welcomes: %.1f KB live each, a scrape took %s", r.welcomes, float64(r.heap-m.baseHeap)/1000/float64(r.welcomes), r.scrape), start)
	return nil
}

func (m *scaling) restartAll(ctx context.Context) error {
	grown, err := m.operator.Peak()
	if err != nil {
		return err
	}
	r := result{contender: m.contender}
	r.welcomes = m.total()
	if err := m.measureRestart(ctx, &r, &m.operator); err != nil {
		return err
	}
	restarted, err := m.operator.Peak()
	if err != nil {
		return err
	}
	m.peak = max(grown, restarted)
	m.restart, m.restartRequests, m.restartWrites = r.restart, r.restartRequests, r.restartWrites
	return nil
}

// remove deletes the last Welcomes.
func (m *scaling) remove(ctx context.Context) (err error) {
	m.deleted = min(removed, m.total()/10)
	mark, err := m.Mark(ctx)
	if err != nil {
		return err
	}
	m.deletion, err = m.delete(ctx, m.total()-m.deleted, m.deleted)
	if err != nil {
		return err
	}
	requests, err := m.Requests(ctx, mark, controlplane.By(m.user))
	m.deletedRequests = len(requests)
	return err
}

// delete deletes Welcomes, and waits until they and their objects are gone.
func (m *scaling) delete(ctx context.Context, first, count int) (time.Duration, error) {
	start := time.Now()
	if err := forEach(first, count, func(number int) error { return m.Client.Delete(ctx, m.newWelcome(number)) }); err != nil {
		return 0, err
	}
	err := await(ctx, childrenLimit, "the deleted Welcomes are gone", func() (bool, error) {
		pause(ctx, time.Second) // reading the metrics takes a third of that
		now, err := m.read(ctx, m.operator)
		if err != nil || now.waiting+now.working > 0 {
			return false, errors.Join(err, ctx.Err())
		}
		for number := first; number < first+count; number++ {
			if err := m.Client.Get(ctx, client.ObjectKeyFromObject(m.newWelcome(number)), m.newWelcome(number)); client.IgnoreNotFound(err) != nil || err == nil {
				return false, client.IgnoreNotFound(err)
			}
		}
		return true, nil
	})
	progress(fmt.Sprintf("deleted %d Welcomes", count), start)
	return time.Since(start), err
}

// churn creates and deletes a fifth as many Welcomes as there were, and measures how much memory they leave.
func (m *scaling) churn(ctx context.Context) error {
	m.churned = m.total() / 5
	before, err := m.collected(ctx)
	if err != nil {
		return err
	}
	if _, _, err := m.installed(ctx, m.total(), m.churned, func() error { return m.createWelcomes(ctx, m.contender, m.total(), m.churned) }); err != nil {
		return err
	}
	if err := m.quiet(ctx, m.operator, 0); err != nil {
		return err
	}
	if _, err := m.delete(ctx, m.total(), m.churned); err != nil {
		return err
	}
	if err := m.quiet(ctx, m.operator, 0); err != nil {
		return err
	}
	after, err := m.collected(ctx)
	m.heapBefore, m.goroutinesBefore, m.heapAfter, m.goroutine = before.heap, before.goroutines, after.heap, after.goroutines
	return err
}

// upgradeSome starts a rollout by another image, as a new chart would, over one in a hundred Welcomes. They never
// become ready, so that the others wait.
func (m *scaling) upgradeSome(ctx context.Context) (err error) {
	m.operator.Stop()
	m.waiting = m.total() - m.deleted
	m.upgraded = max(1, m.waiting/100)
	m.waiting -= m.upgraded
	mark, err := m.Mark(ctx)
	if err != nil {
		return err
	}
	c := m.contender
	c.args, c.env = append(slices.Clone(c.args), fmt.Sprintf("--rollout-max-concurrent=%d", m.upgraded)), append(slices.Clone(c.env), "RELATED_IMAGE_WELCOME="+image+"-new")
	start := time.Now()
	if m.operator, err = m.start(c); err != nil {
		return err
	}
	if err := m.ready(ctx, m.operator); err != nil {
		return err
	}
	err = await(ctx, childrenLimit, "one in a hundred is upgraded", func() (bool, error) {
		pause(ctx, time.Second)
		now, err := m.read(ctx, m.operator)
		if err != nil {
			return false, errors.Join(err, ctx.Err())
		}
		if now.upgrades >= m.upgraded && m.upgrade == 0 {
			m.upgrade = time.Since(start)
			requests, err := m.Requests(ctx, mark, controlplane.By(m.user))
			if m.upgradeRequests = len(requests) - len(requests.Statuses()); err != nil {
				return false, err
			}
		}
		m.told, m.telling = now.onTheirWay, time.Since(start)
		return m.upgrade > 0 && (m.told >= m.upgraded+m.waiting || m.telling > tellLimit), nil
	})
	if err != nil {
		return err
	}
	requests, err := m.Requests(ctx, mark, controlplane.By(m.user))
	if err != nil {
		return err
	}
	m.statusesWritten = len(requests.Statuses())
	progress(fmt.Sprintf("upgraded %d Welcomes while %d wait: %s", m.upgraded, m.waiting, requests), start)
	return nil
}

// programs are those whose CPU time is counted.
func (r rung) programs() []string { return slices.Sorted(maps.Keys(r.cpu)) }
