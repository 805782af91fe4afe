package release

import (
	"strings"
	"testing"
)

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

// A default that templates print as 1.048576e+07 is another value than the 10485760 of a custom resource.
func TestNumbersAreDigestedAsTheyArePrinted(t *testing.T) {
	for value, want := range map[any]string{float64(10485760): "1.048576e+07", int64(10485760): "10485760", float64(1000000): "1e+06", float64(999999): "999999", 1234567.5: "1234567.5", 0.00001: "0.00001", 1e21: "1e+21"} {
		text, err := inputs{Values: map[string]any{"list": []any{map[string]any{"number": value}}}}.text()
		if err != nil || !strings.Contains(text, `{"number":`+want+`}`) {
			t.Errorf("%T %v is %s: %v", value, value, text, err)
		}
	}
}
