/**
 * Snapshots that sandboxes start from. Each is a CocoonSet whose machine was forked from a sandbox and then hibernated: its memory and
 * disk are in the registry, it runs nowhere, and it lasts until it is deleted.
 */
import { gatewayKey, type CocoonSetSpecInput } from "@cocoon/contract";
import { getErrorMessage, isFault, withDeadline, type Abortable, type Logger } from "@cocoon/core";
import type { ObjectCache } from "@cocoon/kube";
import { ApiError } from "../http/answer.ts";
import type { Tenant, TenantSets } from "../tenants/tenant.ts";
import { makeSandboxId } from "./ids.ts";
import type { Egress } from "./egress.ts";
import { createSet } from "./egress-sets.ts";
import type { EgressRules } from "./egress-rules.ts";
import { buildForkSpec } from "./copy-specs.ts";
import { defaultTag, tryReadSnapshot, unnamed, writeTags, type Snapshot } from "./read-snapshot.ts";
import {
  describeRunning,
  writeSandboxSpec,
  type Sandbox,
  type SandboxSpec,
  type SetObject,
} from "./sandbox.ts";
import { CacheWaiters } from "./cache-waiters.ts";
import { changeTags } from "./template-tags.ts";
import { buildSetSpec, hashTemplate, setIdentity, type Template } from "./templates.ts";

