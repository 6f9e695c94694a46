/** Snapshots in memory: a digest per copy, and the counter of the machine it was made from. */
import { hibernateTag, latestTag, releasedTag } from "@cocoon/contract";
import { Fault } from "@cocoon/core";
import type { Retention, Settlement, Snapshots } from "../snapshot-store.ts";

interface Copy {
  readonly digest: string;
  readonly counter: number;
  readonly made: number;
}

export class SimulatedRegistry implements Snapshots {
  readonly copies = new Map<string, Map<string, Copy>>();
  /** Nobody gets an answer. */
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

  async sleeping(vmName: string): Promise<string | undefined> {
    this.#ask();
    return Promise.resolve(this.tags(vmName).get(hibernateTag)?.digest);
  }

  async drop(vmName: string, digest: string): Promise<void> {
    this.#change();
    const tags = this.tags(vmName);
    if (tags.get(hibernateTag)?.digest === digest) tags.delete(hibernateTag);
    await Promise.resolve();
  }

  async release(vmName: string, at: Date): Promise<string | undefined> {
    this.#change();
    const tags = this.tags(vmName);
    const copy = tags.get(hibernateTag);
    if (copy) {
      tags.set(releasedTag(at), copy);
      tags.delete(hibernateTag);
    }
    return Promise.resolve(copy?.digest);
  }

  async settle({ vmName, keep, purge }: Settlement): Promise<void> {
    this.#change();
    const tags = this.tags(vmName);
    const [sleeping, latest] = [tags.get(hibernateTag), tags.get(latestTag)];
    if (purge) tags.clear();
    if (keep && sleeping && sleeping.made > (latest?.made ?? 0)) tags.set(latestTag, sleeping);
    tags.delete(hibernateTag);
    if (!keep) tags.delete(latestTag);
    await Promise.resolve();
  }

  expire(_retention: Retention): Promise<readonly string[]> {
    return Promise.resolve([]);
  }

  adopt(): Promise<string | undefined> {
    return Promise.resolve(undefined);
  }

  #ask(): void {
    if (this.down) throw new Fault("unavailable", "registry is down");
  }

  #change(): void {
    this.#ask();
    this.beforeChange();
  }
}
