/**
 * Snapshots that sandboxes start from. Each is a CocoonSet whose machine was forked from a sandbox and then hibernated: its memory and
 * disk are in the registry, it runs nowhere, and it lasts until it is deleted.
 */
import { gatewayKey, hibernateTag, type CocoonSetSpecInput } from "@cocoon/contract";
import { getErrorMessage, isFault, withDeadline, type Abortable, type Logger } from "@cocoon/core";
import type { ObjectCache } from "@cocoon/kube";
import { ApiError } from "../http/answer.ts";
import type { Tenant, TenantSets } from "../tenants/tenant.ts";
import { makeSandboxId } from "./ids.ts";
import {
  describeRunning,
  sandboxSpec,
  writeSandboxSpec,
  type Sandbox,
  type SandboxSpec,
  type SetObject,
} from "./sandbox.ts";
import { CacheWaiters } from "./cache-waiters.ts";
import { buildSetSpec, hashTemplate, setIdentity, type Template } from "./templates.ts";

export interface Snapshot {
  /** Name of its set. */
  readonly name: string;
  readonly namespace: string;
  /** What the client called it; empty when it has no name. */
  readonly alias: string;
  readonly template: Template;
  /** What sandboxes of it begin with. */
  readonly defaults: Pick<SandboxSpec, "env" | "user" | "directory">;
  /** The sandbox it was made of. */
  readonly source: string;
  readonly createdAt: string;
  readonly uid: string;
}

export interface SnapshotsOptions {
  readonly cache: ObjectCache<SetObject>;
  readonly sets: TenantSets;
  readonly waitMs: number;
  readonly log: Logger;
}

/** Label of snapshots without a name. */
const unnamed = "unnamed";
/** Of those that the gateway keeps of the templates it was given. */
const builtInPrefix = "built-in.";

export class Snapshots implements Disposable {
  readonly #options: SnapshotsOptions;
  readonly #waiters: CacheWaiters;
  readonly #building = new Set<string>();

  constructor(options: SnapshotsOptions) {
    this.#options = options;
    this.#waiters = new CacheWaiters(options.cache);
  }

  list(namespace: string): Snapshot[] {
    const found: Snapshot[] = [];
    for (const set of this.#options.cache.list()) {
      const snapshot = set.metadata.namespace === namespace ? tryReadSnapshot(set) : undefined;
      if (snapshot && !snapshot.alias.startsWith(builtInPrefix)) found.push(snapshot);
    }
    return found.sort((left, right) => right.createdAt.localeCompare(left.createdAt));
  }

  /** By alias, by `{namespace}/{alias}`, or by the name of its set; a tag other than `default` names none. */
  tryFind(namespace: string, reference: string): Snapshot | undefined {
    const [, owner, name] = /^(?:([a-z0-9-]+)\/)?([^/:]+)(?::default)?$/.exec(reference.toLowerCase()) ?? [];
    if (name === undefined || (owner !== undefined && owner !== namespace)) return undefined;
    return this.list(namespace).find(
      (each) => each.name === name || (each.alias !== "" && each.alias === name),
    );
  }

  /** The source goes on. A snapshot of the same name replaces the older one once it is complete. */
  async create(
    tenant: Tenant,
    {
      sandbox,
      template,
      alias,
    }: { readonly sandbox: Sandbox; readonly template: Template; readonly alias: string },
    options: Abortable,
  ): Promise<Snapshot> {
    const before = alias === "" ? [] : this.list(tenant.namespace).filter((each) => each.alias === alias);
    const name = `s${makeSandboxId().slice(1)}`;
    const request = {
      name,
      label: alias || unnamed,
      spec: { ...sandbox.spec, source: sandbox.id, machine: template },
      setSpec: buildForkSpec(sandbox, template),
    };
    const set = await this.#save(tenant, request, options);
    for (const each of before) await this.delete(tenant, each, options);
    const snapshot = tryReadSnapshot(set);
    if (!snapshot) throw new ApiError(500, `snapshot ${name} was not saved`);
    return snapshot;
  }

