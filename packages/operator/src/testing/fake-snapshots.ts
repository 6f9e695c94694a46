/** Snapshots in memory: a digest per copy, and the counter of the machine it was made from. */
import { hibernateTag, latestTag, releasedTag } from "@cocoon/contract";
import { Fault } from "@cocoon/core";
import type { Drop, DropOutcome, Released, Retention, Settlement } from "@cocoon/machine";
import type { Snapshots } from "../cocoonset/parts.ts";

interface Copy {
  readonly digest: string;
  readonly counter: number;
  readonly made: number;
}

export class FakeSnapshots implements Snapshots {
  readonly copies = new Map<string, Map<string, Copy>>();
  /** No lookup is answered. */
  down = false;
  /** Called before each change that the operator makes; may throw. */
  beforeChange: () => void = () => undefined;
  #made = 0;

  push(vmName: string, tag: string, counter: number): Copy {
    const made = (this.#made += 1);
    const copy = { digest: `sha256:${String(made).padStart(64, "0")}`, counter, made };
    this.tags(vmName).set(tag, copy);
    return copy;
  }

  tags(vmName: string): Map<string, Copy> {
    const known = this.copies.get(vmName) ?? new Map<string, Copy>();
    this.copies.set(vmName, known);
    return known;
  }

  async findHibernatedDigest(vmName: string): Promise<string | undefined> {
    this.#assertUp();
    return Promise.resolve(this.tags(vmName).get(hibernateTag)?.digest);
  }

  async drop(vmName: string, { digest, restoredFrom }: Drop): Promise<DropOutcome> {
    this.#change();
    if (digest !== restoredFrom) throw new Fault("preconditionFailed", "no proof of descent");
    const tags = this.tags(vmName);
    if (tags.get(hibernateTag)?.digest !== digest) return "kept";
    tags.delete(hibernateTag);
    return Promise.resolve("dropped");
  }

  async release(
    vmName: string,
    { at, digest }: { readonly at: Date; readonly digest?: string },
  ): Promise<Released | undefined> {
    this.#change();
    const tags = this.tags(vmName);
    const copy = tags.get(hibernateTag);
    if (!copy || (digest !== undefined && copy.digest !== digest)) return undefined;
    tags.set(releasedTag(at), copy);
    tags.delete(hibernateTag);
    return Promise.resolve({ digest: copy.digest, tag: releasedTag(at) });
  }

  async settle(vmName: string, { keep, purge, at, confirm }: Settlement): Promise<void> {
    this.#assertUp();
    const tags = this.tags(vmName);
    const [hibernated, latest] = [tags.get(hibernateTag), tags.get(latestTag)];
    if (tags.size === 0 || (!purge && !hibernated && (keep || !latest))) return;
    await confirm?.();
    this.#change();
    if (purge) tags.clear();
    else if (keep && hibernated) {
      if (latest) tags.set(releasedTag(at), latest);
      tags.set(latestTag, hibernated);
    }
    tags.delete(hibernateTag);
    if (!keep) tags.delete(latestTag);
  }

  expire(_vmName: string, _retention: Retention): Promise<readonly string[]> {
    return Promise.resolve([]);
  }

  adopt(): Promise<string | undefined> {
    return Promise.resolve(undefined);
  }

  #assertUp(): void {
    if (this.down) throw new Fault("unavailable", "registry is down");
  }

  #change(): void {
    this.#assertUp();
    this.beforeChange();
  }
}
