/**
 * The network without privilege: QEMU's user networking. Every guest sees the same inside (10.0.2.15, gateway 10.0.2.2,
 * DNS 10.0.2.3); from the host each is reached at a loopback address of its own, at the ports that are forwarded.
 * Nothing exists on the host but QEMU's listening sockets, which go with it.
 *
 * Limits, by nature: no ICMP, no other ports than the forwarded ones, no way from VM to VM. What a guest may
 * reach of the host itself is decided where QEMU is started (`process/loopback-guard.ts`).
 */
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { Fault, type Abortable } from "@cocoon/core";
import * as z from "zod";
import type { NetworkRequest, NicPlan, PortForward, VmAddress, VmNetwork } from "@cocoon/vm";
import { AddressBook, type Entry } from "./address-book.ts";
import { formatIpv4, parseSubnet } from "./ipv4.ts";
import { writeLeases } from "@cocoon/vm/engine";
import { newMac } from "./mac.ts";
import { forwardSettings, isBindable, planForwards, sshPort, type GuestPort } from "./user-forwards.ts";

export interface UserNetworkOptions {
  readonly directory: string;
  /** Loopback addresses for VMs. Another runtime on the same host should have others. */
  readonly subnet?: string;
  /** The lowest port that we may listen on; read from the system when absent. */
  readonly firstFreePort?: number;
  /** Where to publish addresses as JSON, for agents that read such a file. */
  readonly leasesPath?: string;
}

const entrySchema = z.object({
  vmId: z.string().min(1),
  isolated: z.boolean(),
  macs: z.array(z.string()).min(1),
  queueSize: z.int(),
  forwards: z.array(
    z.object({
      protocol: z.enum(["tcp", "udp"]),
      guestPort: z.int(),
      hostAddress: z.string(),
      hostPort: z.int(),
    }),
  ),
});

type UserEntry = z.infer<typeof entrySchema>;

const defaultUserSubnet = "127.88.0.0/16";
const defaultQueueSize = 512;

export async function openUserNetwork(options: UserNetworkOptions): Promise<VmNetwork> {
  return new UserNetwork(options, options.firstFreePort ?? (await firstFreePort()));
}

class UserNetwork implements VmNetwork {
  readonly kind = "user";
  readonly #book: AddressBook<UserEntry>;
  readonly #firstFreePort: number;
  readonly #leasesPath: string | undefined;

  constructor(options: UserNetworkOptions, firstPort: number) {
    const { directory, subnet = defaultUserSubnet } = options;
    const range = parseSubnet(subnet);
    if (!formatIpv4(range.network).startsWith("127.") || range.prefix < 9) {
      throw new Fault("invalid", `the user network's addresses must be loopback addresses, not ${subnet}`);
    }
    // Two roots on one host begin at different places, so that they seldom meet.
    const startAt = createHash("sha256").update(directory).digest().readUInt32BE(0);
    this.#book = new AddressBook({ directory, range, schema: entrySchema, startAt });
    this.#firstFreePort = firstPort;
    this.#leasesPath = options.leasesPath;
  }

