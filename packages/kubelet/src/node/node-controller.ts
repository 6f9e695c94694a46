/**
 * Keeps the Node object: registered, repaired when somebody removes it or its labels and taints, its status written
 * when it says something new and once in a while besides, its lease renewed. A provider that is not well is told as
 * condition Ready=False with the reason; the lease goes on, since the kubelet itself is alive.
 */
import { aborted, Backoff, isFault, messageOf, sleep, type Logger } from "@cocoon/core";
import { nodes, type KubeClient, type Node } from "@cocoon/kube";
import {
  metadataRepair,
  newNode,
  saysSomethingNew,
  wantedStatus,
  type NodeDescription,
} from "./node-description.ts";
import { renewNodeLease } from "./node-lease.ts";

export interface NodeControllerOptions {
  readonly client: KubeClient;
  readonly name: string;
  /** How the node is now; asked before each status write. Throwing means that the provider is not well. */
  readonly describe: (options: { readonly signal: AbortSignal }) => Promise<NodeDescription>;
  readonly log: Logger;
  readonly leaseRenewMs?: number;
  /** How often `describe` is asked. */
  readonly checkMs?: number;
  /** The status is written at least this often, also when nothing changed. */
  readonly reportMs?: number;
}

export interface NodeController extends AsyncDisposable {
  /** Resolves when the node is registered and its first lease written. */
  readonly ready: Promise<void>;
  /** Something changed: look at once. */
  touch(): void;
  /** Removes the Node object: this machine leaves the cluster for good. */
  remove(): Promise<void>;
}

const defaults = { leaseRenewMs: 10_000, checkMs: 10_000, reportMs: 5 * 60_000 };

export function startNodeController(options: NodeControllerOptions): NodeController {
  return new RunningNode(options);
}

class RunningNode implements NodeController {
  readonly #options: NodeControllerOptions & typeof defaults;
  readonly #stop = new AbortController();
  readonly #ready = Promise.withResolvers<void>();
  readonly #loops: Promise<unknown>;
  #touched = Promise.withResolvers<void>();
  #uid: string | undefined;
  #lastDescription: NodeDescription | undefined;
  #lastReport = -Infinity;

  constructor(options: NodeControllerOptions) {
    this.#options = { ...defaults, ...options };
    this.#ready.promise.catch(() => undefined);
    this.#loops = this.#run();
  }

  get ready(): Promise<void> {
    return this.#ready.promise;
  }

  touch(): void {
    this.#touched.resolve();
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    const { checkMs, leaseRenewMs } = this.#options;
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
        waitMs = backoff.nextMs();
        this.#options.log.warn(
          { node: this.#options.name, what, error: messageOf(error) },
          "node update failed",
        );
      }
      await Promise.race([sleep(waitMs, { signal }), ...(what === "status" ? [this.#touched.promise] : [])]);
    }
  }

  async #synchronise(): Promise<void> {
    this.#touched = Promise.withResolvers<void>();
    const { client, name } = this.#options;
    const options = { signal: this.#stop.signal };
    const description = await this.#describe();
    const node = await this.#ensure(description);
    this.#uid = node.metadata.uid;
    const repair = metadataRepair(name, description, node);
    if (repair) await client.patch(nodes, { key: { name }, patch: { type: "merge", body: repair } }, options);
    const status = wantedStatus(description, node.status, new Date());
    const due = performance.now() - this.#lastReport >= this.#options.reportMs;
    if (!due && !saysSomethingNew(status, node.status)) return;
    await client.patch(
      nodes,
      { key: { name }, patch: { type: "strategic", body: { status } } },
      { ...options, subresource: "status" },
    );
    this.#lastReport = performance.now();
  }

  async #describe(): Promise<NodeDescription> {
    try {
      this.#lastDescription = await this.#options.describe({ signal: this.#stop.signal });
      return this.#lastDescription;
    } catch (error) {
      if (!this.#lastDescription || this.#stop.signal.aborted) throw error;
      const conditions = this.#lastDescription.conditions.map((condition) =>
        condition.type === "Ready"
          ? {
              type: "Ready",
              status: "False" as const,
              reason: "ProviderNotHealthy",
              message: messageOf(error),
            }
          : condition,
      );
      return { ...this.#lastDescription, conditions };
    }
  }

  async #ensure(description: NodeDescription): Promise<Node> {
    const { client, name, log } = this.#options;
    const options = { signal: this.#stop.signal };
    try {
      return await client.get(nodes, { name }, options);
    } catch (error) {
      if (!isFault(error, "notFound")) throw error;
      log.info({ node: name }, "registering node");
      return client.create(nodes, newNode(name, description, new Date()), options);
    }
  }

  async #renew(): Promise<void> {
    const { client, name } = this.#options;
    if (this.#uid)
      await renewNodeLease({ client, nodeName: name, nodeUid: this.#uid }, { signal: this.#stop.signal });
  }

  async remove(): Promise<void> {
    await this[Symbol.asyncDispose]();
    const { client, name } = this.#options;
    try {
      await client.delete(nodes, { name }, { signal: AbortSignal.timeout(10_000) });
    } catch (error) {
      if (!isFault(error, "notFound")) throw error;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await Promise.all([aborted(this.#stop.signal), this.#loops]);
  }
}
