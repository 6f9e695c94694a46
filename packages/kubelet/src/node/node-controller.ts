/**
 * Keeps the Node object: registered, repaired, its status current, its lease renewed. A provider that fails is reported as
 * Ready=False; the lease goes on, since the kubelet itself is alive.
 */
import {
  aborted,
  Backoff,
  getErrorMessage,
  ignoreFault,
  sleep,
  type Abortable,
  type Logger,
} from "@cocoon/core";
import { nodes, type KubeClient, type Node } from "@cocoon/kube";
import {
  metadataRepair,
  newNode,
  saysSomethingNew,
  wantedStatus,
  type NodeDescription,
} from "./node-description.ts";
import { readHostInfo } from "./host-info.ts";
import { NodeContact } from "./node-contact.ts";
import { leaseDurationSeconds, NodeLease, NodeNameTaken } from "./node-lease.ts";

export interface NodeControllerOptions {
  readonly client: KubeClient;
  readonly name: string;
  readonly machineId: string;
  /** How the node is now; called before each status write. Throwing means that the provider failed. */
  readonly describe: (options: { readonly signal: AbortSignal }) => Promise<NodeDescription>;
  readonly log: Logger;
}

/** Set by administrators who fence a node, and by the node lifecycle controller. */
const fencingTaints: ReadonlySet<string> = new Set([
  "node.kubernetes.io/out-of-service",
  "node.kubernetes.io/unreachable",
]);

const leaseRenewMs = 10_000;
const checkMs = 10_000;
const reportMs = 5 * 60_000;

export class NodeController implements AsyncDisposable {
  readonly #options: NodeControllerOptions;
  readonly #stop = new AbortController();
  readonly #ready = Promise.withResolvers<void>();
  /** Resolves when the node is registered and its first lease written; rejects when another host has the name. */
  readonly ready = this.#ready.promise;
  readonly #failed = Promise.withResolvers<never>();
  /** Rejects when another host has taken over the name; never resolves. */
  readonly failed = this.#failed.promise;
  readonly #lease: NodeLease;
  readonly #loops: Promise<unknown>;
  #touched = Promise.withResolvers<void>();
  readonly #contact = new NodeContact(leaseDurationSeconds * 1000);
  #uid: string | undefined;
  #lastDescription: NodeDescription | undefined;
  #lastReport = -Infinity;

  constructor(options: NodeControllerOptions) {
    this.#options = options;
    const { client, name, machineId, log } = options;
    this.#lease = new NodeLease({ client, nodeName: name, machineId, log });
    this.ready.catch(() => undefined);
    this.failed.catch(() => undefined);
    this.#loops = this.#run();
  }

  touch(): void {
    this.#touched.resolve();
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    await this.#repeat("lease", () => this.#lease.claim({ signal }), { everyMs: leaseRenewMs, once: true });
    await this.#repeat("status", () => this.#synchronise(), { everyMs: checkMs, once: true });
    await this.#repeat("lease", () => this.#renew(), { everyMs: leaseRenewMs, once: true });
    if (signal.aborted) this.#ready.reject(new Error("stopped before the node was registered"));
    else this.#ready.resolve();
    await Promise.all([
      this.#repeat("status", () => this.#synchronise(), { everyMs: checkMs }),
      this.#repeat("lease", () => this.#renew(), { everyMs: leaseRenewMs }),
    ]);
  }

  /** Failures are tried again with growing pauses, for ever. */
  async #repeat(
    what: string,
    work: () => Promise<void>,
    timing: { readonly everyMs: number; readonly once?: boolean },
  ): Promise<void> {
    const { signal } = this.#stop;
    const backoff = new Backoff({ baseMs: 200, maxMs: timing.everyMs });
    while (!signal.aborted) {
      let waitMs = timing.everyMs;
      try {
        await work();
        if (timing.once) return;
        backoff.reset();
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof NodeNameTaken) return this.#giveUp(error);
        waitMs = backoff.nextMs();
        this.#options.log.warn(
          { node: this.#options.name, what, error: getErrorMessage(error) },
          "node update failed",
        );
      }
      await Promise.race([sleep(waitMs, { signal }), ...(what === "status" ? [this.#touched.promise] : [])]);
    }
  }

  /** Two hosts with one node name would work on each other's pods. */
  #giveUp(error: NodeNameTaken): void {
    this.#ready.reject(error);
    this.#failed.reject(error);
    this.#stop.abort();
  }

  async #synchronise(): Promise<void> {
    this.#touched = Promise.withResolvers<void>();
    const { client, name } = this.#options;
    const options = { signal: this.#stop.signal };
    const description = await this.#describe();
    const node = await this.#ensure(description);
    this.#noteIdentity(node);
    const repair = metadataRepair(name, description, node);
    if (repair) await client.patch(nodes, { key: { name }, patch: { type: "merge", body: repair } }, options);
    const status = wantedStatus(description, node.status, new Date());
    const due = performance.now() - this.#lastReport >= reportMs;
    if (!due && !saysSomethingNew(status, node.status)) return;
    await client.patch(
      nodes,
      { key: { name }, patch: { type: "strategic", body: { status } } },
      { ...options, subresource: "status" },
    );
    this.#lastReport = performance.now();
  }

  /** Another Node object than the one that was registered, or a fence, means that others gave this node up. */
  #noteIdentity(node: Node): void {
    const isReplaced = this.#uid !== undefined && this.#uid !== node.metadata.uid;
    if (isReplaced || isFenced(node)) this.#contact.lose();
    this.#uid = node.metadata.uid;
  }

  /** Whether this node is, or was shortly before, fenced, unreachable or without its Node object. */
  async isCutOff({ signal }: Abortable): Promise<boolean> {
    const { client, name } = this.#options;
    const node = await ignoreFault("notFound", client.get(nodes, { name }, { signal }));
    if (node) this.#noteIdentity(node);
    else this.#contact.lose();
    return this.#contact.isLost();
  }

  async #describe(): Promise<NodeDescription> {
    try {
      const description = await this.#options.describe({ signal: this.#stop.signal });
      const nodeInfo = { ...(await readHostInfo()), ...description.nodeInfo };
      this.#lastDescription = { ...description, nodeInfo };
      return this.#lastDescription;
    } catch (error) {
      if (!this.#lastDescription || this.#stop.signal.aborted) throw error;
      const conditions = this.#lastDescription.conditions.map((condition) =>
        condition.type === "Ready"
          ? {
              type: "Ready",
              status: "False" as const,
              reason: "ProviderNotHealthy",
              message: getErrorMessage(error),
            }
          : condition,
      );
      return { ...this.#lastDescription, conditions };
    }
  }

  async #ensure(description: NodeDescription): Promise<Node> {
    const { client, name, log } = this.#options;
    const options = { signal: this.#stop.signal };
    const node = await ignoreFault("notFound", client.get(nodes, { name }, options));
    if (node) return node;
    log.info({ node: name }, "registering node");
    return client.create(nodes, newNode(name, description, new Date()), options);
  }

  async #renew(): Promise<void> {
    if (!this.#uid) return;
    await this.#lease.renew(this.#uid, { signal: this.#stop.signal });
    this.#contact.confirm();
  }

  async remove(): Promise<void> {
    await this[Symbol.asyncDispose]();
    const { client, name } = this.#options;
    await ignoreFault("notFound", client.delete(nodes, { name }, { signal: AbortSignal.timeout(10_000) }));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await Promise.all([aborted(this.#stop.signal), this.#loops]);
  }
}

function isFenced(node: Node): boolean {
  return node.spec?.taints?.some(({ key }) => fencingTaints.has(key)) ?? false;
}
