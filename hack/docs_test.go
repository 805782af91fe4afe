package hack

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// What the documents tell a reader to run or to open exists.

var (
	fence    = regexp.MustCompile("(?ms)^ *```([a-z]*)\n(.*?)^ *```")
	span     = regexp.MustCompile("`([^`\n]+)`")
	comment  = regexp.MustCompile(`(?m)(^|\s)#.*`)
	makeCall = regexp.MustCompile(`(?m)(?:^|[\s;&(])make((?: +[a-zA-Z][\w./-]*(?:=\S*)?)+)`)
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading  = regexp.MustCompile(`(?m)^#+ +(.*)`)
	noSlug   = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

func documents(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md", "tests/*.md", "helm-charts/*/*.md", "examples/*.md", "examples/*/helm-charts/*/*.md"} {
		files, err := filepath.Glob(filepath.Join("..", pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("no documents %s: %v", pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			texts[file] = string(text)
		}
	}
	return texts
}

func TestDocumentsNameTargetsThatExist(t *testing.T) {
	// Make's own list of rules, without running one.
	command := exec.Command("make", "--print-data-base", "--question", "help")
	command.Dir = ".."
	database, err := command.Output()
	if len(database) == 0 {
		t.Fatalf("make prints no rules: %v", err)
	}
	rules := map[string]bool{}
	for _, match := range regexp.MustCompile(`(?m)^([\w./-]+):(?: |$)`).FindAllStringSubmatch(string(database), -1) {
		rules[match[1]] = true
	}
	for file, text := range documents(t) {
		var commands []string
		for _, block := range fence.FindAllStringSubmatch(text, -1) {
			if block[1] == "sh" {
				commands = append(commands, comment.ReplaceAllString(block[2], ""))
			}
		}
		for _, inline := range span.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
			commands = append(commands, inline[1])
		}
		for _, command := range commands {
			for _, call := range makeCall.FindAllStringSubmatch(command, -1) {
				for word := range strings.FieldsSeq(call[1]) {
					if !strings.Contains(word, "=") && !rules[word] {
						t.Errorf("%s: make%s: there is no target %q", file, call[1], word)
					}
				}
			}
		}
	}
}

func TestDocumentsLinkToWhatExists(t *testing.T) {
	texts := documents(t)
	for file, text := range texts {
		for _, match := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(match[1], "://") {
				continue
			}
			path, anchor, _ := strings.Cut(match[1], "#")
			target := file
			if path != "" {
				target = filepath.Join(filepath.Dir(file), path)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s: %v", file, match[1], err)
			} else if anchor != "" && !slices.Contains(anchors(texts[target]), anchor) {
				t.Errorf("%s links to %s, which has no such heading", file, match[1])
			}
		}
	}
}

// OLM leaves the roles of a bundle behind: whoever uninstalls deletes those of every kind, also of one that make kind has added.
func TestUninstallFromOLMDeletesTheRoles(t *testing.T) {
	text, err := os.ReadFile("../docs/olm.md")
	if err != nil {
		t.Fatal(err)
	}
	command := regexp.MustCompile(`(?m)^kubectl delete clusterrole.*`).FindString(string(text))
	_, selected, _ := strings.Cut(command, " -l ")
	selected, _, _ = strings.Cut(selected, " ")
	selector, err := labels.Parse(selected)
	roles, _ := filepath.Glob("../bundle/manifests/*_clusterrole.yaml")
	if err != nil || selector.Empty() || len(roles) == 0 {
		t.Fatalf("%q selects nothing of %v: %v", command, roles, err)
	}
	for _, file := range roles {
		var role rbacv1.ClusterRole
		read(t, strings.TrimPrefix(file, "../"), &role)
		if !selector.Matches(labels.Set(role.Labels)) {
			t.Errorf("%s stays after %s: it has the labels %v", role.Name, command, role.Labels)
		}
	}
}

// anchors of a document's headings, as GitHub names them.
func anchors(text string) []string {
	var names []string
	for _, match := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		names = append(names, strings.ReplaceAll(noSlug.ReplaceAllString(strings.ToLower(match[1]), ""), " ", "-"))
	}
	return names
}
