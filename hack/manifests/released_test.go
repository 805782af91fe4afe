package main

import (
	"fmt"
	"strings"
	"testing"
)

func TestAChangedChartNeedsANewVersion(t *testing.T) {
	const chart, template, readme = "helm-charts/welcome/Chart.yaml", "helm-charts/welcome/templates/service.yaml", "helm-charts/welcome/README.md"
	inCopy(t)
	change := func(file string) { write(t, file, read(t, file)+"\n") }
	setVersion := func(version string) {
		write(t, chart, versionLine.ReplaceAllString(read(t, chart), "version: "+version+"\n"))
	}
	setReleases := func(versions ...string) {
		text := "entries:\n- schema: olm.channel\n  entries:\n"
		for _, version := range versions {
			text += fmt.Sprintf("  - name: welcome-operator.v%s\n", version)
		}
		write(t, catalogFile, text)
	}
	accepted := func(when string) {
		t.Helper()
		if err := run(); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
	}
	recorded := func(when, release, version string) {
		t.Helper()
		if text := read(t, releasedFile); !strings.Contains(text, "release: "+release) || !strings.Contains(text, "version: "+version) {
			t.Errorf("%s: want release %s with version %s of the chart recorded, got:\n%s", when, release, version, text)
		}
	}
	refused := func(when, release, version string) {
		t.Helper()
		err := run()
		if err == nil {
			t.Fatalf("%s: no error", when)
		}
		for _, want := range []string{"helm-charts/welcome", "release " + release, "version " + version, "raise version in " + chart} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: the error lacks %q: %v", when, want, err)
			}
		}
		recorded(when, release, version)
	}

	write(t, releasedFile, "")
	setVersion("1.2.3")
	setReleases("0.2.0", "0.9.0")
	accepted("the first record")
	recorded("the first record", "0.9.0", "1.2.3")

	change(readme)
	accepted("a changed README")
	for _, file := range []string{template, chart, "helm-charts/welcome/values.yaml", "helm-charts/welcome/values.schema.json"} {
		before := read(t, file)
		change(file)
		refused(file, "0.9.0", "1.2.3")
		write(t, file, before)
		accepted(file + " as before")
	}
	setVersion("1.3.0")
	accepted("a higher version alone")

	change(template)
	setVersion("1.2.2")
	refused("a change with a lower version", "0.9.0", "1.2.3")
	setReleases("0.2.0", "0.9.0", "0.10.0")
	refused("a release with a lower version", "0.9.0", "1.2.3")
	setReleases("0.2.0", "0.9.0")
	setVersion("1.2.4")
	accepted("a change with a higher version")
	change(template)
	accepted("another change of the unreleased version")
	recorded("before the release", "0.9.0", "1.2.3")

	setReleases("0.2.0", "0.9.0", "0.10.0")
	accepted("the next release")
	recorded("the next release", "0.10.0", "1.2.4")
	change(template)
	refused("a change after that", "0.10.0", "1.2.4")
}

func TestReleasesHaveVersions(t *testing.T) {
	inCopy(t)
	write(t, catalogFile, "entries: [{schema: olm.channel, entries: [{name: welcome-operator-latest}]}]\n")
	if err := run(); err == nil || !strings.Contains(err.Error(), catalogFile) || !strings.Contains(err.Error(), `"welcome-operator-latest"`) {
		t.Errorf("the error is %v", err)
	}
}
