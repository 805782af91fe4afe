package main

import (
	"maps"
	"os"
	"slices"
)

const scorecardFile = "config/scorecard/rbac.yaml"

// writeScorecard writes what the scorecard's tests may: what users do, to whatever kind, and what they look at.
func writeScorecard(kinds []kind) error {
	text := generated + `, or hack/manifests/scorecard.go.
#
# What the tests of suite "welcome" may do, in the namespace that they run in:
#   kubectl apply -n NAMESPACE -f config/scorecard/rbac.yaml
#   operator-sdk scorecard bundle -n NAMESPACE -s welcome-scorecard -w 5m
apiVersion: v1
kind: ServiceAccount
metadata:
  name: welcome-scorecard
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: welcome-scorecard
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: welcome-scorecard
subjects:
- kind: ServiceAccount
  name: welcome-scorecard
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: welcome-scorecard
rules:
`
	for _, k := range kinds {
		plural := k.crd.Spec.Names.Plural
		text += rule("Be a user of "+k.plural()+".", k.entry.Group, []string{plural}, "get", "create", "update", "delete")
		if k.crd.Spec.Versions[0].Subresources.Scale != nil {
			text += rule("Scale them.", k.entry.Group, []string{plural + "/scale"}, "update")
		}
	}
	children := granted(kinds, false)
	for _, group := range slices.Sorted(maps.Keys(children)) {
		text += rule("Look at the children, and break them.", group, slices.Sorted(maps.Keys(children[group])), "get", "list", "update", "delete")
	}
	text += rule("See what is left.", "", []string{"configmaps", "pods", "persistentvolumeclaims"}, "list")
	text += rule("And of what controllers make.", "apps", []string{"replicasets", "controllerrevisions"}, "list")
	text += rule("Jobs of CronJobs.", "batch", []string{"jobs"}, "list")
	text += rule("Those of Services.", "discovery.k8s.io", []string{"endpointslices"}, "list")
	return os.WriteFile(scorecardFile, []byte(text), 0o644)
}
