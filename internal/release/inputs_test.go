package release

import (
	"testing"

	"demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/internal/record"
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

// A default that templates print as 1.048576e+07 is another value than the 10485760 of a custom resource. All other numbers have the text that an older version has made of them.
func TestNumbersAreDigestedAsTheyArePrinted(t *testing.T) {
	for value, same := range map[any]bool{float64(10485760): false, float64(1000000): false, int64(10485760): true, float64(999999): true, 1234567.5: true, 0.00001: true, 1e21: true} {
		i := inputs{Values: map[string]any{"list": []any{map[string]any{"number": value}}}}
		older, _ := i.older()
		if text, err := i.text(); err != nil || (text == older) != same {
			t.Errorf("%T %v is %s, and was %s: %v", value, value, text, older, err)
		}
	}
	values := func(number any) inputs { return inputs{Values: map[string]any{"number": number}} }
	older, _ := values(float64(10485760)).older()
	wanted, _ := values(float64(10485760)).text()
	a := &actionClient{wanted: object.Plain.Digest([]byte(wanted)), older: []string{object.Plain.Digest([]byte(older))}}
	a.current = &record.Record{Inputs: object.Plain.Digest([]byte(older))}
	if !a.isAlike() {
		t.Error("what an older version has recorded is upgraded without a look")
	}
	edited, _ := values(int64(10485760)).text()
	a = &actionClient{wanted: object.Plain.Digest([]byte(edited)), current: &record.Record{Inputs: a.wanted}}
	if a.isAlike() {
		t.Error("an edit is taken for nothing")
	}
}
