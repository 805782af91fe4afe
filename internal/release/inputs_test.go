package release

import "testing"

func TestDigestFollowsEveryInput(t *testing.T) {
	base := func() inputs {
		return inputs{Chart: "c", Values: map[string]any{"name": "a", "service": map[string]any{"port": int64(80)}}}
	}
	want, err := base().text()
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := base().text(); again != want {
		t.Errorf("equal inputs are %s and %s", want, again)
	}
	changes := map[string]func(*inputs){
		"chart":        func(i *inputs) { i.Chart = "d" },
		"allowed":      func(i *inputs) { i.Allow.Hosts = []string{"example.com"} },
		"value":        func(i *inputs) { i.Values["name"] = "b" },
		"nested value": func(i *inputs) { i.Values["service"].(map[string]any)["port"] = int64(81) },
		"new value":    func(i *inputs) { i.Values["x"] = nil },
		"value's type": func(i *inputs) { i.Values["service"].(map[string]any)["port"] = "80" },
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			changed := base()
			change(&changed)
			if got, _ := changed.text(); got == want {
				t.Error("nothing changed")
			}
		})
	}
}
