/** Create, pause, wake, prolong and kill. Each writes the desired state once, and waits for the operator and the node to reach it. */
import { annotation, gatewayKey, type CocoonSetSpecInput } from "@cocoon/contract";
import { getErrorMessage, isFault, sleep, withDeadline, type Abortable, type Logger } from "@cocoon/core";
import type { KubeConnection } from "@cocoon/kube";
import { tryReadPod } from "../cluster/read-pod.ts";
import { ApiError } from "../http/answer.ts";
import type { Tenant, TenantSets } from "../tenants/tenant.ts";
import type { Egress } from "./egress.ts";
import { createSet } from "./egress-sets.ts";
import type { EgressRules } from "./egress-rules.ts";
import type { Guests } from "./guests.ts";
import { makeSandboxId } from "./ids.ts";
import {
  getPodName,
  getUser,
  tryReadSandbox,
  writeSandboxSpec,
  type Sandbox,
  type SandboxSpec,
  type SetObject,
} from "./sandbox.ts";
import type { SandboxStore } from "./store.ts";
import { sandboxLabels, setIdentity } from "./templates.ts";

export interface LifecycleOptions {
  readonly store: SandboxStore;
  readonly sets: TenantSets;
  readonly client: Pick<KubeConnection, "raw">;
  readonly guests: Guests;
  readonly egress: Egress;
  readonly log: Logger;
  /** How long a machine may take to come up, to sleep, or to wake. */
  readonly waitMs: number;
  readonly maxLifeSeconds: number;
}

export interface CreateRequest {
  /** The machine. */
  readonly setSpec: CocoonSetSpecInput;
  readonly spec: Omit<SandboxSpec, "startedAt">;
  /** Chosen when absent. */
  readonly id?: string;
  /** Where it may connect to; absent: anywhere. */
  readonly egress?: EgressRules;
}

interface Awaited extends Abortable {
  readonly generation: number;
}

const minWakeSeconds = 300;
const savedPollMs = 150;
const endless = "9999-12-31T23:59:59Z";

export class Lifecycle {
  readonly #options: LifecycleOptions;

  constructor(options: LifecycleOptions) {
    this.#options = options;
  }

  async create(tenant: Tenant, request: CreateRequest, options: Abortable): Promise<Sandbox> {
    const { store } = this.#options;
    this.assertLife(request.spec.timeout);
    const now = store.now();
    const spec: SandboxSpec = { ...request.spec, startedAt: now.toISOString(), generation: 1 };
    const id = request.id ?? makeSandboxId();
    const object = {
      ...setIdentity,
      metadata: {
        name: id,
        namespace: tenant.namespace,
        labels: sandboxLabels,
        annotations: writeSandboxSpec(spec),
      },
      spec: { ...request.setSpec, expire: buildExpiry(spec, now) },
    };
    const { metadata } = await createSet(this.#options, { tenant, object, rules: request.egress }, options);
    try {
      return await this.#awaitReady(tenant, id, options);
    } catch (error) {
      // The client has no id to kill it by. One with an idempotency key is asked for again.
      if (request.id === undefined) await this.#discard(tenant, { name: id, uid: metadata.uid ?? "" });
      throw error;
    }
  }

  /** A warm machine becomes this sandbox; undefined when another create was faster. It is prepared: only an environment is new to it. */
  async takeOver(
    tenant: Tenant,
    { member, spec: wanted }: { readonly member: SetObject; readonly spec: CreateRequest["spec"] },
    options: Abortable,
  ): Promise<Sandbox | undefined> {
    const { store, sets } = this.#options;
    this.assertLife(wanted.timeout);
    const { name: id = "", uid, resourceVersion, generation = 0 } = member.metadata;
    const now = store.now();
    const spec: SandboxSpec = { ...wanted, startedAt: now.toISOString(), generation };
    const annotations = { ...writeSandboxSpec(spec), [gatewayKey.poolReady]: null };
    const labels = { ...sandboxLabels, [gatewayKey.pool]: null };
    const body = {
      metadata: { uid, resourceVersion, labels, annotations },
      spec: { expire: buildExpiry(spec, now) },
    };
    try {
      await sets.patch(tenant, id, body, options);
    } catch (error) {
      if (isFault(error, "conflict") || isFault(error, "notFound")) return undefined;
      throw error;
    }
    const isPrepared = Object.keys(spec.env).length === 0;
    return this.#awaitReady(tenant, id, { ...options, isPrepared });
  }

  async #discard(tenant: Tenant, target: { readonly name: string; readonly uid: string }): Promise<void> {
    const { sets, log } = this.#options;
    try {
      await sets.delete(tenant, target, { signal: AbortSignal.timeout(10_000) });
    } catch (error) {
      log.warn(
        { sandbox: target.name, error: getErrorMessage(error) },
        "sandbox that failed to start is not deleted; it expires",
      );
    }
  }

