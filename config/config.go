// Package config hands out what config/ says that the operator needs, to who checks whether a cluster has it.
package config

import "embed"

// Files are the CRDs and the rights of the operator, by their paths below config/.
//
//go:embed crd/bases/*.yaml rbac/*role*.yaml
var Files embed.FS
