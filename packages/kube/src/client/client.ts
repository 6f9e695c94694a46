/** The Kubernetes API as the rest of the system sees it. One implementation talks HTTP; tests may wrap it. */
import type { Duplex } from "node:stream";
import type { JsonPatchOperation } from "@cocoon/core/json-patch";
import type { KubeObject, ObjectKey, ResourceType } from "../object.ts";

export interface CallOptions {
  readonly signal: AbortSignal;
  readonly timeoutMs?: number;
}

export interface ListOptions extends CallOptions {
  readonly namespace?: string;
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
  readonly limit?: number;
  readonly continueToken?: string;
}

export interface ObjectList<T> {
  readonly items: readonly T[];
  readonly resourceVersion: string;
  readonly continueToken: string | undefined;
}

export interface WriteOptions extends CallOptions {
  readonly subresource?: string;
  readonly dryRun?: boolean;
  readonly fieldManager?: string;
}

export interface DeleteOptions extends CallOptions {
  readonly preconditions?: { readonly uid?: string; readonly resourceVersion?: string };
  readonly gracePeriodSeconds?: number;
  readonly propagationPolicy?: "Foreground" | "Background" | "Orphan";
  readonly dryRun?: boolean;
}

export type Patch =
  | { readonly type: "merge"; readonly body: unknown }
  | { readonly type: "strategic"; readonly body: unknown }
  | { readonly type: "json"; readonly body: readonly JsonPatchOperation[] }
  | { readonly type: "apply"; readonly body: unknown; readonly force?: boolean };

export interface RawRequest extends CallOptions {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  readonly path: string;
  readonly body?: unknown;
  readonly contentType?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/**
 * Faults keep "is not there" (`notFound`) apart from "could not ask" (`unavailable`, `timeout`). Retried are only a 429 with
 * Retry-After, a 401 when there is a newer credential, and a read whose connection was cut before its answer.
 */
export interface KubeClient extends AsyncDisposable {
  get<T extends KubeObject>(
    type: ResourceType<T>,
    key: ObjectKey,
    options: CallOptions & { readonly subresource?: string },
  ): Promise<T>;
  list<T extends KubeObject>(type: ResourceType<T>, options: ListOptions): Promise<ObjectList<T>>;
  pages<T extends KubeObject>(type: ResourceType<T>, options: ListOptions): AsyncIterable<ObjectList<T>>;
  /** With `subresource`, `object.metadata.name` names the parent: bindings and evictions are created that way. */
  create<T extends KubeObject>(type: ResourceType<T>, object: T, options: WriteOptions): Promise<T>;
  /** Replaces the object; its `resourceVersion` is the precondition. */
  update<T extends KubeObject>(type: ResourceType<T>, object: T, options: WriteOptions): Promise<T>;
  patch<T extends KubeObject>(
    type: ResourceType<T>,
    target: { readonly key: ObjectKey; readonly patch: Patch },
    options: WriteOptions,
  ): Promise<T>;
  /** Resolves when the server accepted the deletion; finalizers may keep the object a while. */
  delete(type: ResourceType<KubeObject>, key: ObjectKey, options: DeleteOptions): Promise<void>;
  raw(request: RawRequest): Promise<unknown>;
}

export interface StreamRequest extends CallOptions {
  /** Path with query. `timeoutMs` counts until the answer begins. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly verb: string;
  readonly resource: string;
}

export interface ByteStream {
  /** Ends when the server ends the answer; throws a Fault when the connection breaks. */
  readonly chunks: AsyncIterable<Buffer>;
  cancel(reason: Error): void;
}

export interface UpgradeRequest extends CallOptions {
  /** Path with query. `timeoutMs` counts until the server has switched. */
  readonly path: string;
  /** For example `SPDY/3.1`. */
  readonly protocol: string;
  readonly headers?: Readonly<Record<string, string>>;
}

interface ClientTarget {
  readonly server: string;
  readonly context: string;
  readonly source: string;
  readonly namespace: string | undefined;
}

/** A client with its own connections: what `openKubeClient` returns, and what watches and caches need. */
export interface KubeConnection extends KubeClient {
  readonly target: ClientTarget;
  /** A GET whose answer is read while it comes: watches, logs that are followed. Throws like the other calls. */
  stream(request: StreamRequest): Promise<ByteStream>;
  /** A POST that switches protocols: exec, port-forward. The caller owns the connection from then on. */
  upgrade(request: UpgradeRequest): Promise<Duplex>;
}
