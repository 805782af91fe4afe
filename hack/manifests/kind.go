package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"demo.welcome.domain/welcome-operator/hack/manifests/infer"
	obj "demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/internal/operator"
	"demo.welcome.domain/welcome-operator/internal/record"
	"demo.welcome.domain/welcome-operator/internal/release"
)

const managerFile = "config/manager/manager.yaml"

// leastName is how long the names of custom resources of a kind have to be allowed to be.
const leastName = 10

// wanted is a kind that somebody asks for.
type wanted struct {
	chart string
	gvk   schema.GroupVersionKind
	pins  []string // path=value
	allow []string // paths
	into  string   // the directory of an operator of its own, empty for this one
}

var (
	groupPattern   = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+$`)
	versionPattern = regexp.MustCompile(`^v[0-9]+((alpha|beta)[0-9]+)?$`)
	kindPattern    = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)
)

// parseWanted reads the arguments that make kind gives.
func parseWanted(args []string) (wanted, error) {
	var w wanted
	var pins, allow string
	flags := flag.NewFlagSet("kind", flag.ContinueOnError)
	flags.StringVar(&w.chart, "chart", "", "CHART: a chart's directory or .tgz")
	flags.StringVar(&w.gvk.Group, "group", "", "GROUP, as apps.example.com")
	flags.StringVar(&w.gvk.Version, "version", "", "VERSION, as v1")
	flags.StringVar(&w.gvk.Kind, "kind", "", "KIND, as MyApp")
	flags.StringVar(&pins, "pin", "", "PIN: values that nobody may change, as \"image.repository=nginx image.tag=1.27\"")
	flags.StringVar(&allow, "allow", "", "ALLOW: values that are fields although they reach an image, a command or the like, as \"image.tag\"")
	flags.StringVar(&w.into, "into", "", "INTO: the directory of an operator of its own, as ../myapp-operator")
	if err := flags.Parse(args); err != nil {
		return w, err
	}
	w.pins, w.allow = strings.Fields(pins), strings.Fields(allow)
	switch {
	case w.chart == "":
		return w, errors.New("CHART is empty: say where the chart is, a directory or a .tgz")
	case strings.Contains(w.chart, "://"):
		return w, fmt.Errorf("CHART is %s: fetch it first (helm pull), and name the .tgz", w.chart)
	case !groupPattern.MatchString(w.gvk.Group):
		return w, fmt.Errorf("GROUP is %q: write a domain, as apps.example.com", w.gvk.Group)
	case !versionPattern.MatchString(w.gvk.Version):
		return w, fmt.Errorf("VERSION is %q: write v1, or v1alpha1", w.gvk.Version)
	case !kindPattern.MatchString(w.gvk.Kind):
		return w, fmt.Errorf("KIND is %q: write MyApp", w.gvk.Kind)
	case record.NamesKind.MaxLength(w.gvk.Kind) < leastName:
		return w, fmt.Errorf("KIND has %d letters: names of Helm releases have at most 53 characters, the kind among them, and would leave too few for the name of a %s", len(w.gvk.Kind), w.gvk.Kind)
	}
	for _, pin := range w.pins {
		if path, _, ok := strings.Cut(pin, "="); !ok || path == "" {
			return w, fmt.Errorf("PIN has %q: write path=value, as image.tag=1.27", pin)
		}
	}
	return w, nil
}

// make makes the kind, here or for an operator of its own.
func (w wanted) make() (err error) {
	if w.into == "" {
		return makeKind(w)
	}
	if w.chart, err = filepath.Abs(w.chart); err != nil {
		return err
	}
	return inOwn(w.into, func() error { return makeKind(w) })
}

// makeKind copies a chart, unless it is where it belongs, adds its entry to watches.yaml, and leaves all else
// to run. Of a kind that is there, it replaces the chart by another version. If that fails, nothing is changed.
func makeKind(w wanted) (err error) {
	entries, err := readEntries()
	if err != nil {
		return err
	}
	at := slices.IndexFunc(entries, func(entry operator.Entry) bool { return strings.EqualFold(entry.Kind, w.gvk.Kind) })
	isNew, dir := at < 0, filepath.Join("helm-charts", strings.ToLower(w.gvk.Kind))
	if isNew {
		at = len(entries)
	} else {
		if dir, err = filepath.EvalSymlinks(entries[at].ChartPath); err != nil {
			return err
		}
	}
	chrt, err := loadChart(w.chart)
	if err != nil {
		return fmt.Errorf("chart %s: %w", w.chart, err)
	}
	there, err := os.Stat(dir)
	given, _ := os.Stat(w.chart)
	inPlace := err == nil && os.SameFile(there, given)
	if isNew && !inPlace && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is there: remove it, or choose another KIND", dir)
	}
	if !isNew {
		if err := w.mayReplace(entries, at, chrt); err != nil {
			return err
		}
	}
	watches, err := os.ReadFile(watchesFile)
	if err != nil {
		return err
	}
	manager, err := os.ReadFile(managerFile)
	if err != nil {
		return err
	}
	former, replaces := dir+".former", !isNew && !inPlace
	if replaces {
		if err := os.Rename(dir, former); err != nil {
			return fmt.Errorf("put the chart aside (is %s what a make kind has left that was killed? Remove %[2]s, and move it there): %[3]w", former, dir, err)
		}
		if _, err := os.Stat(w.chart); err != nil {
			return errors.Join(fmt.Errorf("CHART is %s, in the chart that it is to replace: move it elsewhere", w.chart), os.Rename(former, dir))
		}
	}
	defer func() {
		if err == nil {
			if replaces {
				err = os.RemoveAll(former) // what is left of it must not come back
			}
			return
		}
		if !inPlace {
			err = errors.Join(err, os.RemoveAll(dir))
		}
		if replaces {
			err = errors.Join(err, os.Rename(former, dir))
		}
		err = errors.Join(err, os.WriteFile(watchesFile, watches, 0o644), os.WriteFile(managerFile, manager, 0o644))
		if errors.As(err, &infer.TooMuch{}) && !errors.Is(err, infer.ErrInterrupted) { // and still does. So far, nothing was made of the chart
			return
		}
		infer.Ended = nil // who presses ctrl-C again waits for what undoes the first time
		if again := run(); again != nil {
			err = errors.Join(err, fmt.Errorf("and what was there before can't be made again: %w", again))
		}
	}()
	defer infer.Caught(&err)
	if !inPlace {
		if err := writeChart(dir, chrt); err != nil {
			return err
		}
	}
	if isNew {
		if err := w.addEntry(dir, chrt, string(watches)); err != nil {
			return err
		}
	}
	kinds, err := generate()
	if err != nil {
		return err
	}
	select {
	case <-infer.Ended: // after the last rendering
		return infer.ErrInterrupted
	default:
	}
	fmt.Print(kinds[at].report(w.into))
	return nil
}

// addEntry writes the entry of a new kind, whose chart is in dir, after what watches.yaml has, and the
// variables that it refers to.
func (w wanted) addEntry(dir string, chrt *chart.Chart, watches string) error {
	text, variables, err := w.entry(dir, chrt)
	if err != nil {
		return err
	}
	if err := os.WriteFile(watchesFile, []byte(strings.TrimRight(watches, "\n")+"\n"+text), 0o644); err != nil || variables == "" {
		return err
	}
	return replace(managerFile, regexp.MustCompile(`(?m)^        - name: WATCH_NAMESPACE`), variables+"        - name: WATCH_NAMESPACE")
}

// mayReplace is why the chart of an entry is not replaced, nil if it may: it has to be another version of it,
// and what the entry says is people's to change.
func (w wanted) mayReplace(entries []operator.Entry, at int, by *chart.Chart) error {
	entry := entries[at]
	served, err := loader.Load(entry.ChartPath)
	others := slices.IndexFunc(entries, func(other operator.Entry) bool { return other.ChartPath == entry.ChartPath && other.Kind != entry.Kind })
	switch {
	case others >= 0:
		return fmt.Errorf("%s is the chart of %s, too: replace it by hand, then make manifests", entry.ChartPath, entries[others].Kind)
	case entry.GroupKind() == w.gvk.GroupKind() && entry.Version != w.gvk.Version:
		return fmt.Errorf("VERSION is %s, and %s is served as %s: docs/upgrade.md#another-version-of-a-kind says what another one takes", w.gvk.Version, entry.Kind, entry.Version)
	case entry.GroupVersionKind != w.gvk:
		return fmt.Errorf("%s has a kind %s: an operator serves kinds of different names", watchesFile, entry.Kind)
	case err != nil:
		return fmt.Errorf("chart %s: %w", entry.ChartPath, err)
	case served.Name() != by.Name():
		return fmt.Errorf("%s is served by chart %s, not %s: for another version of its chart, name that. For another chart, replace %s by hand, then make manifests", entry.Kind, served.Name(), by.Name(), entry.ChartPath)
	case len(w.pins)+len(w.allow) > 0:
		return fmt.Errorf("%s is in %s: change overrideValues and allow.values there, and leave out PIN and ALLOW", entry.Kind, watchesFile)
	}
	return nil
}

// loadChart reads a chart that somebody else may have written. It refuses links that lead out of the chart, or to
// directories: Helm follows them, and what is there would be copied with the chart.
func loadChart(place string) (*chart.Chart, error) {
	root, err := filepath.Abs(place)
	if err != nil {
		return nil, err
	}
	if root, err = filepath.EvalSymlinks(root); err != nil {
		return nil, err
	}
	err = filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Type()&fs.ModeSymlink == 0 {
			return err
		}
		target, err := filepath.EvalSymlinks(file)
		if err != nil {
			return fmt.Errorf("%q is a link that leads nowhere: put a copy in its place if that belongs to the chart, or else remove the link: %w", file, err)
		}
		if within, err := filepath.Rel(root, target); err != nil || !filepath.IsLocal(within) {
			return fmt.Errorf("%q is a link to %q, which is not in the chart's directory: put a copy in its place if that belongs to the chart, or else remove the link", file, target)
		}
		if to, err := os.Stat(target); err != nil || to.IsDir() { // some that lead to each other are more than any memory holds
			return errors.Join(fmt.Errorf("%q is a link to a directory: put a copy in its place if that belongs to the chart, or else remove the link", file), err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return loader.Load(place)
}

// writeChart writes the files that Helm has read, which are those that the chart does not ignore. Git would take a copy
// with the repository of a checkout for another repository, and commit none of its files.
func writeChart(dir string, c *chart.Chart) error {
	for _, file := range c.Raw {
		if slices.Contains(strings.Split(file.Name, "/"), ".git") {
			continue
		}
		name := filepath.Join(dir, filepath.FromSlash(file.Name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, file.Data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// entry is the text for watches.yaml, and that of the variables that it refers to for manager.yaml.
func (w wanted) entry(dir string, c *chart.Chart) (text, variables string, err error) {
	text = fmt.Sprintf("- group: %s\n  version: %s\n  kind: %s\n  chart: %s\n  # A %[3]s may have the name of another kind's custom resource.\n  releaseName: kind\n", w.gvk.Group, w.gvk.Version, w.gvk.Kind, dir)
	var entry operator.Entry
	entry.GroupVersionKind, entry.ChartPath, entry.OverrideValues = w.gvk, dir, map[string]string{}
	for _, pin := range w.pins {
		path, value, _ := strings.Cut(pin, "=")
		entry.OverrideValues[path] = value
	}
	if err := release.CheckChart(c, entry.OverrideValues); err != nil {
		return "", "", err
	}
	t, err := infer.New(entry, c, nil)
	if err != nil {
		return "", "", err
	}
	values, err := t.Values()
	if err != nil {
		return "", "", err
	}
	names, err := relatedImages()
	if err != nil {
		return "", "", err
	}
	if len(w.pins) > 0 {
		text += "  overrideValues:\n"
	}
	for _, pin := range w.pins {
		path, value, _ := strings.Cut(pin, "=")
		if w.into == "" && infer.IsImage(c, values, path) {
			variable := "RELATED_IMAGE_" + strings.ToUpper(notInVariables.ReplaceAllString(w.gvk.Kind+"_"+strings.TrimSuffix(path, "image"), "_"))
			variable = unused(strings.TrimRight(variable, "_"), names)
			variables += fmt.Sprintf("        - name: %s\n          value: %s\n", variable, value)
			value = "${" + variable + "}"
		}
		text += fmt.Sprintf("    %s: %q\n", path, value)
	}
	objects, err := t.With(values)
	if err != nil {
		return "", "", fmt.Errorf("the chart can't be rendered with its defaults: correct it or, where it asks for a value, give that as PIN=path=value or, where each %s is to say its own, as a default in its values.yaml:\n%w", w.gvk.Kind, err)
	}
	var words []string
	for _, r := range objects {
		for _, word := range obj.PodWords(r.Object) {
			if !slices.Contains(words, word) {
				words = append(words, word)
			}
		}
	}
	if len(words)+len(w.allow) > 0 {
		text += "  allow:\n"
	}
	if len(w.allow) > 0 {
		text += fmt.Sprintf("    # Who may write a %s has a say in what its pods run.\n    values: %s\n", w.gvk.Kind, infer.Compact(w.allow))
	}
	if len(words) > 0 {
		text += fmt.Sprintf("    # The chart has its pods use these, whatever a %s says.\n    pods: [%s]\n", w.gvk.Kind, strings.Join(words, ", "))
	}
	return text, variables, nil
}
