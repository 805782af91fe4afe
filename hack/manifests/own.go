package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"demo.welcome.domain/welcome-operator/internal/operator"
)

// An operator of its own is a directory with what makes another operator of the image of this one:
// watches.yaml and charts, and one file with all that the cluster has to have. Whoever has the directory and
// the image needs nothing of this repository, nor the network.
const (
	ownDockerfile = `# %s: the operator that serves the kinds of watches.yaml.
FROM %s
COPY --chmod=644 watches.yaml ./
COPY --chmod=755 helm-charts helm-charts/
`
	ownKustomization = `# What goes to the cluster: kubectl apply --server-side --kustomize . Write what you want to be different here: operator.yaml is generated.
resources:
- operator.yaml
images:
- name: %s
  newTag: %s
# The policy names the operator's ServiceAccount in a text that kustomize does not know. With these, it follows another namespace or namePrefix here. An overlay
# of this that has one needs them, too: else the policy bounds nobody.
replacements:
- source: {kind: ServiceAccount, name: %[3]s-controller-manager, fieldPath: metadata.namespace}
  targets:
  - select: {kind: ValidatingAdmissionPolicy, name: %[3]s-controller-manager}
    fieldPaths: [spec.matchConditions.0.expression]
    options: {delimiter: ":", index: 2}
- source: {kind: ServiceAccount, name: %[3]s-controller-manager, fieldPath: metadata.name}
  targets:
  - select: {kind: ValidatingAdmissionPolicy, name: %[3]s-controller-manager}
    fieldPaths: [spec.matchConditions.0.expression]
    options: {delimiter: ":", index: 3}
# Where network policies are enforced and the API server listens on neither 443 nor 6443 (kubectl get endpointslices -n default -l kubernetes.io/service-name=kubernetes), with its port:
# patches:
# - target: {kind: NetworkPolicy, name: %[3]s-controller-manager}
#   patch: '- {op: add, path: /spec/egress/0/ports/-, value: {port: 16443}}'
`
	// What Welcome's operator is told in config/ is not for this one, which would watch other namespaces without a word.
	ownOverlay = `resources: [../default]
patches:
- target: {kind: Deployment}
  patch: |-
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: manager}
    spec:
      template:
        spec:
          containers:
          - name: manager
            args: [--leader-elect, --leader-election-id=%s]
            env: [{name: WATCH_NAMESPACE, value: "", valueFrom: null}]
`
	ownManifest = generated + `.
#
# The operator %s, with its kinds, its rights, and the policy that bounds them.
`
)

// own is an operator of its own.
type own struct {
	dir, name string
	// base is the image that its own is made from.
	base, image, tag string
}

var (
	ownName  = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,26}[a-z0-9])?$`) // with -controller-manager-metrics-service, it is that of a Service: 63 characters
	ownImage = regexp.MustCompile(`(?m)^        image: (\S+/)welcome-operator:(\S+)$`)
	ownLabel = `app\.kubernetes\.io/name: welcome-operator`
	comments = regexp.MustCompile(`^(#.*\n)+`)
	rules    = regexp.MustCompile(`(?ms)^rules:\n.*`)
	deploys  = regexp.MustCompile(`\(make\s+manifests\s+(images\s+push\s+)?deploy\)`) // in messages, which YAML folds
)

// inOwn calls do in a copy of this repository that has the kinds of the operator in dir instead, and writes the result to
// dir.
func inOwn(dir string, do func() error) (err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	o := own{dir: dir, name: filepath.Base(dir)}
	if !ownName.MatchString(o.name) {
		return fmt.Errorf("INTO ends in %q, the name of the operator: write at most 28 lowercase letters, digits and '-', with a letter first, as ../myapp-operator", o.name)
	}
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	if dir == here {
		return errors.New("INTO is this repository: leave it out for one more kind of its operator")
	}
	work, err := os.MkdirTemp("", "own")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Chdir(here), os.RemoveAll(work)) }()
	for _, part := range []string{"config", "catalog"} {
		if err := os.CopyFS(filepath.Join(work, part), os.DirFS(part)); err != nil {
			return err
		}
	}
	if err := copyFile(projectFile, filepath.Join(work, projectFile)); err != nil {
		return err
	}
	if err := os.Chdir(work); err != nil {
		return err
	}
	if err := o.read(); err != nil {
		return err
	}
	if err := do(); err != nil {
		// A directory with something in it stays.
		_, _ = os.Remove(filepath.Join(dir, "helm-charts")), os.Remove(dir)
		return err
	}
	return o.write()
}

