/**
 * The API server as far as the controller toolkit uses it, in memory: versions, UIDs, preconditions, finalizers and
 * patches behave like the real one. Tests see every call first and may delay or fail it, before or after it took
 * effect.
 */
import { randomUUID } from "node:crypto";
import { applyJsonPatch, applyMergePatch, Fault, jsonEqual, orAborted } from "@cocoon/core";
import type { DeleteOptions, KubeClient, ListOptions, ObjectList, Patch } from "../../client/client.ts";
import { getKey, keyText, type KubeObject, type ObjectKey, type ResourceType } from "../../object.ts";

export interface FakeCall {
  readonly verb: "get" | "list" | "create" | "update" | "patch" | "delete";
  readonly kind: string;
  readonly key: string;
  readonly body?: unknown;
}

type Hook = (call: FakeCall) => void | Promise<void>;
type StoreListener = (event: { readonly kind: "applied" | "deleted"; readonly object: KubeObject }) => void;

export class FakeCluster {
  readonly #objects = new Map<string, KubeObject>();
  readonly calls: FakeCall[] = [];
  onChange: StoreListener = () => undefined;
  #version = 100;

  client(hooks: { readonly before?: Hook; readonly after?: Hook } = {}): KubeClient {
    const call = async <T>(each: FakeCall, signal: AbortSignal, act: () => T): Promise<T> => {
      signal.throwIfAborted();
      await orAborted(Promise.resolve(hooks.before?.(each)), { signal });
      this.calls.push(each);
      const result = act();
      await orAborted(Promise.resolve(hooks.after?.(each)), { signal });
      return structuredClone(result);
    };
    const text = (type: ResourceType<KubeObject>, key: ObjectKey) => `${type.plural} ${keyText(key)}`;
    return {
      get: (type, key, { signal }) =>
        call(
          { verb: "get", kind: type.kind, key: keyText(key) },
          signal,
          () => this.#get(text(type, key)) as never,
        ),
      list: (type, options) => this.#list(call, type, options),
      async *pages(type, options) {
        yield await this.list(type, options);
      },
      create: (type, object, { signal }) =>
        call({ verb: "create", kind: type.kind, key: keyText(getKey(object)), body: object }, signal, () =>
          this.#create(text(type, getKey(object)), object),
        ) as never,
      update: (type, object, { signal }) =>
        call({ verb: "update", kind: type.kind, key: keyText(getKey(object)), body: object }, signal, () =>
          this.#update(text(type, getKey(object)), object),
        ) as never,
      patch: (type, { key, patch }, { signal }) =>
        call({ verb: "patch", kind: type.kind, key: keyText(key), body: patch.body }, signal, () =>
          this.#patch(text(type, key), patch),
        ) as never,
      delete: (type, key, options) =>
        call({ verb: "delete", kind: type.kind, key: keyText(key) }, options.signal, () =>
          this.#delete(text(type, key), options),
        ),
      raw: () => Promise.reject(new Fault("notSupported", "raw")),
      [Symbol.asyncDispose]: () => Promise.resolve(),
    };
  }

  /** What the server holds of a kind; the caller knows its type. */
  objects<T extends KubeObject = KubeObject>(plural: string): T[] {
    return [...this.#objects].flatMap(([text, object]) =>
      text.startsWith(`${plural} `) ? [object as T] : [],
    );
  }

  get resourceVersion(): string {
    return String(this.#version);
  }

  async #list<T extends KubeObject>(
    call: <R>(each: FakeCall, signal: AbortSignal, act: () => R) => Promise<R>,
    type: ResourceType<T>,
    options: ListOptions,
  ): Promise<ObjectList<T>> {
    return call({ verb: "list", kind: type.kind, key: options.namespace ?? "" }, options.signal, () => {
      const items = this.objects<T>(type.plural).filter(
        (object) => options.namespace === undefined || object.metadata.namespace === options.namespace,
      );
      return { items, resourceVersion: String(this.#version), continueToken: undefined };
    });
  }

  #get(text: string): KubeObject {
    const object = this.#objects.get(text);
    if (!object) throw new Fault("notFound", `${text} not found`);
    return object;
  }

  #create(text: string, object: KubeObject): KubeObject {
    if (this.#objects.has(text)) throw new Fault("alreadyExists", `${text} already exists`);
    return this.#store(text, { ...object, metadata: { ...object.metadata, uid: randomUUID() } });
  }

  #update(text: string, object: KubeObject): KubeObject {
    const old = this.#get(text);
    if (object.metadata.uid !== undefined && object.metadata.uid !== old.metadata.uid)
      throw new Fault("conflict", `${text}: precondition failed: UID`);
    const version = object.metadata.resourceVersion;
    if (version !== undefined && version !== old.metadata.resourceVersion)
      throw new Fault("conflict", `${text}: the object has been modified`);
    return this.#store(text, object);
  }

  #patch(text: string, patch: Patch): KubeObject {
    const old = this.#get(text);
    if (patch.type === "merge") return this.#mergePatch(text, old, patch.body);
    if (patch.type !== "json") throw new Fault("notSupported", patch.type);
    try {
      return this.#store(text, applyJsonPatch(old, patch.body) as KubeObject);
    } catch (error) {
      // The real server says 422 for every patch that does not apply, failed tests included.
      throw new Fault("invalid", "the server rejected our request", { cause: error });
    }
  }

  #mergePatch(text: string, old: KubeObject, body: unknown): KubeObject {
    const wanted = applyMergePatch(old, body) as KubeObject;
    // A replacement with another UID is a conflict, a patch with another UID is invalid.
    if (wanted.metadata.uid !== old.metadata.uid)
      throw new Fault("invalid", `${text} is invalid`, {
        causes: [{ field: "metadata.uid", message: "field is immutable" }],
      });
    return this.#update(text, wanted);
  }

  #delete(text: string, { preconditions }: DeleteOptions): void {
    const old = this.#get(text);
    if (preconditions?.uid !== undefined && preconditions.uid !== old.metadata.uid)
      throw new Fault("conflict", `${text}: precondition failed: UID`);
    const { resourceVersion = old.metadata.resourceVersion } = preconditions ?? {};
    if (resourceVersion !== old.metadata.resourceVersion)
      throw new Fault("conflict", `${text}: precondition failed: resourceVersion`);
    const deletionTimestamp = old.metadata.deletionTimestamp ?? new Date().toISOString();
    this.#store(text, { ...old, metadata: { ...old.metadata, deletionTimestamp } });
  }

  #store(text: string, object: KubeObject): KubeObject {
    const old = this.#objects.get(text);
    if (old && jsonEqual(old, object)) return old;
    const resourceVersion = String((this.#version += 1));
    const stored = structuredClone({ ...object, metadata: { ...object.metadata, resourceVersion } });
    if (stored.metadata.deletionTimestamp && !stored.metadata.finalizers?.length) {
      this.#objects.delete(text);
      this.onChange({ kind: "deleted", object: stored });
    } else {
      this.#objects.set(text, stored);
      this.onChange({ kind: "applied", object: stored });
    }
    return stored;
  }
}
