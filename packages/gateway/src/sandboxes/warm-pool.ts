/**
 * Machines that run before they are asked for. Each is a set of the tenant's namespace, made of a template and prepared as a sandbox is; a
 * create takes one over by one patch. Which replica made it does not matter. A pool is filled after a create, so only namespaces that
 * make sandboxes have one, and what is not taken expires.
 */
import { gatewayKey } from "@cocoon/contract";
import { getErrorMessage, type Abortable, type Logger } from "@cocoon/core";
import type { ObjectCache } from "@cocoon/kube";
import type { Tenant, TenantSets } from "../tenants/tenant.ts";
import { CacheWaiters } from "./cache-waiters.ts";
import type { CreateRequest, Lifecycle } from "./lifecycle.ts";
import { makeSandboxId } from "./ids.ts";
import {
  describeRunning,
  isSetReady,
  writeSandboxSpec,
  type Sandbox,
  type SandboxSpec,
  type SetObject,
} from "./sandbox.ts";
import { hashTemplate, setIdentity, type Template } from "./templates.ts";

export interface WarmPoolOptions {
  readonly cache: ObjectCache<SetObject>;
  readonly sets: TenantSets;
  readonly lifecycle: Lifecycle;
  readonly prepare: (sandbox: Sandbox, options: Abortable) => Promise<void>;
  /** Machines of each namespace and template; 0: none. */
  readonly size: number;
  readonly waitMs: number;
  readonly log: Logger;
}

/** What is not taken for so long goes. */
const keepMs = 3_600_000;

export interface PoolRequest extends Pick<CreateRequest, "setSpec" | "spec"> {
  readonly template: Template;
}

export class WarmPool implements Disposable {
  readonly #options: WarmPoolOptions;
  readonly #waiters: CacheWaiters;
  /** Being made by this replica, by namespace and template. */
  readonly #making = new Map<string, number>();
  /** Taken by this replica: the cache may still show them. */
  readonly #taken = new Set<string>();

  constructor(options: WarmPoolOptions) {
    this.#options = options;
    this.#waiters = new CacheWaiters(options.cache);
  }

  /** A sandbox that runs already; undefined when there is none. */
  async tryTake(tenant: Tenant, request: PoolRequest, options: Abortable): Promise<Sandbox | undefined> {
    const { lifecycle } = this.#options;
    for (const member of this.#list(tenant.namespace, request.template)) {
      if (member.metadata.annotations?.[gatewayKey.poolReady] !== "true" || !isSetReady(member)) continue;
      const taken = await lifecycle.takeOver(tenant, { member, spec: request.spec }, options);
      if (!taken) continue;
      this.#taken.add(member.metadata.uid ?? "");
      return taken;
    }
    return undefined;
  }

  /** In the background: as many as there should be. */
  fill(tenant: Tenant, { template, setSpec, spec }: PoolRequest): void {
    const { size } = this.#options;
    const key = `${tenant.namespace}/${hashTemplate(template)}`;
    const making = this.#making.get(key) ?? 0;
    const members = this.#list(tenant.namespace, template).filter((member) => this.#isUsable(member));
    const missing = size - members.length - making;
    if (missing <= 0) return;
    this.#making.set(key, making + missing);
    const blank = { ...spec, metadata: {}, env: {} };
    for (let made = 0; made < missing; made += 1)
      void this.#make(tenant, { template, setSpec, spec: blank }).finally(() => {
        const left = (this.#making.get(key) ?? 1) - 1;
        if (left > 0) this.#making.set(key, left);
        else this.#making.delete(key);
      });
  }

  async #make(tenant: Tenant, request: PoolRequest): Promise<void> {
    const { sets, waitMs, log, prepare } = this.#options;
    const signal = AbortSignal.timeout(waitMs);
    const object = buildMember(tenant, request);
    const { name } = object.metadata;
    let uid: string | undefined;
    try {
      const { metadata } = await sets.create(tenant, object, { signal });
      uid = metadata.uid;
      const ready = await this.#awaitReady({ namespace: tenant.namespace, name }, { signal });
      const spec: SandboxSpec = { ...request.spec, startedAt: metadata.creationTimestamp ?? "" };
      await prepare(describeRunning(ready, spec), { signal });
      const annotations = { [gatewayKey.poolReady]: "true" };
      await sets.patch(tenant, name, { metadata: { uid: metadata.uid, annotations } }, { signal });
    } catch (error) {
      log.warn({ set: name, error: getErrorMessage(error) }, "warm machine was not made");
      await this.#discard(tenant, { name, uid });
    }
  }

  /** The next create makes another. */
  async #discard(
    tenant: Tenant,
    { name, uid }: { readonly name: string; readonly uid: string | undefined },
  ): Promise<void> {
    const { sets, log } = this.#options;
    if (uid === undefined) return;
    try {
      await sets.delete(tenant, { name, uid }, { signal: AbortSignal.timeout(10_000) });
    } catch (error) {
      log.warn({ set: name, error: getErrorMessage(error) }, "warm machine is not deleted; it expires");
    }
  }

  /** One that is not ready in time was left by a gateway that ended. */
  #isUsable({ metadata }: SetObject): boolean {
    const age = Date.now() - Date.parse(metadata.creationTimestamp ?? "");
    return metadata.annotations?.[gatewayKey.poolReady] === "true" || age < this.#options.waitMs;
  }

  #awaitReady(
    key: { readonly namespace: string; readonly name: string },
    options: Abortable,
  ): Promise<SetObject> {
    return this.#waiters.waitFor(key, (set) => (set && isSetReady(set) ? set : undefined), options);
  }

  #list(namespace: string, template: Template): SetObject[] {
    const wanted = hashTemplate(template);
    const all = [...this.#options.cache.list()];
    const shown = new Set(all.map(({ metadata }) => metadata.uid ?? ""));
    for (const uid of this.#taken) if (!shown.has(uid)) this.#taken.delete(uid);
    return all.filter(
      ({ metadata }) =>
        !this.#taken.has(metadata.uid ?? "") &&
        metadata.namespace === namespace &&
        metadata.labels?.[gatewayKey.pool] === wanted &&
        metadata.deletionTimestamp === undefined,
    );
  }

  [Symbol.dispose](): void {
    this.#waiters[Symbol.dispose]();
  }
}

function buildMember({ namespace }: Tenant, { template, setSpec, spec }: PoolRequest) {
  const expire = { at: new Date(Date.now() + keepMs).toISOString(), action: "Delete" as const };
  return {
    ...setIdentity,
    metadata: {
      name: makeSandboxId(),
      namespace,
      labels: { [gatewayKey.pool]: hashTemplate(template) },
      annotations: writeSandboxSpec({ ...spec, startedAt: new Date().toISOString() }),
    },
    spec: { ...setSpec, expire },
  };
}
