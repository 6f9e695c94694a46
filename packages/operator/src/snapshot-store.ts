/**
 * Snapshots of machines in the registry, as far as the operator looks after them. Every method throws when the
 * registry could not be asked; "is not there" is an answer. Each may be repeated.
 */
import {
  hibernateTag,
  latestTag,
  manifestAnnotation,
  manifestSchema,
  releasedTag,
  tryReadReleasedTag,
} from "@cocoon/contract";
import { Fault, isFault, type Abortable } from "@cocoon/core";
import { deleteByDigest, retag, type Registry, type Repository } from "@cocoon/oci";
import { CallGate } from "./call-gate.ts";

/** Our kubelet sets it on the same digest when the machine is gone from its node; it goes with `hibernate`. */
const sealTag = "hibernated";
const sleepTags: ReadonlySet<string> = new Set([hibernateTag, sealTag]);

export interface Settlement {
  readonly vmName: string;
  /** The policy wants a snapshot `latest` of this machine. */
  readonly keep: boolean;
  /** Nothing at all is to stay. */
  readonly purge: boolean;
}

export interface Retention {
  readonly vmName: string;
  readonly afterMs: number;
  /** This many of the newest released ones stay whatever their age. */
  readonly keep: number;
  readonly now: Date;
}

/** What the controllers use of it. */
export type Snapshots = Pick<SnapshotStore, "sleeping" | "drop" | "release" | "settle" | "expire" | "adopt">;

export class SnapshotStore {
  readonly #registry: Registry;
  readonly #gate = new CallGate();

  constructor(registry: Registry) {
    this.#registry = registry;
  }

  /** Digest of what the machine sleeps in; undefined when it surely sleeps in nothing. */
  sleeping(vmName: string, options: Abortable): Promise<string | undefined> {
    return this.#gate.run(options, (limits) => digestOf(this.#repository(vmName), hibernateTag, limits));
  }

  /** Removes the sleeping copy if the tag still names that digest. Other tags on it keep it alive. */
  drop(vmName: string, digest: string, options: Abortable): Promise<void> {
    return this.#gate.run(options, async (limits) => {
      const repository = this.#repository(vmName);
      if ((await digestOf(repository, hibernateTag, limits)) === digest)
        await removeSleeping(repository, digest, limits);
    });
  }

  /** The machine was given up asleep: a later machine of its name must not find it, but people can. */
  release(vmName: string, at: Date, options: Abortable): Promise<string | undefined> {
    return this.#gate.run(options, async (limits) => {
      const repository = this.#repository(vmName);
      const digest = await digestOf(repository, hibernateTag, limits);
      if (digest === undefined) return undefined;
      await nameCopy(repository, { digest, tag: releasedTag(at) }, limits);
      await removeSleeping(repository, digest, limits);
      return digest;
    });
  }

  /** The machine's set is deleted. */
  settle({ vmName, keep, purge }: Settlement, options: Abortable): Promise<void> {
    return this.#gate.run(options, async (limits) => {
      const repository = this.#repository(vmName);
      if (purge) return removeAll(repository, limits);
      const sleeping = await digestOf(repository, hibernateTag, limits);
      if (keep && sleeping !== undefined && (await isNewest(repository, sleeping, limits)))
        await nameCopy(repository, { digest: sleeping, tag: latestTag }, limits);
      if (sleeping !== undefined) await removeSleeping(repository, sleeping, limits);
      if (!keep) await removeTag(repository, latestTag, limits);
    });
  }

  /** Removes `latest` and `released-…` that are old enough; what a machine sleeps in never expires. */
  expire({ vmName, afterMs, keep, now }: Retention, options: Abortable): Promise<readonly string[]> {
    return this.#gate.run(options, async (limits) => {
      const repository = this.#repository(vmName);
      const tags = await Array.fromAsync(repository.tags(limits));
      const oldest = now.getTime() - afterMs;
      const released = tags
        .flatMap((tag) => {
          const at = tryReadReleasedTag(tag)?.getTime();
          return at === undefined ? [] : [{ tag, at }];
        })
        .sort((left, right) => right.at - left.at)
        .slice(keep)
        .filter(({ at }) => at < oldest)
        .map(({ tag }) => tag);
      const latest = tags.includes(latestTag) ? await createdAt(repository, latestTag, limits) : undefined;
      const expired = latest !== undefined && latest < oldest ? [latestTag, ...released] : released;
      for (const tag of expired) await removeTag(repository, tag, limits);
      return expired;
    });
  }

  /** Names the copy that an older record speaks of `hibernate`, where nothing has that name yet. */
  adopt(vmName: string, reference: string, options: Abortable): Promise<string | undefined> {
    return this.#gate.run(options, async (limits) => {
      const repository = this.#repository(vmName);
      const sleeping = await digestOf(repository, hibernateTag, limits);
      if (sleeping !== undefined) return sleeping;
      const digest = await digestOf(repository, reference, limits);
      if (digest !== undefined) await nameCopy(repository, { digest, tag: hibernateTag }, limits);
      return digest;
    });
  }

  #repository(vmName: string): Repository {
    return this.#registry.repository(vmName);
  }
}