  /** Running: only ever prolonged. Paused: woken. `true` when it was woken. */
  async connect(
    tenant: Tenant,
    sandbox: Sandbox,
    { timeout, signal }: Abortable & { readonly timeout: number },
  ): Promise<{ readonly sandbox: Sandbox; readonly woken: boolean }> {
    this.assertLife(timeout);
    const woken = sandbox.state === "paused";
    if (woken) await this.#wake(tenant, sandbox, { timeout, signal });
    else if (this.#options.store.now().getTime() + timeout * 1000 > sandbox.endAt.getTime())
      await this.setTimeout(tenant, sandbox, { timeout, signal });
    return { sandbox: await this.#awaitReady(tenant, sandbox.id, { signal }), woken };
  }

  /** For traffic: the sandbox is ready again, for its own timeout and at least five minutes. */
  async wake(sandbox: Sandbox, { signal }: Abortable): Promise<Sandbox> {
    const tenant = { namespace: sandbox.namespace, user: getUser(sandbox), keyId: "" };
    if (sandbox.state === "running") return this.#awaitReady(tenant, sandbox.id, { signal });
    const timeout = Math.max(sandbox.spec.timeout, minWakeSeconds);
    return (await this.connect(tenant, sandbox, { timeout, signal })).sandbox;
  }

  async #wake(
    tenant: Tenant,
    sandbox: Sandbox,
    { timeout, signal }: Abortable & { readonly timeout: number },
  ): Promise<void> {
    const now = this.#options.store.now();
    const { pausedAt: _paused, ...rest } = sandbox.spec;
    const generation = (sandbox.set.metadata.generation ?? 0) + 1;
    const spec: SandboxSpec = { ...rest, startedAt: now.toISOString(), generation };
    const body = {
      metadata: { uid: sandbox.set.metadata.uid, annotations: writeSandboxSpec(spec) },
      spec: { suspend: false, expire: buildExpiry({ ...spec, timeout }, now) },
    };
    await this.#options.sets.patch(tenant, sandbox.id, body, { signal });
  }

  async setTimeout(
    tenant: Tenant,
    sandbox: Sandbox,
    { timeout, signal }: Abortable & { readonly timeout: number },
  ): Promise<void> {
    const { store, sets, maxLifeSeconds } = this.#options;
    const { uid } = sandbox.set.metadata;
    const expire = buildExpiry({ ...sandbox.spec, timeout: Math.min(timeout, maxLifeSeconds) }, store.now());
    await sets.patch(tenant, sandbox.id, { metadata: { uid }, spec: { expire } }, { signal });
  }

  /**
   * Resolves when the machine is paused and saved on its node; the push to the registry follows. Where the node does not report that,
   * when memory and disk are verified in the registry.
   */
  async pause(tenant: Tenant, sandbox: Sandbox, { signal }: Abortable): Promise<void> {
    const { store, sets, guests } = this.#options;
    const spec: SandboxSpec = { ...sandbox.spec, pausedAt: store.now().toISOString() };
    const body = {
      metadata: { uid: sandbox.set.metadata.uid, annotations: writeSandboxSpec(spec) },
      spec: { suspend: true, expire: { at: endless, action: "Suspend" } },
    };
    const { metadata } = await sets.patch(tenant, sandbox.id, body, { signal });
    guests.forget(sandbox);
    const { generation = 0 } = metadata;
    const over = new AbortController();
    const until = AbortSignal.any([signal, over.signal]);
    try {
      await Promise.race([
        this.#awaitSuspended(sandbox, { generation, signal: until }),
        this.#awaitSaved(sandbox, { generation, signal: until }),
      ]);
    } finally {
      over.abort(new Error("paused"));
    }
    guests.forget(sandbox);
  }

  async #awaitSuspended(sandbox: Sandbox, { generation, signal }: Awaited): Promise<void> {
    await this.#wait(sandbox, { signal, what: "pause" }, (set) => {
      if (!set) throw new ApiError(404, `Sandbox ${sandbox.id} not found`);
      const seen = (set.status?.observedGeneration ?? 0) >= generation;
      return seen && set.status?.phase === "Suspended" ? true : undefined;
    });
  }

  /** Never resolves where the pod does not say so. */
  async #awaitSaved(sandbox: Sandbox, { generation, signal }: Awaited): Promise<void> {
    const query = { namespace: sandbox.namespace, pod: getPodName(sandbox), user: getUser(sandbox), signal };
    const never = new Promise<never>(() => undefined);
    while (await sleep(savedPollMs, { signal }))
      try {
        const pod = await tryReadPod(this.#options.client, query);
        const saved = Number(pod?.metadata.annotations?.[annotation.savedGeneration] ?? -1);
        if (saved >= generation) return;
      } catch {
        // The set's status says the same, later.
      }
    return never;
  }

  async kill(tenant: Tenant, sandbox: Sandbox, options: Abortable): Promise<void> {
    const { sets, guests } = this.#options;
    const { uid = "" } = sandbox.set.metadata;
    try {
      await sets.delete(tenant, { name: sandbox.id, uid }, options);
    } catch (error) {
      if (!isFault(error, "notFound")) throw error;
    }
    guests.cut(sandbox);
    await this.#wait(sandbox, { ...options, what: "kill" }, (set) =>
      set === undefined || set.metadata.uid !== uid || set.metadata.deletionTimestamp !== undefined
        ? true
        : undefined,
    );
  }

  assertLife(timeout: number): void {
    const { maxLifeSeconds } = this.#options;
    if (timeout > maxLifeSeconds)
      throw new ApiError(400, `timeout: ${timeout} s is longer than the limit of ${maxLifeSeconds} s`);
  }

  /** Ready, and its guest has the token and environment of this sandbox. */
  async #awaitReady(
    tenant: Tenant,
    id: string,
    { signal, isPrepared = false }: Abortable & { readonly isPrepared?: boolean },
  ): Promise<Sandbox> {
    const { store, guests } = this.#options;
    const ready = await this.#wait({ namespace: tenant.namespace, id }, { signal, what: "start" }, (set) => {
      if (!set) return undefined; // the cache is behind our own write
      const sandbox = tryReadSandbox(set, store.now());
      if (!sandbox) throw new ApiError(404, `Sandbox ${id} not found`);
      if (sandbox.phase === "Failed")
        throw new ApiError(500, describeFailure(set), { errorCode: "sandbox_create_failed" });
      return sandbox.isReady ? sandbox : undefined;
    });
    if (!isPrepared) await guests.prepare(ready, { signal: withDeadline(signal, this.#options.waitMs) });
    return ready;
  }

  async #wait<T>(
    owner: Pick<Sandbox, "namespace" | "id">,
    { signal, what }: Abortable & { readonly what: string },
    check: (set: SetObject | undefined) => T | undefined,
  ): Promise<T> {
    const { store, waitMs } = this.#options;
    const deadline = withDeadline(signal, waitMs);
    try {
      return await store.waitFor(owner, check, { signal: deadline });
    } catch (error) {
      if (signal.aborted || !deadline.aborted || error instanceof ApiError) throw error;
      throw new ApiError(504, `sandbox ${owner.id}: ${what} is not done after ${waitMs / 1000} s`, {
        errorCode: "sandbox_placement_timeout",
        headers: { "should-retry": "false" },
      });
    }
  }
}

/** At the end a paused one stays; others go. */
function buildExpiry({ timeout, autoPause }: Pick<SandboxSpec, "timeout" | "autoPause">, now: Date) {
  const at = new Date(now.getTime() + timeout * 1000).toISOString();
  return { at, action: autoPause ? ("Suspend" as const) : ("Delete" as const) };
}

function describeFailure({ status }: SetObject): string {
  const problem = status?.conditions?.find(
    ({ status: state, type }) => type !== "Ready" && type !== "Progressing" && state === "True",
  );
  return `the machine failed: ${problem?.message ?? "see the events of its set"}`;
}