  async prepare(request: NetworkRequest, options: Abortable): Promise<readonly NicPlan[]> {
    if ((request.spec.nics ?? 1) === 0) return [];
    return this.#book.locked(options, async () => {
      const known = await this.#book.tryFind(request.vmId);
      if (known) return buildPlans(known);
      const make = (ip: string) => this.#newEntry(request, ip);
      const taken = await this.#book.take(make, (ip) => areFree(make(ip).forwards));
      await this.#publish();
      return buildPlans(taken);
    });
  }

  async addForward(vmId: string, port: GuestPort, options: Abortable): Promise<PortForward> {
    return this.#book.locked(options, async () => {
      const entry = await this.#book.tryFind(vmId);
      if (!entry) throw new Fault("notFound", `VM ${vmId} has no address in the user network`);
      const forwards = planForwards(entry.value.forwards, [port], this.#host(entry.ip));
      if (forwards.length > entry.value.forwards.length) {
        await this.#book.update({ ip: entry.ip, value: { ...entry.value, forwards } });
      }
      const added = forwards.find(
        (each) => each.protocol === port.protocol && each.guestPort === port.guestPort,
      );
      if (!added) throw new Fault("internal", `port ${port.guestPort} was not planned`);
      return added;
    });
  }

  async release(vmId: string, options: Abortable): Promise<void> {
    await this.#book.locked(options, async () => {
      const entry = await this.#book.tryFind(vmId);
      if (!entry) return;
      await this.#book.release(entry.ip);
      await this.#publish();
    });
  }

  async reconcile(listVmIds: () => Promise<ReadonlySet<string>>, options: Abortable): Promise<void> {
    await this.#book.locked(options, async () => {
      const entries = await this.#book.list();
      const vmIds = await listVmIds();
      for (const { ip, value } of entries) {
        if (!vmIds.has(value.vmId)) await this.#book.release(ip);
      }
      await this.#publish();
    });
  }

  async address(vmId: string, _options: Abortable): Promise<VmAddress | undefined> {
    const entry = await this.#book.tryFind(vmId);
    return entry && { ip: entry.ip, routable: false, forwards: entry.value.forwards };
  }

  async #publish(): Promise<void> {
    if (this.#leasesPath === undefined) return;
    const entries = await this.#book.list();
    const leases = entries.flatMap(({ ip, value }) => value.macs.slice(0, 1).map((mac) => ({ mac, ip })));
    await writeLeases(this.#leasesPath, leases);
  }

  #newEntry({ vmId, spec }: NetworkRequest, ip: string): UserEntry {
    return {
      vmId,
      isolated: spec.isolated ?? false,
      macs: Array.from({ length: spec.nics ?? 1 }, () => newMac()),
      queueSize: spec.queueSize || defaultQueueSize,
      forwards: planForwards([], [sshPort, ...(spec.ports ?? [])], this.#host(ip)),
    };
  }

  #host(address: string): { readonly address: string; readonly firstFreePort: number } {
    return { address, firstFreePort: this.#firstFreePort };
  }
}

async function areFree(forwards: readonly PortForward[]): Promise<boolean> {
  for (const forward of forwards) if (!(await isBindable(forward))) return false;
  return true;
}

/** Only the first interface is reachable from the host; others lead out, each through a network of its own. */
function buildPlans({ value }: Entry<UserEntry>): NicPlan[] {
  return value.macs.map((mac, index) => {
    const inside = `10.0.${2 + index}`;
    const forwards = index === 0 ? value.forwards : [];
    return {
      nic: { mac, backend: "user", queues: 2, queueSize: value.queueSize, forwards },
      guest: {
        mac,
        address: { ip: `${inside}.15`, prefix: 24, ...(index === 0 ? { gateway: `${inside}.2` } : {}) },
        dns: index === 0 ? [`${inside}.3`] : [],
      },
      netdev: formatNetdev(value, { inside, forwards }),
      refreshMac: false,
    };
  });
}

/** IPv6 is off: a guest would prefer it, and few hosts have a way out for it. */
function formatNetdev(
  { isolated }: UserEntry,
  nic: { readonly inside: string; readonly forwards: readonly PortForward[] },
): string {
  return [
    "user",
    `net=${nic.inside}.0/24`,
    `host=${nic.inside}.2`,
    `dns=${nic.inside}.3`,
    `dhcpstart=${nic.inside}.15`,
    "ipv6=off",
    `restrict=${isolated ? "on" : "off"}`,
    ...forwardSettings(nic.forwards),
  ].join(",");
}

const capabilityNetBindService = 1n << 10n;

/** Ports below a limit of the system need a capability. */
async function firstFreePort(): Promise<number> {
  const status = await readFile("/proc/self/status", "utf8");
  const effective = BigInt(`0x${/^CapEff:\s*([0-9a-f]+)$/m.exec(status)?.[1] ?? "0"}`);
  if (effective & capabilityNetBindService) return 1;
  const limit = await readFile("/proc/sys/net/ipv4/ip_unprivileged_port_start", "utf8").catch(() => "1024");
  return Number(limit.trim());
}
