/**
 * The network with real addresses: a bridge of the host, a tap for each interface of a VM, DHCP by dnsmasq, NAT to the
 * outside. VMs cannot reach each other unless configured, and cannot pretend to be one another. Needs root.
 *
 * What exists on the host follows from the address book and can be made again: opening does so, and is repeatable.
 */
import { Fault, isFault, type Abortable } from "@cocoon/core";
import * as z from "zod";
import { requireTools } from "@cocoon/vm/host";
import type { NetworkRequest, NicPlan, PortForward, VmAddress, VmNetwork } from "@cocoon/vm";
import { AddressBook, type Entry } from "./address-book.ts";
import { BridgeHost } from "./bridge-host.ts";
import { Dnsmasq } from "./dnsmasq.ts";
import { readBridgeSettings, type BridgeNetworkOptions, type BridgeSettings } from "./bridge-settings.ts";
import { LeaseFile, writeLeases } from "@cocoon/vm/engine";
import { newMac } from "./mac.ts";

const entrySchema = z.object({
  vmId: z.string().min(1),
  hostname: z.string(),
  isolated: z.boolean(),
  mac: z.string(),
  tap: z.string().max(15),
  index: z.int().nonnegative(),
  queueSize: z.int(),
});

type BridgeEntry = z.infer<typeof entrySchema>;

const defaultQueueSize = 512;

/** Makes what is missing on the host. `forbidden` without root. */
export async function openBridgeNetwork(
  options: BridgeNetworkOptions,
  { signal }: Abortable,
): Promise<BridgeNetwork> {
  await requireTools(["ip", "nft", "dnsmasq"], "the bridge network");
  const network = new BridgeNetwork(readBridgeSettings(options));
  await network.restore({ signal });
  return network;
}

export class BridgeNetwork implements VmNetwork {
  readonly kind = "bridge";
  readonly #settings: BridgeSettings;
  readonly #book: AddressBook<BridgeEntry>;
  readonly #host: BridgeHost;
  readonly #dnsmasq: Dnsmasq;
  readonly #leases: LeaseFile;

  constructor(settings: BridgeSettings) {
    this.#settings = settings;
    const { directory, range } = settings;
    this.#book = new AddressBook({ directory, range, schema: entrySchema, startAt: settings.firstOffset });
    this.#host = new BridgeHost(settings);
    this.#dnsmasq = new Dnsmasq(settings);
    this.#leases = new LeaseFile(this.#dnsmasq.leasesPath);
  }

