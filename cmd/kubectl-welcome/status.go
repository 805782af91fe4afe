package main

import (
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// NewCmdStatus says how custom resources are.
func NewCmdStatus(c *cluster) *cobra.Command {
	var s selection
	cmd := &cobra.Command{
		Use:   "status [NAME | KIND/NAME | -l SELECTOR | -A]",
		Short: "Say whether custom resources are well, and if not, whose turn it is",
		Example: examples(`
# One custom resource, on one screen
kubectl welcome status hello
kubectl welcome status crontab/nightly`),
		ValidArgsFunction: c.completeNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			found, err := c.find(cmd.Context(), s, args)
			if err != nil {
				return err
			}
			if len(found) == 0 {
				c.notef("No custom resources found.\n")
			}
			for i := range found {
				ready, _, _ := unstructured.NestedSlice(found[i].Object, "status", "conditions")
				c.printf("%s/%s: %d conditions\n", found[i].GetNamespace(), c.label(&found[i]), len(ready))
			}
			return nil
		},
	}
	s.addTo(cmd)
	return cmd
}
