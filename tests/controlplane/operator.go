package controlplane

import (
	"context"
	"errors"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// Operator is an operator process with probes and metrics.
type Operator struct {
	*Process
	// Metrics and Probes are the addresses of its servers.
	Metrics, Probes string
}

// RunOperator starts an operator with addresses of its own.
func (c *ControlPlane) RunOperator(log string, env []string, program string, args ...string) (*Operator, error) {
	metrics, err := kit.FreeAddress()
	if err != nil {
		return nil, err
	}
	probes, err := kit.FreeAddress()
	if err != nil {
		return nil, err
	}
	process, err := c.Run(log, env, program, append([]string{"--metrics-bind-address=" + metrics, "--health-probe-bind-address=" + probes}, args...)...)
	return &Operator{Process: process, Metrics: metrics, Probes: probes}, err
}

// HasEnded is whether the process has ended, for whatever reason.
func (o *Operator) HasEnded() bool {
	select {
	case <-o.Ended:
		return true
	default:
		return false
	}
}

// Ready is nil if its readiness probe succeeds.
func (o *Operator) Ready(ctx context.Context) error {
	if o.HasEnded() {
		return errors.Join(errors.New("the operator ended"), o.Err)
	}
	return kit.Page(ctx, "http://"+o.Probes+"/readyz", "")
}