export interface SnapshotsOptions {
  readonly cache: ObjectCache<SetObject>;
  readonly sets: TenantSets;
  readonly egress: Egress;
  readonly waitMs: number;
  readonly log: Logger;
}

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

  /** By alias and tag, by `{namespace}/{alias}`, or by the name of its set. */
  tryFind(namespace: string, reference: string): Snapshot | undefined {
    const { owner, name, tag } = parseReference(reference);
    if (owner !== undefined && owner !== namespace) return undefined;
    const isTagged = (each: Snapshot) => each.tags.includes(tag ?? defaultTag);
    return this.list(namespace).find((each) =>
      each.name === name ? tag === undefined || isTagged(each) : each.alias === name && isTagged(each),
    );
  }

  /** All builds of an alias, newest first, whatever their tags. */
  listBuilds(namespace: string, reference: string): Snapshot[] {
    const { owner, name, tag } = parseReference(reference);
    if (name === "" || (owner !== undefined && owner !== namespace)) return [];
    return this.list(namespace).filter(
      (each) => (each.alias === name || each.name === name) && (tag === undefined || each.tags.includes(tag)),
    );
  }

  /** The tags name this build from now on, and no other of its alias. */
  async assignTags(
    tenant: Tenant,
    { snapshot, tags }: { readonly snapshot: Snapshot; readonly tags: readonly string[] },
    options: Abortable,
  ): Promise<void> {
    const { alias, namespace } = snapshot;
    const others = this.listBuilds(namespace, alias).filter(({ uid }) => uid !== snapshot.uid);
    await changeTags(this.#options.sets, { tenant, snapshot, add: tags }, options);
    await this.removeTags(tenant, { builds: others, tags }, options);
  }

  /** The builds stay, also those that have no tag left. */
  async removeTags(
    tenant: Tenant,
    { builds, tags }: { readonly builds: readonly Snapshot[]; readonly tags: readonly string[] },
    options: Abortable,
  ): Promise<void> {
    for (const build of builds)
      if (build.tags.some((tag) => tags.includes(tag)))
        await changeTags(this.#options.sets, { tenant, snapshot: build, remove: tags }, options);
  }

  /** Builds of before lose these tags; one that has none left is deleted. */
  async #retire(
    tenant: Tenant,
    { before, tags }: { readonly before: readonly Snapshot[]; readonly tags: readonly string[] },
    options: Abortable,
  ): Promise<void> {
    for (const snapshot of before) {
      const left = snapshot.tags.filter((tag) => !tags.includes(tag));
      if (left.length === snapshot.tags.length) continue;
      if (left.length === 0) await this.delete(tenant, snapshot, options);
      else await this.removeTags(tenant, { builds: [snapshot], tags }, options);
    }
  }

  /** The source goes on. A snapshot of the same name replaces the older one once it is complete. */
  async create(
    tenant: Tenant,
    { sandbox, template, alias, egress }: SnapshotRequest,
    options: Abortable,
  ): Promise<Snapshot> {
    const before = alias === "" ? [] : this.list(tenant.namespace).filter((each) => each.alias === alias);
    const name = `s${makeSandboxId().slice(1)}`;
    const request = {
      name,
      label: alias || unnamed,
      spec: { ...sandbox.spec, source: sandbox.id, machine: template },
      setSpec: buildForkSpec(sandbox, template),
      egress,
    };
    const set = await this.#save(tenant, request, options);
    await this.#retire(tenant, { before, tags: [defaultTag] }, options);
    const snapshot = tryReadSnapshot(set);
    if (!snapshot) throw new ApiError(500, `snapshot ${name} was not saved`);
    return snapshot;
  }

  /** A template that a client builds: `work` is done in the machine before it is saved. */
  async build(tenant: Tenant, request: BuildRequest, options: Abortable): Promise<Snapshot> {
    const { alias, tags, build, name, template, setSpec, defaults, work } = request;
    const own = { ...describeBuiltIn(tenant, template).spec, ...defaults, source: "", build };
    const saving = { name, label: alias, tags, spec: own, setSpec, work, waitMs: buildMs };
    const set = await this.#save(tenant, saving, options);
    const before = this.listBuilds(tenant.namespace, alias).filter((each) => each.name !== name);
    await this.#retire(tenant, { before, tags }, options);
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
    const label = `${builtInPrefix}${template.name}`;
    const request = { name, label, ...describeBuiltIn(tenant, template), waitMs: buildMs };
    const signal = AbortSignal.timeout(buildMs);
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
    const created = await createSet(this.#options, { tenant, object, rules: request.egress }, { signal });
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

export interface SnapshotRequest {
  readonly sandbox: Sandbox;
  readonly template: Template;
  readonly alias: string;
  /** Of the sandbox: they hold for the copy too while it runs. */
  readonly egress: EgressRules | undefined;
}

interface SaveRequest {
  readonly egress?: EgressRules | undefined;
  readonly name: string;
  readonly label: string;
  readonly tags?: readonly string[];
  readonly spec: SandboxSpec;
  readonly setSpec: CocoonSetSpecInput;
  /** Done in the machine before it is saved. */
  readonly work?: (machine: Sandbox, options: Abortable) => Promise<void>;
  /** How long all of it may take; default: that of the gateway. */
  readonly waitMs?: number;
}

export interface BuildRequest extends Pick<SaveRequest, "name" | "setSpec"> {
  readonly alias: string;
  readonly tags: readonly string[];
  readonly build: string;
  readonly template: Template;
  readonly defaults: Snapshot["defaults"];
  readonly work: NonNullable<SaveRequest["work"]>;
}

/** Installing packages under emulation takes its time, and so does making an image of Debian packages. */
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

const referencePattern = /^(?:([a-z0-9-]+)\/)?([^/:]+)(?::([a-z0-9._-]+))?$/;

/** `[namespace/]name[:tag]`; no name where it is none. */
function parseReference(reference: string) {
  const [, owner, name = "", tag] = referencePattern.exec(reference.toLowerCase()) ?? [];
  return { owner, name, tag };
}

/** A snapshot keeps no place on a node. */
function buildSnapshotSet(namespace: string, { name, label, tags, spec, setSpec }: SaveRequest) {
  const labels = { [gatewayKey.template]: label };
  const annotations = { ...writeSandboxSpec(spec), ...(tags ? writeTags(tags) : {}) };
  return {
    ...setIdentity,
    metadata: { name, namespace, labels, annotations },
    spec: { ...setSpec, hibernatePolicy: "release" },
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

/** Another image or size is another snapshot. */
function builtInName(template: Template): string {
  return `template-${hashTemplate(template)}`;
}
