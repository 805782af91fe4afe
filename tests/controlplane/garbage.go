package controlplane

import "demo.welcome.domain/welcome-operator/tests/kit"

// CollectGarbage starts the garbage collector of Kubernetes, and none of its other controllers.
func (c *ControlPlane) CollectGarbage() (*Process, error) {
	kubeconfig, err := c.Kubeconfig("garbage-collector", c.Admin)
	if err != nil {
		return nil, err
	}
	return c.Run("garbage-collector.log", nil, kit.File("bin/kube-controller-manager"), "--kubeconfig="+kubeconfig,
		"--controllers=garbage-collector-controller", "--leader-elect=false", "--secure-port=0", "--kube-api-qps=200", "--kube-api-burst=400")
}
