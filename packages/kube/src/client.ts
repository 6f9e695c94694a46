/** The Kubernetes API as the rest of the system sees it. One implementation talks HTTP; tests may wrap it. */
import type { JsonPatchOperation } from "@cocoon/core/json-patch";
import type { KubeObject, ObjectKey, ResourceType } from "./object.ts";

export interface CallOptions {
  readonly signal: AbortSignal;
  /** Deadline of this call; the client has a default. */
  readonly timeoutMs?: number;
}

export interface ListOptions extends CallOptions {
  readonly namespace?: string;
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
  readonly limit?: number;
  readonly continueToken?: string;
  readonly resourceVersion?: string;
  readonly resourceVersionMatch?: "Exact" | "NotOlderThan";
}

export interface ObjectList<T> {
  readonly items: readonly T[];
  readonly resourceVersion: string;
  readonly continueToken: string | undefined;
}

export interface WriteOptions extends CallOptions {
  /** `status`, `scale`, `binding`, `eviction`, … */
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
  /** Path with query, such as `/version` or `/api/v1/nodes?limit=1`. */
  readonly path: string;
  readonly body?: unknown;
  readonly contentType?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/**
 * Every method throws a Fault that keeps "is not there" (`notFound`) apart from "could not ask" (`unavailable`,
 * `timeout`). Nothing is retried here except what the server asked to be sent again before it looked at it
 * (429 with Retry-After), a request that was refused (401) while there is a newer credential, and a read whose
 * connection was cut before its answer was there. Nothing is rate-limited on our side.
 */
export interface KubeClient extends AsyncDisposable {
  get<T extends KubeObject>(
    type: ResourceType<T>,
    key: ObjectKey,
    options: CallOptions & { readonly subresource?: string },
  ): Promise<T>;
  /** One page; `pages` walks all of them. */
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
  /** Any request; the parsed JSON, or the text when the answer is not JSON. */
  raw(request: RawRequest): Promise<unknown>;
}

export interface StreamRequest extends CallOptions {
  /** Path with query. `timeoutMs` counts until the answer begins. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** For the request metrics. */
  readonly verb: string;
  readonly resource: string;
}

export interface ByteStream {
  /** Ends when the server ends the answer; throws a Fault when the connection breaks. */
  readonly chunks: AsyncIterable<Buffer>;
  /** Lets go of the connection; the iteration of `chunks` then throws. May be called at any time, and repeatedly. */
  cancel(reason: Error): void;
}

/** Where a client is connected to, for logs and defaults. */
export interface ClientTarget {
  readonly server: string;
  readonly context: string;
  /** Such as `context "x" of /home/me/.kube/config`. */
  readonly source: string;
  /** Namespace of the context, or of the pod we run in. */
  readonly namespace: string | undefined;
}

/** A client with its own connections: what `openKubeClient` returns, and what watches and caches need. */
export interface KubeConnection extends KubeClient {
  readonly target: ClientTarget;
  /** A GET whose answer is read while it comes: watches, logs that are followed. Throws like the other calls. */
  stream(request: StreamRequest): Promise<ByteStream>;
}
