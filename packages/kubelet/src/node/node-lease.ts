/**
 * The node's heartbeat: a Lease renewed every quarter of its duration. It also says which host has the node name: a second host
 * would delete, adopt and overwrite machines of the first. Whether a foreign lease is alive is seen by watching it change.
 */
import {
  clockSleep,
  Fault,
  isFault,
  ignoreFault,
  systemClock,
  type Abortable,
  type Clock,
  type Logger,
} from "@cocoon/core";
import { formatMicros } from "@cocoon/core/conditions";
import { leases, type KubeClient, type Lease } from "@cocoon/kube";

const namespace = "kube-node-lease";
export const leaseDurationSeconds = 40;

const machineIdAnnotation = "virtual-kubelet.io/machine-id";

const observeEveryMs = 1_000;

export class NodeNameTaken extends Fault {
  constructor(nodeName: string, holder: string) {
    super(
      "conflict",
      `node name ${nodeName} is in use by host ${holder}, which renews its lease: ` +
        "give this host a node name of its own, or stop the other one",
    );
  }
}

export interface NodeLeaseOptions {
  readonly client: KubeClient;
  readonly nodeName: string;
  readonly machineId: string;
  readonly log: Logger;
  readonly clock?: Clock;
}

export class NodeLease {
  readonly #options: NodeLeaseOptions;
  readonly #clock: Clock;
  /** Of the last read or write: another host's write in between is a conflict. */
  #version: string | undefined;

  constructor(options: NodeLeaseOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
  }

  /** Resolves when no other host renews the lease for its duration. Throws NodeNameTaken. */
  async claim({ signal }: Abortable): Promise<void> {
    const { nodeName, log } = this.#options;
    const first = await this.#read(signal);
    const holder = this.#findOther(first);
    if (!holder) return;
    log.warn(
      { node: nodeName, holder },
      "node name belongs to another host; waiting for its lease to expire",
    );
    const until = this.#clock.now() + leaseDurationSeconds * 1000;
    while (this.#clock.now() < until) {
      if (!(await clockSleep(this.#clock, observeEveryMs, signal))) return;
      const lease = await this.#read(signal);
      if (!this.#findOther(lease)) return;
      if (lease?.spec?.renewTime !== first?.spec?.renewTime) throw new NodeNameTaken(nodeName, holder);
    }
  }

  /** One write; the first one, and one after the lease was removed, creates it. Throws NodeNameTaken. */
  async renew(nodeUid: string, { signal }: Abortable): Promise<void> {
    const { client, nodeName, machineId } = this.#options;
    const key = { namespace, name: nodeName };
    const renewTime = formatMicros(new Date(this.#clock.wallNow()));
    const spec = { holderIdentity: nodeName, leaseDurationSeconds, renewTime };
    const metadata = {
      annotations: { [machineIdAnnotation]: machineId },
      ownerReferences: [{ apiVersion: "v1", kind: "Node", name: nodeName, uid: nodeUid }],
    };
    const lease = { metadata: { ...key, ...metadata }, spec };
    if (this.#version === undefined) return this.#create(lease, signal);
    try {
      const body = { metadata: { ...metadata, resourceVersion: this.#version }, spec };
      const patched = await client.patch(leases, { key, patch: { type: "merge", body } }, { signal });
      this.#version = patched.metadata.resourceVersion;
    } catch (error) {
      if (isFault(error, "notFound")) return this.#create(lease, signal);
      if (isFault(error, "conflict")) return this.#resolveConflict(error, signal);
      throw error;
    }
  }

  async #create(lease: Lease, signal: AbortSignal): Promise<void> {
    this.#version = undefined;
    try {
      const created = await this.#options.client.create(leases, lease, { signal });
      this.#version = created.metadata.resourceVersion;
    } catch (error) {
      if (!isFault(error, "alreadyExists")) throw error;
      await this.#resolveConflict(error, signal);
    }
  }

  /** The lease was written meanwhile: by another host, or by a client that changed something else. */
  async #resolveConflict(conflict: Fault, signal: AbortSignal): Promise<never> {
    const holder = this.#findOther(await this.#read(signal));
    if (holder) throw new NodeNameTaken(this.#options.nodeName, holder);
    throw conflict; // the next attempt has the version that was just read
  }

  async #read(signal: AbortSignal): Promise<Lease | undefined> {
    const { client, nodeName } = this.#options;
    const lease = await ignoreFault(
      "notFound",
      client.get(leases, { namespace, name: nodeName }, { signal }),
    );
    this.#version = lease?.metadata.resourceVersion;
    return lease;
  }

  /** The other host that wrote the lease last; leases of older versions have no machine id and are taken over. */
  #findOther(lease: Lease | undefined): string | undefined {
    const holder = lease?.metadata.annotations?.[machineIdAnnotation];
    return holder === this.#options.machineId ? undefined : holder;
  }
}
