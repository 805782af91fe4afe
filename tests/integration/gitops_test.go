package integration

import (
	"fmt"
	"os"
	"regexp"
	"testing"

	lua "github.com/yuin/gopher-lua"
	kstatus "sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// healthCheck is the one for Argo CD in docs/gitops.md.
var healthCheck = regexp.MustCompile(`(?s)resource\.customizations\.health\.[\w.]+_Welcome: \|\n(.*?)` + "```")

// The health check for Argo CD and kstatus, by which Flux judges, take no Welcome for healthy that is not Ready as it is now.
func TestHealthInGitOps(t *testing.T) {
	text, err := os.ReadFile(kit.File("docs/gitops.md"))
	if err != nil {
		t.Fatal(err)
	}
	script := healthCheck.FindStringSubmatch(string(text))
	if script == nil {
		t.Fatal("docs/gitops.md has no health check for Argo CD")
	}
	s := newScene(t)
	stopShared()
	is := func(when, argo string, flux kstatus.Status) {
		s.Helper()
		welcome := s.welcome("hello")
		state := lua.NewState()
		defer state.Close()
		state.SetGlobal("obj", luaValue(state, welcome.Object))
		s.must(state.DoString(script[1]))
		if got := state.GetField(state.Get(-1), "status").String(); got != argo {
			t.Errorf("%s, Argo CD says %s, not %s: %v", when, got, argo, welcome.Object)
		}
		if got, err := kstatus.Compute(welcome); err != nil || got.Status != flux {
			t.Errorf("%s, kstatus says %v, %v, not %s: %v", when, got, err, flux, welcome.Object)
		}
	}

	s.create("hello")
	is("before anybody has looked", "Progressing", kstatus.InProgressStatus)
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}})
	s.awaitDeployed("hello")
	is("while its pods start", "Progressing", kstatus.InProgressStatus)
	s.bringUp("hello")
	is("when it is Ready", "Healthy", kstatus.CurrentStatus)
	s.pause()
	is("while it is paused", "Suspended", kstatus.InProgressStatus)
	s.edit("hello", kit.Pause(false), kit.Set("ingress", map[string]any{"enabled": true, "host": "not.allowed.example.com"}))
	s.awaitReason("hello", "NotAllowed")
	is("when it is refused", "Degraded", kstatus.FailedStatus)
	operator.Stop()
	s.edit("hello", kit.Set("ingress.enabled", false))
	is("when it was edited, and nobody has looked", "Progressing", kstatus.InProgressStatus)
}

// luaValue is a value of JSON in Lua.
func luaValue(state *lua.LState, value any) lua.LValue {
	switch value := value.(type) {
	case string:
		return lua.LString(value)
	case bool:
		return lua.LBool(value)
	case int64:
		return lua.LNumber(value)
	case map[string]any:
		table := state.NewTable()
		for key, each := range value {
			table.RawSetString(key, luaValue(state, each))
		}
		return table
	case []any:
		table := state.NewTable()
		for _, each := range value {
			table.Append(luaValue(state, each))
		}
		return table
	}
	panic(fmt.Sprintf("a custom resource has no %T", value))
}
