/**
 * The cluster's own network: each machine has a network namespace in which the node's CNI plugins make an interface, as
 * they do for any pod; a tap beside it leads into the guest, which has the pod's address. Needs root.
 *
 * Whatever exists is recorded before it is made (`attachments.ts`). A namespace ends with the boot of its host: a machine
 * that is started again after that is attached anew, and may have another address.
 */
import { Fault, getErrorMessage, silentLogger, tryIdentify, type Abortable, type Logger } from "@cocoon/core";
import { writeLeases } from "@cocoon/vm/engine";
import { requireTools } from "@cocoon/vm/host";
import type { NetworkRequest, NicPlan, PortForward, VmAddress, VmNetwork } from "@cocoon/vm";
import { AttachmentStore, type Attachment } from "./attachments.ts";
import { formatArgs, formatRuntimeConfig } from "./attachment-arguments.ts";
import {
  defaultBinDirectories,
  defaultConfDirectory,
  defaultPluginTimeoutMs,
  type CniNetworkOptions,
} from "./cni-settings.ts";
import { listConflists, loadConflist } from "./conflist.ts";
import {
  ensureNamespace,
  formatNetnsPath,
  hasNamespace,
  joinTaps,
  makeTaps,
  readInterface,
  removeNamespace,
  type PluggedInterface,
} from "./machine-namespace.ts";
import { endPlugins } from "./late-plugins.ts";
import { CniPlugins, type AttachmentTarget, type RawResult } from "./plugins.ts";

const defaultQueueSize = 512;
/** For records that a power cut may take: it takes the namespace, too. */
const volatile = { sync: false } as const;

/** `forbidden` without root; `unavailable` while the directory has no list, or plugins of it are missing. */
export async function openCniNetwork(options: CniNetworkOptions): Promise<VmNetwork> {
  await requireTools(["ip", "nft"], "the CNI network");
  if (process.getuid?.() !== 0) throw new Fault("forbidden", "the CNI network needs root (CAP_NET_ADMIN)");
  const network = new CniNetwork(options);
  await network.assertUsable();
  return network;
}

/** Names of the lists that are there, the default first; none without the directory. */
export function listCniNetworks(confDirectory: string = defaultConfDirectory): Promise<string[]> {
  return listConflists(confDirectory);
}

/** Plugins that only connect: none of them has an engine for NetworkPolicies behind it. */
const plainPlugins: ReadonlySet<string> = new Set(
  "bridge ptp macvlan ipvlan vlan host-device loopback portmap firewall bandwidth tuning sbr vrf flannel".split(
    " ",
  ),
);

export async function isPlainList(confDirectory: string, name: string | undefined): Promise<boolean> {
  const { plugins } = await loadConflist(confDirectory, name);
  return plugins.every(({ type }) => plainPlugins.has(type));
}

class CniNetwork implements VmNetwork {
  readonly kind = "cni";
  readonly #options: CniNetworkOptions;
  readonly #store: AttachmentStore;
  readonly #plugins: CniPlugins;
  readonly #log: Logger;

