//go:build tools

// Package tools pins promtool, which tests run.
package tools

import _ "github.com/prometheus/prometheus/cmd/promtool"