async function digestOf(
  repository: Repository,
  tag: string,
  options: Abortable,
): Promise<string | undefined> {
  return (await repository.headManifest(tag, options))?.digest;
}

/** The tag is read back: only what the registry names now counts as kept. */
async function nameCopy(
  repository: Repository,
  { digest, tag }: { readonly digest: string; readonly tag: string },
  options: Abortable,
): Promise<void> {
  await retag({ repository, from: digest, to: tag, ...options });
  const named = await digestOf(repository, tag, options);
  if (named !== digest)
    throw new Fault(
      "conflict",
      `${repository.name}:${tag} should name ${digest}, but names ${named ?? "nothing"}`,
    );
}

async function removeSleeping(repository: Repository, digest: string, options: Abortable): Promise<void> {
  const others = (await Array.fromAsync(repository.tags(options))).filter((tag) => !sleepTags.has(tag));
  if (!(await anyNames(repository, others, digest, options)))
    return void (await deleteByDigest(repository, digest, options));
  for (const tag of sleepTags)
    if ((await digestOf(repository, tag, options)) === digest) await untag(repository, tag, options);
}

async function removeTag(repository: Repository, tag: string, options: Abortable): Promise<void> {
  const digest = await digestOf(repository, tag, options);
  if (digest === undefined) return;
  const others = (await Array.fromAsync(repository.tags(options))).filter((each) => each !== tag);
  if (await anyNames(repository, others, digest, options)) await untag(repository, tag, options);
  else await deleteByDigest(repository, digest, options);
}

// oxlint-disable-next-line max-params -- where, among which tags, what, and how long
async function anyNames(
  repository: Repository,
  tags: readonly string[],
  digest: string,
  options: Abortable,
): Promise<boolean> {
  for (const tag of tags) if ((await digestOf(repository, tag, options)) === digest) return true;
  return false;
}

async function untag(repository: Repository, tag: string, options: Abortable): Promise<void> {
  try {
    await repository.deleteManifest(tag, options);
  } catch (error) {
    if (
      !isFault(error, "methodNotAllowed") &&
      !isFault(error, "notSupported") &&
      !isFault(error, "badRequest")
    )
      throw error;
    throw new Fault(
      "notSupported",
      `the registry does not remove single tags, and another tag names the same snapshot; remove ${repository.name}:${tag} by hand`,
      { cause: error },
    );
  }
}

async function removeAll(repository: Repository, options: Abortable): Promise<void> {
  for (const tag of await Array.fromAsync(repository.tags(options))) {
    const digest = await digestOf(repository, tag, options);
    if (digest !== undefined) await deleteByDigest(repository, digest, options);
  }
}

/** Whether this copy is not older than `latest`; a copy that does not say when it was made counts as new. */
async function isNewest(repository: Repository, digest: string, options: Abortable): Promise<boolean> {
  const latest = await digestOf(repository, latestTag, options);
  if (latest === undefined) return true;
  if (latest === digest) return false;
  const [ours, theirs] = [
    await createdAt(repository, digest, options),
    await createdAt(repository, latest, options),
  ];
  return ours === undefined || theirs === undefined || ours >= theirs;
}

async function createdAt(
  repository: Repository,
  reference: string,
  options: Abortable,
): Promise<number | undefined> {
  const { bytes } = await repository.getManifest(reference, options);
  const { annotations } = manifestSchema.parse(JSON.parse(Buffer.from(bytes).toString("utf8")));
  const at = Date.parse(annotations?.[manifestAnnotation.created] ?? "");
  return Number.isNaN(at) ? undefined : at;
}
