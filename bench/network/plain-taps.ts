/** The comparison: guests whose taps are ports of the bridge itself, with nothing in between. */
import { Fault } from "@cocoon/core";
import { runCommand } from "@cocoon/testkit";
import type { VmNetwork } from "@cocoon/vm";

export function openPlainTaps(bridge: string, prefix: string): VmNetwork {
  const known = new Map<string, { readonly ip: string; readonly tap: string }>();
  let next = 200;
  const ip = async (...args: readonly string[]) => {
    const done = await runCommand("ip", args);
    if (done.code !== 0) throw new Fault("internal", `ip ${args.join(" ")}: ${done.stderr}`);
  };
  return {
    kind: "bridge",
    async prepare({ vmId }) {
      const entry = known.get(vmId) ?? { ip: `${prefix}.${(next += 1)}`, tap: `pt${vmId.slice(0, 10)}` };
      if (!known.has(vmId)) {
        await ip("tuntap", "add", "dev", entry.tap, "mode", "tap", "vnet_hdr");
        await ip("link", "set", "dev", entry.tap, "master", bridge, "up");
        known.set(vmId, entry);
      }
      const mac = `02:${[0, 2, 4, 6, 8].map((at) => Buffer.from(vmId.slice(at / 2, at / 2 + 1)).toString("hex")).join(":")}`;
      const address = { ip: entry.ip, prefix: 24, gateway: `${prefix}.1` };
      return [
        {
          nic: {
            mac,
            backend: "bridge",
            tap: entry.tap,
            bridge,
            address,
            queues: 2,
            queueSize: 512,
            forwards: [],
          },
          guest: { mac, address, dns: [] },
          netdev: `tap,ifname=${entry.tap},script=no,downscript=no`,
          refreshMac: true,
        },
      ];
    },
    addForward: () => Promise.reject(new Fault("notSupported", "nothing to forward")),
    async release(vmId) {
      const entry = known.get(vmId);
      if (entry) await ip("link", "delete", "dev", entry.tap);
      known.delete(vmId);
    },
    reconcile: () => Promise.resolve(),
    address: (vmId) => {
      const entry = known.get(vmId);
      return Promise.resolve(entry && { ip: entry.ip, routable: true, forwards: [] });
    },
  };
}
