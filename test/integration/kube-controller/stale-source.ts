/** A cache that is late on purpose: it follows a real watch, but shows each event only after a while. */
import { getKey, keyText, watch, type KubeConnection, type KubeObject, type ObjectKey } from "@cocoon/kube";
import type { ResourceType } from "@cocoon/kube";
import type { Change, Source } from "@cocoon/kube/controller";

export interface StaleSourceOptions<T extends KubeObject> {
  readonly client: KubeConnection;
  readonly type: ResourceType<T>;
  readonly namespace: string;
  readonly labelSelector: string;
  readonly signal: AbortSignal;
  /** How late the next event is shown. */
  readonly lagMs: () => number;
}

export class StaleSource<T extends KubeObject> implements Source<T>, AsyncDisposable {
  readonly #options: StaleSourceOptions<T>;
  readonly #objects = new Map<string, T>();
  readonly #listeners = new Set<(change: Change<T>) => void>();
  readonly #synced = Promise.withResolvers<void>();
  readonly #stop = new AbortController();
  readonly #running: Promise<void>;
  resourceVersion: string | undefined;

  constructor(options: StaleSourceOptions<T>) {
    this.#options = options;
    this.#running = this.#follow();
  }

  get(key: ObjectKey): T | undefined {
    return this.#objects.get(keyText(key));
  }

  list(): Iterable<T> {
    return this.#objects.values();
  }

  synced(): Promise<void> {
    return this.#synced.promise;
  }

  subscribe(listener: (change: Change<T>) => void): Disposable {
    for (const object of this.#objects.values()) listener({ kind: "added", object, initial: true });
    this.#listeners.add(listener);
    return { [Symbol.dispose]: () => void this.#listeners.delete(listener) };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  async #follow(): Promise<void> {
    const { client, type, namespace, labelSelector, lagMs } = this.#options;
    const signal = AbortSignal.any([this.#options.signal, this.#stop.signal]);
    let last = Promise.resolve();
    for await (const event of watch(client, type, { namespace, labelSelector, signal })) {
      if (event.kind === "synced") void last.then(this.#synced.resolve);
      if (event.kind !== "listed" && event.kind !== "applied" && event.kind !== "deleted") continue;
      const lag = new Promise((resolve) => setTimeout(resolve, event.kind === "listed" ? 0 : lagMs()));
      const earlier = last;
      // In order, each at least its lag late.
      last = Promise.all([earlier, lag]).then(() => this.#show(event));
    }
    await last;
  }

  #show({ kind, object }: { readonly kind: "listed" | "applied" | "deleted"; readonly object: T }): void {
    const text = keyText(getKey(object));
    const old = this.#objects.get(text);
    if (kind === "deleted") this.#objects.delete(text);
    else this.#objects.set(text, object);
    this.resourceVersion = object.metadata.resourceVersion;
    const change: Change<T> =
      kind === "deleted"
        ? { kind: "deleted", object }
        : old
          ? { kind: "updated", old, object }
          : { kind: "added", object, initial: kind === "listed" };
    for (const listener of this.#listeners) listener(change);
  }
}
