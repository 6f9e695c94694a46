/**
 * Addresses that another DHCP server hands out: a VM on a network with a DHCP server of its own is found in that server's
 * lease file, by its MAC. A file that was named is asked before the engine, the usual ones after it. Nothing is ever
 * written to them.
 */
import { connectGuest } from "@cocoon/vm/host";
import type { Abortable } from "@cocoon/core";
import { LeaseFile, type VmAddress, type VmRuntime } from "@cocoon/vm";

export interface LeasePaths {
  /** Asked before the engine. */
  readonly named: string | undefined;
  /** Asked after it. */
  readonly usual: readonly string[];
}

export function withLeases(runtime: VmRuntime, paths: LeasePaths): VmRuntime {
  const named = paths.named === undefined ? [] : [new LeaseFile(paths.named)];
  const usual = paths.usual.map((path) => new LeaseFile(path));
  const leased = async (
    ref: string,
    files: readonly LeaseFile[],
    options: Abortable,
  ): Promise<VmAddress | undefined> => {
    if (files.length === 0) return undefined;
    const [nic] = (await runtime.inspect(ref, options)).nics;
    for (const file of nic ? files : []) {
      const lease = await file.tryFind(nic?.mac ?? "");
      if (lease) return { ip: lease.ip, routable: true, forwards: [] };
    }
    return undefined;
  };
  const address: VmRuntime["address"] = async (ref, options) =>
    (await leased(ref, named, options)) ??
    (await runtime.address(ref, options)) ??
    (await leased(ref, usual, options));
  const dial: VmRuntime["dial"] = async (ref, port, options) => {
    const found =
      (await leased(ref, named, options)) ??
      ((await runtime.address(ref, options)) ? undefined : await leased(ref, usual, options));
    return found ? connectGuest({ host: found.ip, port }, options) : runtime.dial(ref, port, options);
  };
  return new Proxy(runtime, {
    get: (target, name) => {
      if (name === "address") return address;
      if (name === "dial") return dial;
      const value: unknown = Reflect.get(target, name);
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });
}