  /** A template that a client builds: `work` is done in the machine before it is saved. */
  async build(tenant: Tenant, request: BuildRequest, options: Abortable): Promise<Snapshot> {
    const { alias, name, template, setSpec, defaults, work } = request;
    const before = this.list(tenant.namespace).filter((each) => each.alias === alias);
    const { spec } = describeBuiltIn(tenant, template);
    const set = await this.#save(
      tenant,
      { name, label: alias, spec: { ...spec, ...defaults, source: "" }, setSpec, work, waitMs: buildMs },
      options,
    );
    for (const each of before) await this.delete(tenant, each, options);
    const snapshot = tryReadSnapshot(set);
    if (!snapshot) throw new ApiError(500, `template ${alias} was not saved`);
    return snapshot;
  }

  async delete(tenant: Tenant, { name, uid }: Snapshot, options: Abortable): Promise<void> {
    await this.#options.sets.delete(tenant, { name, uid }, options);
  }

  /** The snapshot that new sandboxes of a template of the gateway are cloned from, once there is one. */
  tryFindBuiltIn(namespace: string, template: Template): Snapshot | undefined {
    const set = this.#options.cache.get({ namespace, name: builtInName(template) });
    return set && tryReadSnapshot(set);
  }

  /**
   * In the background: later sandboxes start in a fraction of the time. From a machine of its own, booted from the image: what a
   * client does in a sandbox must not get into those of others.
   */
  saveBuiltIn(tenant: Tenant, template: Template): void {
    const name = builtInName(template);
    const key = `${tenant.namespace}/${name}`;
    if (this.#building.has(key) || this.#options.cache.get({ namespace: tenant.namespace, name })) return;
    this.#building.add(key);
    const request = { name, label: `${builtInPrefix}${template.name}`, ...describeBuiltIn(tenant, template) };
    const signal = AbortSignal.timeout(4 * this.#options.waitMs);
    this.#save(tenant, request, { signal })
      .catch((error: unknown) => this.#report(name, error))
      .finally(() => this.#building.delete(key));
  }

  #report(name: string, error: unknown): void {
    if (isFault(error, "alreadyExists")) return; // another replica saves it
    this.#options.log.warn(
      { set: name, error: getErrorMessage(error) },
      "template was not saved; sandboxes boot it",
    );
  }

  /** Waits until the machine runs, hibernates it. What fails on the way is removed; what is left by a crash expires. */
  async #save(tenant: Tenant, request: SaveRequest, { signal }: Abortable): Promise<SetObject> {
    const { sets } = this.#options;
    const { waitMs = this.#options.waitMs } = request;
    const deadline = withDeadline(signal, waitMs);
    const expire = { at: new Date(Date.now() + 2 * waitMs).toISOString(), action: "Delete" as const };
    const object = buildSnapshotSet(tenant.namespace, {
      ...request,
      setSpec: { ...request.setSpec, expire },
    });
    const created = await sets.create(tenant, object, { signal });
    const uid = created.metadata.uid ?? "";
    const key = { namespace: tenant.namespace, name: request.name };
    try {
      const running = await this.#waiters.waitFor(key, (set) => reachesPhase(set, "Running", created), {
        signal: deadline,
      });
      await request.work?.(describeRunning(running, request.spec), { signal: deadline });
      const patch = { metadata: { uid }, spec: { suspend: true, expire: null } };
      const asleep = await sets.patch(tenant, request.name, patch, { signal });
      return await this.#waiters.waitFor(key, (set) => reachesPhase(set, "Suspended", asleep), {
        signal: deadline,
      });
    } catch (error) {
      await sets.delete(tenant, { name: request.name, uid }, { signal: AbortSignal.timeout(10_000) });
      if (signal.aborted || !deadline.aborted) throw error;
      throw new ApiError(504, `snapshot ${request.name} is not saved after ${waitMs / 1000} s`);
    }
  }

  [Symbol.dispose](): void {
    this.#waiters[Symbol.dispose]();
  }
}

interface SaveRequest {
  readonly name: string;
  readonly label: string;
  readonly spec: SandboxSpec;
  readonly setSpec: CocoonSetSpecInput;
  /** Done in the machine before it is saved. */
  readonly work?: (machine: Sandbox, options: Abortable) => Promise<void>;
  /** How long all of it may take; default: that of the gateway. */
  readonly waitMs?: number;
}

