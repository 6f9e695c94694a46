//go:build tools

// Package tools pins helm, which tests run.
package tools

import _ "helm.sh/helm/v4/cmd/helm"
