package integration

import (
	"slices"
	"strings"

	"demo.welcome.domain/welcome-operator/tests/controlplane"
)

// recording begins at a position in the audit log.
type recording struct {
	*scene
	from controlplane.Mark
}

// record begins to count requests.
func (s *scene) record() recording {
	s.Helper()
	from, err := env.Mark(ctx)
	s.must(err)
	return recording{s, from}
}

// of returns the requests of an operator since the recording began, in the namespace of the test or in none. It
// leaves out access reviews for readers of its metrics, and events: these are sent some time after their cause, which
// may have been before.
func (r recording) of(operator *process) controlplane.Requests {
	r.Helper()
	return slices.DeleteFunc(r.anywhere(operator), func(one controlplane.Request) bool {
		return one.AsksForRights() || one.Tells() || one.ObjectRef.Namespace != "" && one.ObjectRef.Namespace != r.namespace
	})
}

// anywhere returns all requests of an operator since the recording began.
func (r recording) anywhere(operator *process) controlplane.Requests {
	r.Helper()
	requests, err := env.Requests(ctx, r.from, func(one controlplane.Request) bool {
		return slices.Contains(one.User.Extra["authentication.kubernetes.io/credential-id"], operator.credential)
	})
	r.must(err)
	return requests
}

// ofAccount selects the requests of a ServiceAccount of the operator's namespace.
func (r recording) ofAccount(account string) func(controlplane.Request) bool {
	return func(one controlplane.Request) bool {
		return strings.HasSuffix(one.User.Username, ":"+operatorNamespace+":"+account)
	}
}