  constructor(options: CniNetworkOptions) {
    this.#options = options;
    this.#store = new AttachmentStore(options.directory);
    this.#log = options.log ?? silentLogger;
    this.#plugins = new CniPlugins({
      binDirectories: options.binDirectories ?? defaultBinDirectories,
      timeoutMs: options.timeoutMs ?? defaultPluginTimeoutMs,
      ...(options.onCall ? { onCall: options.onCall } : {}),
    });
  }

  async assertUsable(): Promise<void> {
    const {
      confDirectory = defaultConfDirectory,
      binDirectories = defaultBinDirectories,
      list,
    } = this.#options;
    const chosen = await loadConflist(confDirectory, list);
    const missing = await this.#plugins.findMissing(chosen);
    if (missing.length > 0)
      throw new Fault(
        "unavailable",
        `plugins of CNI network "${chosen.name}" are missing in ${binDirectories.join(" and ")}: ${missing.join(", ")}; Debian's package is containernetworking-plugins`,
      );
  }

  async prepare(request: NetworkRequest, options: Abortable): Promise<readonly NicPlan[]> {
    if ((request.spec.nics ?? 1) === 0) return [];
    if (request.spec.isolated)
      throw new Fault("notSupported", "an isolated VM on the CNI network: use a NetworkPolicy instead");
    const former = await this.#store.tryRead(request.vmId);
    if (former && (await this.#isIntact(former, options))) return this.#describe(former, options);
    if (former) await this.#detach(former, options);
    const attachment = await this.#draft(request, former);
    await this.#store.write(attachment);
    const attached = await this.#attach(attachment, options);
    const plans = await this.#describe(attached, options);
    const [first] = plans;
    const known = first?.nic.address && { ip: first.nic.address.ip, mac: first.nic.mac };
    await this.#store.write({ ...attached, state: "ready", ...known }, volatile);
    await this.#publish();
    return plans;
  }

  addForward(): Promise<PortForward> {
    return Promise.reject(
      new Fault(
        "notSupported",
        "every port of a VM on the CNI network is reachable: there is nothing to forward",
      ),
    );
  }

  async release(vmId: string, options: Abortable): Promise<void> {
    const attachment = await this.#store.tryRead(vmId);
    if (!attachment) return;
    await this.#detach(attachment, options);
    await this.#store.remove(vmId);
    await this.#publish();
  }

  async reconcile(listVmIds: () => Promise<ReadonlySet<string>>, options: Abortable): Promise<void> {
    const attachments = await this.#store.list();
    const vmIds = await listVmIds();
    for (const { vmId } of attachments.filter((each) => !vmIds.has(each.vmId))) {
      // A plugin that is broken must not keep all other machines from being looked after.
      await this.release(vmId, options).catch((error: unknown) => {
        options.signal.throwIfAborted();
        this.#log.warn(
          { vm: vmId, error: getErrorMessage(error) },
          "network of a removed vm not released yet",
        );
      });
    }
    if (this.#options.collectGarbage) await this.#collectGarbage(options);
  }

  /** What the guest was given; there is no lease to wait for. */
  async address(vmId: string, _options: Abortable): Promise<VmAddress | undefined> {
    const attachment = await this.#store.tryRead(vmId);
    return attachment?.state === "ready" && attachment.ip !== undefined
      ? { ip: attachment.ip, routable: true, forwards: [] }
      : undefined;
  }

  /** What a crash or a reboot left of it is not repaired but made anew. */
  async #isIntact(attachment: Attachment, options: Abortable): Promise<boolean> {
    const isHere = attachment.bootId === readBootId() && (await hasNamespace(attachment.netns));
    if (attachment.state !== "ready" || !isHere) return false;
    try {
      for (const target of listTargets(attachment))
        if (target.result)
          await this.#plugins.check(attachment.list, { ...target, result: target.result }, options);
      return true;
    } catch (error) {
      options.signal.throwIfAborted();
      this.#log.info(
        { vm: attachment.vmId, error: getErrorMessage(error) },
        "vm is attached to its network anew",
      );
      return false;
    }
  }

  /** What was requested once holds for the VM's life; the configuration is the directory's current one. */
  async #draft({ vmId, vmName, spec }: NetworkRequest, known: Attachment | undefined): Promise<Attachment> {
    const listName = known?.listName ?? this.#options.list;
    const list = await loadConflist(this.#options.confDirectory ?? defaultConfDirectory, listName);
    const fresh = { state: "changing", list, bootId: readBootId() } as const;
    if (known) {
      const interfaces = known.interfaces.map(({ ifName, tap }) => ({ ifName, tap }));
      return { ...known, ...fresh, interfaces };
    }
    return {
      ...fresh,
      version: 1,
      vmId,
      netns: `cocoon-${vmId}`,
      ...(listName === undefined ? {} : { listName }),
      args: formatArgs({ vmId, vmName, pod: spec.pod }),
      runtimeConfig: formatRuntimeConfig(spec),
      ...(spec.dns ? { dns: { servers: [...spec.dns.servers], searches: [...spec.dns.searches] } } : {}),
      queueSize: spec.queueSize || defaultQueueSize,
      interfaces: Array.from({ length: spec.nics ?? 1 }, (_each, index) => ({
        ifName: `eth${index}`,
        tap: `tap${vmId.slice(0, 8)}-${index}`,
      })),
    };
  }

  async #attach(draft: Attachment, options: Abortable): Promise<Attachment> {
    await ensureNamespace(draft.netns, options);
    const [attachment] = await Promise.all([
      this.#addAll(draft, options),
      makeTaps(
        draft.netns,
        draft.interfaces.map(({ tap }) => tap),
        options,
      ),
    ]);
    return attachment;
  }

  async #addAll(draft: Attachment, options: Abortable): Promise<Attachment> {
    let attachment = draft;
    for (const [index, target] of listTargets(draft).entries()) {
      const onResult = async (result: RawResult) => {
        const interfaces = attachment.interfaces.map((each, at) =>
          at === index ? { ...each, result } : each,
        );
        attachment = { ...attachment, interfaces };
        await this.#store.write(attachment, volatile);
      };
      await this.#plugins.add(draft.list, target, { ...options, onResult });
    }
    return attachment;
  }

  /** Reads what CNI made and joins the guest's taps to it. */
  async #describe(attachment: Attachment, options: Abortable): Promise<NicPlan[]> {
    const { netns, interfaces } = attachment;
    const plugged = await Promise.all(interfaces.map(({ ifName }) => readInterface(netns, ifName, options)));
    const pairs = interfaces.flatMap((each, index) => {
      const found = plugged[index];
      return found ? [{ ...each, ...found }] : [];
    });
    await joinTaps(netns, pairs, options);
    return pairs.map((pair) => this.#buildPlan(attachment, pair));
  }

  #buildPlan(attachment: Attachment, pair: PluggedInterface & { readonly tap: string }): NicPlan {
    const { ip, prefix, gateway, mac, mtu, tap } = pair;
    const address = { ip, prefix, ...(gateway === undefined ? {} : { gateway }) };
    const dns = attachment.dns ?? { servers: this.#options.dns ?? [], searches: [] };
    return {
      nic: {
        mac,
        backend: "cni",
        tap,
        netnsPath: formatNetnsPath(attachment.netns),
        address,
        queues: 2,
        queueSize: attachment.queueSize,
        forwards: [],
      },
      guest: {
        mac,
        address,
        dns: dns.servers,
        ...(dns.searches.length > 0 ? { searches: dns.searches } : {}),
        mtu,
      },
      netdev: `tap,ifname=${tap},script=no,downscript=no`,
      refreshMac: true,
    };
  }

  /** The record stays until all of it is gone: what fails is repeated. */
  async #detach(attachment: Attachment, options: Abortable): Promise<void> {
    if (attachment.state === "ready") await this.#store.write({ ...attachment, state: "changing" });
    else await endPlugins(attachment.vmId); // of a process that died: one that ended later would undo what follows
    const hasNetns = await hasNamespace(attachment.netns);
    for (const target of listTargets(attachment).toReversed())
      await this.#plugins.del(attachment.list, hasNetns ? target : { ...target, netns: "" }, options);
    await removeNamespace(attachment.netns, options);
  }

  async #collectGarbage(options: Abortable): Promise<void> {
    const attachments = await this.#store.list();
    const list = await loadConflist(this.#options.confDirectory ?? defaultConfDirectory, this.#options.list);
    const valid = attachments
      .filter((each) => each.list.name === list.name)
      .flatMap(({ vmId, interfaces }) =>
        interfaces.map(({ ifName }) => ({ containerID: vmId, ifname: ifName })),
      );
    await this.#plugins.gc(list, valid, options).catch((error: unknown) => {
      options.signal.throwIfAborted();
      this.#log.warn({ error: getErrorMessage(error) }, "CNI garbage not collected");
    });
  }

  async #publish(): Promise<void> {
    const { leasesPath } = this.#options;
    if (leasesPath === undefined) return;
    const attachments = await this.#store.list();
    const leases = attachments.flatMap(({ ip, mac }) =>
      ip === undefined || mac === undefined ? [] : [{ mac, ip }],
    );
    await writeLeases(leasesPath, leases);
  }
}

function readBootId(): string {
  return tryIdentify(process.pid)?.bootId ?? "";
}

function listTargets({
  vmId,
  netns,
  args,
  runtimeConfig,
  interfaces,
}: Attachment): (AttachmentTarget & { readonly result?: RawResult })[] {
  return interfaces.map(({ ifName, result }, index) => ({
    containerId: vmId,
    netns: formatNetnsPath(netns),
    ifName,
    args,
    // Ports of the host and limits belong to the first interface.
    runtimeConfig: index === 0 ? runtimeConfig : {},
    ...(result ? { result } : {}),
  }));
}
