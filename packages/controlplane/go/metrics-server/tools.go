//go:build tools

// Package tools pins metrics-server, which tests run beside the control plane.
package tools

import _ "sigs.k8s.io/metrics-server/cmd/metrics-server"
