/**
 * ConfigMaps as an API server keeps them, in memory, with everything that can go wrong on the way: answers that come
 * late or not at all, watches that lag behind each other. Versions are one sequence for all objects, and each watch
 * emits all changes in that order.
 */
import { Fault } from "@cocoon/core";
import type { ConfigMap, KubeClient, ObjectKey, RawRequest } from "@cocoon/kube";

type Listener = (event: { readonly kind: "applied" | "deleted"; readonly object: ConfigMap }) => void;

interface DeleteOptions {
  readonly preconditions?: { readonly resourceVersion?: string };
}

export interface Weather {
  readonly random: () => number;
  /** Share of writes whose answer is lost although they happened. */
  readonly lostAnswers: number;
  /** Longest delay of an answer or a watch, in turns of the event loop. */
  readonly turns: number;
}

export class ConfigMapServer {
  readonly #objects = new Map<string, ConfigMap>();
  readonly #weather: Weather;
  readonly #watches: { readonly listener: Listener; queue: Promise<void> }[] = [];
  #version = 1;
  /** What a look at the pods of any namespace finds. */
  readonly pods: { readonly metadata: { readonly uid: string; readonly annotations: object } }[] = [];
  writes = 0;
  conflicts = 0;

  constructor(weather: Weather) {
    this.#weather = weather;
  }

  get objects(): readonly ConfigMap[] {
    return [...this.#objects.values()];
  }

  /** Emits all changes from now on, in order, each after a delay. */
  watch(listener: Listener): void {
    this.#watches.push({ listener, queue: Promise.resolve() });
  }

  /** The calls that the store makes; each takes its time, on the way there and on the way back. */
  client(): KubeClient {
    const calls = {
      create: (_type: unknown, object: ConfigMap) => this.#call(() => this.#create(object), true),
      raw: ({ method, path, body }: RawRequest) =>
        method === "GET"
          ? this.#call(() => this.#listPods(), false)
          : this.#call(() => this.#patch(path.slice(path.lastIndexOf("/") + 1), body as ConfigMap), true),
      get: (_type: unknown, key: ObjectKey) => this.#call(() => this.#get(key.name), false),
      delete: (_type: unknown, key: ObjectKey, { preconditions }: DeleteOptions) =>
        this.#call(() => this.#delete(key.name, preconditions?.resourceVersion), true),
      pages: (_type: unknown, { labelSelector = "" }: { labelSelector?: string }) =>
        this.#pages(labelSelector),
    };
    return calls as unknown as KubeClient;
  }

  async #call<T>(act: () => T, isWrite: boolean): Promise<T> {
    const { random, lostAnswers } = this.#weather;
    await this.#delay();
    const result = act();
    await this.#delay();
    if (isWrite && random() < lostAnswers) throw new Fault("timeout", "the answer was lost");
    return result;
  }

  async *#pages(selector: string): AsyncGenerator<{ items: ConfigMap[] }> {
    await this.#delay();
    const pool = /cocoonstack\.io\/pool=([^,]*)/.exec(selector)?.[1];
    const items = this.objects.filter(
      ({ metadata }) => pool === undefined || metadata.labels?.["cocoonstack.io/pool"] === pool,
    );
    await this.#delay();
    yield { items };
  }

  #create(object: ConfigMap): ConfigMap {
    const name = object.metadata.name ?? "";
    if (this.#objects.has(name)) {
      this.conflicts += 1;
      throw new Fault("alreadyExists", `${name} exists`);
    }
    return this.#store(object);
  }

  #patch(name: string, body: ConfigMap): ConfigMap {
    const now = this.#get(name);
    if (body.metadata.resourceVersion !== now.metadata.resourceVersion) {
      this.conflicts += 1;
      throw new Fault("conflict", `${name} has changed`);
    }
    const data: Record<string, string> = { ...now.data };
    for (const [key, value] of Object.entries(body.data ?? {}) as [string, string | null][])
      if (value === null) delete data[key];
      else data[key] = value;
    const annotations = { ...now.metadata.annotations, ...body.metadata.annotations };
    return this.#store({ ...now, metadata: { ...now.metadata, annotations }, data });
  }

  #listPods(): object {
    const items = this.pods.map(({ metadata }) => ({ metadata }));
    return { metadata: { resourceVersion: String(this.#version) }, items };
  }

  #get(name: string): ConfigMap {
    const object = this.#objects.get(name);
    if (!object) throw new Fault("notFound", `${name} is not there`);
    return object;
  }

  #delete(name: string, version: string | undefined): void {
    const object = this.#get(name);
    if (version !== undefined && version !== object.metadata.resourceVersion) {
      this.conflicts += 1;
      throw new Fault("conflict", `${name} has changed`);
    }
    this.#objects.delete(name);
    this.#version += 1;
    const metadata = { ...object.metadata, resourceVersion: String(this.#version) };
    this.#emit({ kind: "deleted", object: { ...object, metadata } });
  }

  #store(object: ConfigMap): ConfigMap {
    this.writes += 1;
    this.#version += 1;
    const stored = { ...object, metadata: { ...object.metadata, resourceVersion: String(this.#version) } };
    this.#objects.set(object.metadata.name ?? "", stored);
    this.#emit({ kind: "applied", object: stored });
    return stored;
  }

  #emit(event: Parameters<Listener>[0]): void {
    for (const watch of this.#watches)
      watch.queue = watch.queue.then(() => this.#delay()).then(() => watch.listener(event));
  }

  async #delay(): Promise<void> {
    const turns = Math.floor(this.#weather.random() * this.#weather.turns);
    for (let turn = 0; turn < turns; turn += 1) await new Promise(setImmediate);
  }
}
