// Package main is CoreDNS with the plugins that a cluster's DNS needs, and no others: those for clouds and
// other stores would multiply its size and the time to build it.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loadbalance"
	_ "github.com/coredns/coredns/plugin/ready"
)

// The order of the plugins in a request's path, as CoreDNS itself has it.
func init() {
	dnsserver.Directives = []string{"bind", "ready", "errors", "loadbalance", "cache", "kubernetes", "forward"}
}

func main() {
	coremain.Run()
}
