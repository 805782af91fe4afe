package record

import "testing"

func TestNames(t *testing.T) {
	for names, want := range map[Names]struct {
		release string
		longest int
	}{NamesPlain: {"hello", 53}, NamesKind: {"hello.welcome", 45}} {
		if got := names.of(owner()); got != want.release || names.Validate() != nil {
			t.Errorf("%s: the release is called %q, not %q", names, got, want.release)
		}
		if got := names.MaxLength("Welcome"); got != want.longest {
			t.Errorf("%s: a name may have %d characters, not %d", names, got, want.longest)
		}
		if other := names.other(); other == names || other.other() != names {
			t.Errorf("the other of %s is %s", names, other)
		}
	}
	for _, names := range []Names{"", "Kind", "other"} {
		if names.Validate() == nil {
			t.Errorf("%q is valid", names)
		}
	}
}
