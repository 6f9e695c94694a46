/** A cache of a kind that the cluster may not serve, or not yet: until then it is empty. */
import { isFault, getErrorMessage, sleep, type Abortable, type Logger } from "@cocoon/core";
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
  current: ObjectCache<T> | undefined;
  #wasMissing = false;

  constructor(type: ResourceType<T>, caches: Caches) {
    this.type = type;
    this.#caches = caches;
  }

  subscribe(listener: CacheListener<T>): void {
    this.#listeners.push(listener);
    this.current?.subscribe(listener);
  }

  async look(client: KubeConnection, { log, signal }: Abortable & { readonly log: Logger }): Promise<void> {
    if (this.current) return;
    const kind = `${this.type.plural}.${this.type.group}`;
    if (!(await isServed(client, this.type, signal))) {
      if (!this.#wasMissing) log.warn({ kind }, "kind is not served, taken as empty until it is");
      this.#wasMissing = true;
      return;
    }
    if (this.#wasMissing) log.info({ kind }, "kind is served now");
    this.current = this.#caches.open(this.type);
    for (const listener of this.#listeners) this.current.subscribe(listener);
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

/** At first they are probably being installed right now. */
const lookMs = { first: 500, most: 10_000 };

type Looking = Pick<OptionalCache<KubeObject>, "current" | "look">;

/** Looks for kinds that are missing until all are there or the signal aborts. Never rejects. */
export async function openWhenServed(
  caches: readonly Looking[],
  {
    client,
    log,
    signal,
  }: { readonly client: KubeConnection; readonly log: Logger; readonly signal: AbortSignal },
): Promise<void> {
  let pauseMs = lookMs.first;
  while (caches.some(({ current }) => !current) && (await sleep(pauseMs, { signal }))) {
    pauseMs = Math.min(pauseMs * 1.5, lookMs.most);
    try {
      for (const cache of caches) await cache.look(client, { log, signal });
    } catch (error) {
      if (!signal.aborted)
        log.debug({ error: getErrorMessage(error) }, "could not ask which kinds are served");
    }
  }
}
