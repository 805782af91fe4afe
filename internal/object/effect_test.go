package object

import (
	"reflect"
	"testing"
)

func TestEffect(t *testing.T) {
	for name, c := range map[string]struct{ seen, wanted, applied, want string }{
		"what a controller writes at the same time is no part of it": {
			"{metadata: {annotations: {revision: '1'}}, spec: {port: 2}}",
			"{metadata: {annotations: {revision: '1'}}, spec: {port: 1}}",
			"{metadata: {annotations: {revision: '2', theirs: x}}, spec: {port: 1, theirs: x}, status: {a: b}}",
			"{metadata: {annotations: {revision: '1'}}, spec: {port: 1}}",
		},
		"a default that comes back": {
			"{spec: {policy: Always, list: [{name: a, policy: Always, value: 2}]}}",
			"{spec: {list: [{name: a, value: 1}]}}",
			"{spec: {policy: Always, list: [{name: a, policy: Always, value: 1}]}}",
			"{spec: {policy: Always, list: [{name: a, policy: Always, value: 1}]}}",
		},
		"what others have added goes": {
			"{spec: {added: 1, list: [1, 2], map: {a: 1, added: 2}}}", "{spec: {list: [1], map: {a: 1}}}", "{spec: {list: [1], map: {a: 1}}}", "{spec: {list: [1], map: {a: 1}}}",
		},
		"what others have removed comes": {
			"{metadata: {name: a}}", "{metadata: {name: a, labels: {a: b}}, spec: {a: 1}}", "{metadata: {name: a, labels: {a: b}}, spec: {a: 1}}", "{metadata: {name: a, labels: {a: b}}, spec: {a: 1}}",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got, want := Effect(parse(t, c.seen), parse(t, c.wanted), parse(t, c.applied)).Object, parse(t, c.want).Object; !reflect.DeepEqual(got, want) {
				t.Errorf("got  %v\nwant %v", got, want)
			}
		})
	}
}
