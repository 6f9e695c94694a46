/** A cache of a kind that the cluster may not serve, or not yet: until then it is empty. */
import { isFault, messageOf, sleep, type Logger } from "@cocoon/core";
import type {
  CacheListener,
  Caches,
  KubeConnection,
  KubeObject,
  ObjectCache,
  ResourceType,
} from "@cocoon/kube";

export class OptionalCache<T extends KubeObject> {
  readonly type: ResourceType<T>;
  readonly #caches: Caches;
  readonly #listeners: CacheListener<T>[] = [];
  #cache: ObjectCache<T> | undefined;

  constructor(type: ResourceType<T>, caches: Caches) {
    this.type = type;
    this.#caches = caches;
  }

  get current(): ObjectCache<T> | undefined {
    return this.#cache;
  }

  subscribe(listener: CacheListener<T>): void {
    this.#listeners.push(listener);
    this.#cache?.subscribe(listener);
  }

  /** Opens the cache if the kind is served by now. */
  async look(client: KubeConnection, signal: AbortSignal): Promise<void> {
    if (this.#cache || !(await isServed(client, this.type, signal))) return;
    this.#cache = this.#caches.open(this.type);
    for (const listener of this.#listeners) this.#cache.subscribe(listener);
  }
}

async function isServed(
  client: KubeConnection,
  { group, version, plural }: Pick<ResourceType<KubeObject>, "group" | "version" | "plural">,
  signal: AbortSignal,
): Promise<boolean> {
  try {
    await client.raw({ method: "GET", path: `/apis/${group}/${version}/${plural}?limit=1`, signal });
    return true;
  } catch (error) {
    if (isFault(error, "notFound")) return false;
    throw error;
  }
}

const lookMs = 10_000;

type Looking = Pick<OptionalCache<KubeObject>, "current" | "look">;

/** Looks for kinds that are missing until all are there or the signal aborts. Never rejects. */
export async function keepLooking(
  caches: readonly Looking[],
  {
    client,
    log,
    signal,
  }: { readonly client: KubeConnection; readonly log: Logger; readonly signal: AbortSignal },
): Promise<void> {
  while (caches.some(({ current }) => !current) && (await sleep(lookMs, { signal }))) {
    try {
      for (const cache of caches) await cache.look(client, signal);
    } catch (error) {
      if (!signal.aborted) log.debug({ error: messageOf(error) }, "could not ask which kinds are served");
    }
  }
}