// read gives the copy in the working directory the name and the kinds of the operator.
func (o *own) read() error {
	manager, err := os.ReadFile(managerFile)
	if err != nil {
		return err
	}
	found := ownImage.FindStringSubmatch(string(manager))
	if found == nil {
		return fmt.Errorf("%s: expected the operator's image", managerFile)
	}
	o.base, o.image, o.tag = found[1]+"welcome-operator:"+found[2], found[1]+o.name, found[2]
	for _, edit := range []struct{ file, pattern, text string }{
		{"config/default/kustomization.yaml", "welcome-operator", o.name},
		{managerFile, regexp.QuoteMeta(o.base), o.image + ":" + o.tag},
		{managerFile, ownLabel, "app.kubernetes.io/name: " + o.name},
		{"config/manager/disruption_budget.yaml", ownLabel, "app.kubernetes.io/name: " + o.name},
		{"config/manager/metrics_service.yaml", ownLabel, "app.kubernetes.io/name: " + o.name},
		{"config/network-policy/manager.yaml", ownLabel, "app.kubernetes.io/name: " + o.name},
		// Images that this one pins or only names: those of the other are in its watches.yaml and charts.
		{managerFile, `(?m)^        - name: RELATED_IMAGE_.*\n          value: .*\n`, ""},
		{"config/manager/kustomization.yaml", `(?m)^patches:\n- path: related_images.yaml\n`, ""},
	} {
		text, err := os.ReadFile(edit.file)
		if err != nil {
			return err
		}
		text = regexp.MustCompile(edit.pattern).ReplaceAllLiteral(text, []byte(edit.text))
		if err := os.WriteFile(edit.file, text, 0o644); err != nil {
			return err
		}
	}
	samples, err := ownSamples()
	if err != nil {
		return err
	}
	for _, file := range append(samples, releasedFile) { // what only this repository has
		if err := os.Remove(file); err != nil {
			return err
		}
	}
	if err := os.CopyFS(samplesDir, os.DirFS(filepath.Join(o.dir, "samples"))); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	charts := filepath.Join(o.dir, "helm-charts")
	if err := errors.Join(os.MkdirAll(charts, 0o755), os.Symlink(charts, "helm-charts")); err != nil {
		return err
	}
	err = copyFile(filepath.Join(o.dir, watchesFile), watchesFile)
	if errors.Is(err, fs.ErrNotExist) {
		err = os.WriteFile(watchesFile, []byte("# Which kinds this operator serves, and the chart that each becomes.\n"), 0o644)
	}
	return err
}

// write brings what was made in the working directory to the operator's.
func (o *own) write() error {
	manifest, err := o.objects()
	if err != nil {
		return err
	}
	// The name of the lease is that of what it publishes, by a right to that name and in the bounds of the policy.
	manifest = strings.ReplaceAll(manifest, operator.LeaderElectionID, o.name)
	manifest = deploys.ReplaceAllLiteralString(manifest, "(then make manifests INTO=DIR, build the image, kubectl apply --server-side --kustomize DIR)")
	if err := os.WriteFile(filepath.Join(o.dir, "operator.yaml"), []byte(fmt.Sprintf(ownManifest, o.name)+manifest), 0o644); err != nil {
		return err
	}
	samples, err := ownSamples()
	if err != nil {
		return err
	}
	for _, file := range samples {
		if err := copyFile(file, filepath.Join(o.dir, "samples", filepath.Base(file))); err != nil {
			return err
		}
	}
	for file, text := range map[string]string{
		"Dockerfile":         fmt.Sprintf(ownDockerfile, o.name, o.base),
		"kustomization.yaml": fmt.Sprintf(ownKustomization, o.image, o.tag, o.name),
	} {
		there, err := os.ReadFile(filepath.Join(o.dir, file))
		switch {
		case errors.Is(err, fs.ErrNotExist): // else it is somebody's
			err = os.WriteFile(filepath.Join(o.dir, file), []byte(text), 0o644)
		case err == nil && file == "Dockerfile" && !strings.Contains(string(there), ":"+o.tag): // the tag in kustomization.yaml is for them to count
			fmt.Printf("%s does not name the base image that operator.yaml is made for: FROM %s\n", filepath.Join(o.dir, file), o.base)
		}
		if err != nil {
			return err
		}
	}
	return copyFile(watchesFile, filepath.Join(o.dir, watchesFile))
}

// ownSamples are those in the working directory.
func ownSamples() ([]string, error) { return filepath.Glob(filepath.Join(samplesDir, "*_*.yaml")) }

// objects are all of the operator in the working directory. Kustomize drops comments: those that say why
// there is a right, and why a value is no field, are put back.
func (o *own) objects() (string, error) {
	const overlay = "config/own"
	if err := errors.Join(os.Mkdir(overlay, 0o755), os.WriteFile(filepath.Join(overlay, "kustomization.yaml"), fmt.Appendf(nil, ownOverlay, o.name), 0o644)); err != nil {
		return "", err
	}
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), overlay)
	if err != nil {
		return "", err
	}
	text, err := built.AsYaml()
	if err != nil {
		return "", err
	}
	role, err := os.ReadFile(filepath.Join(rightsDir, "role.yaml"))
	if err != nil {
		return "", err
	}
	crds, err := filepath.Glob(filepath.Join(crdDir, "bases", "*.yaml"))
	if err != nil {
		return "", err
	}
	objects := strings.Split(string(text), "---\n")
	for i, object := range objects {
		if strings.Contains(object, "\nkind: ClusterRole\n") && strings.HasSuffix(nameIn(object), "-manager-role") {
			objects[i] = rules.ReplaceAllLiteralString(object, rules.FindString(string(role)))
		}
	}
	for _, file := range crds {
		crd, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		at := slices.IndexFunc(objects, func(object string) bool { return nameIn(object) == nameIn(string(crd)) })
		_, said, _ := strings.Cut(comments.FindString(string(crd)), "\n")
		objects[at] = said + objects[at]
	}
	return strings.Join(objects, "---\n"), nil
}

var objectName = regexp.MustCompile(`(?m)^  name: (\S+)$`)

// nameIn is that of an object in its YAML.
func nameIn(object string) string {
	if found := objectName.FindStringSubmatch(object); found != nil {
		return found[1]
	}
	return ""
}

func copyFile(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, text, 0o644))
}
