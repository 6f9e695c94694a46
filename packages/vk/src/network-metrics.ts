/** Metrics of the node's network, by the prefix that cocoon-net uses. */
import { Counter, Gauge, Histogram, type Abortable, type Registry } from "@cocoon/core";
import type { PluginCall } from "@cocoon/qemu";
import type { VmRuntime } from "@cocoon/vm";

/** Returns what the network tells each call of a plugin. */
export function createNetworkMetrics(registry: Registry): (call: PluginCall) => void {
  const registers = [registry];
  const calls = new Counter({
    name: "cocoon_net_cni_calls_total",
    help: "Calls of CNI plugins, and how they ended: ok, failed or timeout.",
    labelNames: ["command", "plugin", "result"],
    registers,
  });
  const seconds = new Histogram({
    name: "cocoon_net_cni_call_duration_seconds",
    help: "One call of one CNI plugin.",
    labelNames: ["command", "plugin"],
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30],
    registers,
  });
  return ({ command, plugin, result, tookMs }) => {
    calls.inc({ command, plugin, result });
    seconds.observe({ command, plugin }, tookMs / 1000);
  };
}

/** How many VMs have an address, counted when metrics are read. */
export function createAddressMetrics(
  registry: Registry,
  { runtime, signal }: Abortable & { readonly runtime: VmRuntime },
): void {
  registry.registerMetric(
    new Gauge({
      name: "cocoon_net_dhcp_lease_active",
      help: "VMs of this node that have an address, by lease or assigned.",
      registers: [],
      async collect() {
        const vms = await runtime.list({ signal });
        const found = await Promise.all(
          vms.map(({ id }) => runtime.address(id, { signal }).catch(() => undefined)),
        );
        this.set(found.filter((address) => address !== undefined).length);
      },
    }),
  );
}
