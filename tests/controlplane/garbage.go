package controlplane

import (
	"strings"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// CollectGarbage starts Kubernetes' garbage collector, and no other controller.
func (c *ControlPlane) CollectGarbage() (*Process, error) {
	return c.RunControllers("garbage-collector-controller")
}

// RunControllers starts controllers of Kubernetes.
func (c *ControlPlane) RunControllers(names ...string) (*Process, error) {
	kubeconfig, err := c.Kubeconfig("controllers", c.Admin)
	if err != nil {
		return nil, err
	}
	return c.Run("controllers.log", nil, kit.File("bin/kube-controller-manager"), "--kubeconfig="+kubeconfig,
		"--controllers="+strings.Join(names, ","), "--leader-elect=false", "--secure-port=0", "--kube-api-qps=200", "--kube-api-burst=400")
}
