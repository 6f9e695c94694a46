/**
 * Listens to a cache and believes every event, and nothing else. Complains about what must never happen: an object
 * that comes twice or goes twice, a state that is reported again, a step back. In the end its belief must be the truth.
 */
import assert from "node:assert/strict";
import { configMaps, getKey, keyText, type ConfigMap, type KubeClient, type ObjectCache } from "@cocoon/kube";
import { eventually } from "@cocoon/testkit";

export class Witness implements Disposable {
  readonly #known = new Map<string, ConfigMap>();
  readonly #complaints: string[] = [];
  readonly #subscription: Disposable;
  readonly #cache: ObjectCache<ConfigMap>;
  events = 0;

  constructor(cache: ObjectCache<ConfigMap>) {
    this.#cache = cache;
    this.#subscription = cache.subscribe((event) => {
      this.events += 1;
      const key = keyText(getKey(event.object));
      const before = this.#known.get(key);
      const say = (text: string) => this.#complaints.push(`${key}: ${text}`);
      if (event.kind === "added" && before) say("added twice");
      if (event.kind === "deleted" && !before) say("deleted without having been there");
      if (event.kind === "updated") {
        if (before !== event.old) say("the old state is not the one that was reported");
        if (event.old.metadata.uid !== event.object.metadata.uid) say("an update changed the identity");
      }
      if (before && event.kind !== "deleted" && readVersion(event.object) <= readVersion(before))
        say("reported again or a step back");
      if (event.kind === "deleted") this.#known.delete(key);
      else this.#known.set(key, event.object);
    });
  }

  /** Waits until the belief is what the server has, and the cache is too; then nothing may have been wrong. */
  async agreesWith(client: KubeClient, namespace: string): Promise<void> {
    const { signal } = new AbortController();
    await eventually(
      async () => {
        const { items } = await client.list(configMaps, { signal, namespace });
        const truth = items.map(readState).toSorted();
        assert.deepEqual([...this.#known.values()].map(readState).toSorted(), truth);
        assert.deepEqual([...this.#cache.list()].map(readState).toSorted(), truth);
      },
      { timeoutMs: 90_000, intervalMs: 250 },
    );
    assert.deepEqual(this.#complaints, []);
    assert.equal(this.#cache.malformed.size, 0);
  }

  get size(): number {
    return this.#known.size;
  }

  [Symbol.dispose](): void {
    this.#subscription[Symbol.dispose]();
  }
}

function readVersion(object: ConfigMap): bigint {
  return BigInt(object.metadata.resourceVersion ?? 0);
}

function readState(object: ConfigMap): string {
  const { name, uid, resourceVersion } = object.metadata;
  return `${name} ${uid} ${resourceVersion} ${object.data?.["step"] ?? ""}`;
}
