package operator

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// namespaceFile has the namespace of the pod.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// operator is the name by which this installation claims custom resources: that of its lease, which its
// replicas and later versions share, and no other installation has. Outside of a cluster, without a lease, the
// machine's name takes the place of the namespace.
func (o *Options) operator() (string, error) {
	namespace, err := o.namespace()
	if err != nil {
		return "", err
	}
	machine, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("find out the machine's name: %w", err)
	}
	return cmp.Or(namespace, "machine "+machine) + "/" + o.LeaderElectionID, nil
}

// namespace is the operator's own, empty outside of a cluster.
func (o *Options) namespace() (string, error) {
	inCluster, err := os.ReadFile(namespaceFile)
	if err != nil && !os.IsNotExist(err) {
		return "", fmt.Errorf("find out the operator's namespace: %w", err)
	}
	return cmp.Or(o.LeaderElectionNamespace, strings.TrimSpace(string(inCluster))), nil
}

// lease names the lease of this installation, nil where it has no namespace.
func (o *Options) lease() (*coordinationv1.Lease, error) {
	namespace, err := o.namespace()
	if namespace == "" {
		return nil, err
	}
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: o.LeaderElectionID}}, nil
}