  /** Bridge, taps, rules and DHCP as in the address book: a restart of the host takes them all. */
  async restore(options: Abortable): Promise<void> {
    await this.#book.locked(options, async () => {
      await this.#host.ensureBridge(options);
      for (const { value } of await this.#book.list()) await this.#host.ensureTap(value.tap, options);
      await this.#apply(options);
    });
  }

  async prepare(request: NetworkRequest, options: Abortable): Promise<readonly NicPlan[]> {
    const count = request.spec.nics ?? 1;
    return this.#book.locked(options, async () => {
      const known = await this.#findEntries(request.vmId);
      const entries = [...known];
      for (let index = known.length; index < count; index += 1) {
        entries.push(await this.#take(newEntry(request, index), options));
      }
      if (entries.length > known.length) await this.#apply(options);
      for (const { value } of entries) await this.#host.ensureTap(value.tap, options);
      return entries.map((entry) => this.#buildPlan(entry));
    });
  }

  addForward(): Promise<PortForward> {
    return Promise.reject(
      new Fault("notSupported", "every port of a bridged VM is reachable: there is nothing to forward"),
    );
  }

  async release(vmId: string, options: Abortable): Promise<void> {
    await this.#book.locked(options, async () => {
      await this.#remove(await this.#findEntries(vmId), options);
    });
  }

  async reconcile(listVmIds: () => Promise<ReadonlySet<string>>, options: Abortable): Promise<void> {
    await this.#book.locked(options, async () => {
      const entries = await this.#book.list();
      const vmIds = await listVmIds();
      await this.#remove(
        entries.filter(({ value }) => !vmIds.has(value.vmId)),
        options,
      );
      const wanted = new Set(
        entries.filter(({ value }) => vmIds.has(value.vmId)).map(({ value }) => value.tap),
      );
      for (const tap of await this.#host.listTaps(options)) {
        if (!wanted.has(tap)) await this.#host.removeTap(tap, options);
      }
    });
  }

  /** Known once the guest has a lease. */
  async address(vmId: string, _options: Abortable): Promise<VmAddress | undefined> {
    const [first] = await this.#findEntries(vmId);
    const lease = first && (await this.#leases.tryFind(first.value.mac));
    return lease && { ip: lease.ip, routable: true, forwards: [] };
  }

  /** Takes everything down again: for tests, and for a host that changes to another network. */
  async tearDown(options: Abortable): Promise<void> {
    await this.#book.locked(options, async () => {
      await this.#dnsmasq.stop();
      for (const tap of await this.#host.listTaps(options)) await this.#host.removeTap(tap, options);
      await this.#host.remove(options);
    });
  }

  async #findEntries(vmId: string): Promise<Entry<BridgeEntry>[]> {
    const entries = (await this.#book.list()).filter(({ value }) => value.vmId === vmId);
    return entries.sort((a, b) => a.value.index - b.value.index);
  }

  /** dnsmasq refuses an address for as long as another client's lease of it runs: such addresses come last. */
  async #take(value: BridgeEntry, options: Abortable): Promise<Entry<BridgeEntry>> {
    const leased = new Set((await this.#dnsmasq.leases()).map(({ ip }) => ip));
    const { gateway } = this.#settings;
    try {
      return await this.#book.take(
        () => value,
        async (ip) => ip !== gateway && !leased.has(ip),
      );
    } catch (error) {
      if (!isFault(error, "unavailable")) throw error;
    }
    const current = new Set((await this.#book.list()).map((entry) => entry.value.mac));
    const stale = (await this.#dnsmasq.leases()).map(({ mac }) => mac).filter((mac) => !current.has(mac));
    await this.#dnsmasq.forget(new Set(stale), options);
    return this.#book.take(
      () => value,
      async (ip) => ip !== gateway,
    );
  }

  async #remove(entries: readonly Entry<BridgeEntry>[], options: Abortable): Promise<void> {
    for (const { ip, value } of entries) {
      await this.#host.removeTap(value.tap, options);
      await this.#book.release(ip);
    }
    if (entries.length > 0) await this.#apply(options);
  }

  async #apply(options: Abortable): Promise<void> {
    const entries = await this.#book.list();
    await this.#host.loadRules(
      entries.map(({ ip, value: { tap, mac, isolated } }) => ({ tap, mac, ip, isolated })),
      options,
    );
    await this.#dnsmasq.serve(
      entries.map(({ ip, value: { mac, hostname } }) => ({ mac, ip, hostname })),
      options,
    );
    const { leasesPath } = this.#settings;
    if (leasesPath !== undefined) {
      await writeLeases(
        leasesPath,
        entries.map(({ ip, value: { mac } }) => ({ mac, ip })),
      );
    }
  }

  #buildPlan({ value }: Entry<BridgeEntry>): NicPlan {
    const { bridge, netns, dns } = this.#settings;
    return {
      nic: {
        mac: value.mac,
        backend: "bridge",
        tap: value.tap,
        bridge,
        ...(netns === undefined ? {} : { netnsPath: `/var/run/netns/${netns}` }),
        queues: 2,
        queueSize: value.queueSize,
        forwards: [],
      },
      guest: { mac: value.mac, dns },
      netdev: `tap,ifname=${value.tap},script=no,downscript=no`,
      refreshMac: true,
    };
  }
}

function newEntry({ vmId, vmName, spec }: NetworkRequest, index: number): BridgeEntry {
  return {
    vmId,
    hostname: buildHostname(vmName),
    isolated: spec.isolated ?? false,
    mac: newMac(),
    tap: tapName(vmId, index),
    index,
    queueSize: spec.queueSize || defaultQueueSize,
  };
}

/** Names of interfaces have at most 15 characters. */
function tapName(vmId: string, index: number): string {
  return `bt${vmId.slice(0, 8)}-${index}`;
}

/** What DHCP takes for a name; others may have dots and underscores. */
function buildHostname(name: string): string {
  return name.replace(/[^A-Za-z0-9-]/g, "-").slice(0, 63);
}