export interface BuildRequest extends Pick<SaveRequest, "name" | "setSpec"> {
  readonly alias: string;
  readonly template: Template;
  readonly defaults: Snapshot["defaults"];
  readonly work: NonNullable<SaveRequest["work"]>;
}

/** Installing packages under emulation takes its time. */
const buildMs = 3_600_000;

function describeBuiltIn({ user }: Tenant, template: Template): Pick<SaveRequest, "spec" | "setSpec"> {
  const nothing = { metadata: {}, env: {}, timeout: 0, autoPause: false, autoResume: false };
  const spec: SandboxSpec = {
    ...nothing,
    template: template.name,
    machine: template,
    account: user.split(":").at(-1) ?? "",
    secure: true,
    publicTraffic: false,
    startedAt: new Date().toISOString(),
  };
  return { spec, setSpec: buildSetSpec(template) };
}

/** A snapshot keeps no place on a node. */
function buildSnapshotSet(namespace: string, { name, label, spec, setSpec }: SaveRequest) {
  const labels = { [gatewayKey.template]: label };
  return {
    ...setIdentity,
    metadata: { name, namespace, labels, annotations: writeSandboxSpec(spec) },
    spec: { ...setSpec, hibernatePolicy: "release" },
  };
}

/** A machine that goes on from where the sandbox's machine is now. */
export function buildForkSpec(sandbox: Sandbox, template: Template): CocoonSetSpecInput {
  const spec = buildSetSpec(template);
  const nodeName = sandbox.set.status?.agents?.[0]?.nodeName;
  return {
    ...spec,
    ...(nodeName ? { nodeName } : {}),
    agent: { ...spec.agent, mode: "run", forkFrom: { set: sandbox.id } },
  };
}

/** A machine that starts from the snapshot. */
export function buildCloneSpec({ name, template }: Snapshot): CocoonSetSpecInput {
  const spec = buildSetSpec(template);
  return {
    ...spec,
    agent: { ...spec.agent, mode: "clone", from: { set: name, slot: 0, tag: hibernateTag } },
  };
}

function reachesPhase(set: SetObject | undefined, phase: string, written: SetObject): SetObject | undefined {
  if (!set) return undefined; // the cache is behind our own write
  const { status, metadata } = set;
  if (metadata.uid !== written.metadata.uid || metadata.deletionTimestamp !== undefined)
    throw new ApiError(409, `set ${metadata.name ?? ""} was deleted meanwhile`);
  if (status?.phase === "Failed") throw new ApiError(500, "the machine of the snapshot failed");
  const isCurrent = (status?.observedGeneration ?? 0) >= (written.metadata.generation ?? 0);
  return isCurrent && status?.phase === phase ? set : undefined;
}

/** Only those that are complete. */
function tryReadSnapshot(set: SetObject): Snapshot | undefined {
  const { name = "", namespace = "", labels, creationTimestamp: createdAt = "", uid = "" } = set.metadata;
  const label = labels?.[gatewayKey.template];
  const spec = sandboxSpec.safeParse(tryParseAnnotation(set)).data;
  if (label === undefined || !spec?.machine || !isComplete(set)) return undefined;
  const { machine: template, source = "" } = spec;
  return {
    defaults: readDefaults(spec),
    name,
    namespace,
    alias: label === unnamed ? "" : label,
    template,
    source,
    createdAt,
    uid,
  };
}

/** Of a template that was built. The environment of a sandbox is its own: a snapshot of it does not pass it on. */
function readDefaults({ source = "", env, user, directory }: SandboxSpec): Snapshot["defaults"] {
  return {
    env: source === "" ? env : {},
    ...(user ? { user } : {}),
    ...(directory ? { directory } : {}),
  };
}

function isComplete({ metadata, spec, status }: SetObject): boolean {
  return metadata.deletionTimestamp === undefined && spec?.suspend === true && status?.phase === "Suspended";
}

function tryParseAnnotation({ metadata }: SetObject): unknown {
  try {
    return JSON.parse(metadata.annotations?.[gatewayKey.sandboxSpec] ?? "");
  } catch {
    return undefined;
  }
}

/** Another image or size is another snapshot. */
function builtInName(template: Template): string {
  return `template-${hashTemplate(template)}`;
}
