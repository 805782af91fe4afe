package operator

import (
	"cmp"
	"fmt"
	"os"
	"strings"
)

// namespaceFile has the namespace of the pod.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// operator is the name by which this installation claims custom resources: that of its lease, which its replicas and its next version have, too,
// and no other installation. Outside of a cluster, without a lease, the machine stands for the namespace.
func (o *Options) operator() (string, error) {
	inCluster, err := os.ReadFile(namespaceFile)
	if err != nil && !os.IsNotExist(err) {
		return "", fmt.Errorf("find out the operator's namespace: %w", err)
	}
	machine, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("find out the machine's name: %w", err)
	}
	return cmp.Or(o.LeaderElectionNamespace, strings.TrimSpace(string(inCluster)), "machine "+machine) + "/" + leaderElectionID, nil
}
