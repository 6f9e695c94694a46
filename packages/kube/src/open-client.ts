/** `KubeClient` over HTTP. */
import { Fault, silentLogger, type Logger, type Registry } from "@cocoon/core";
import { Calls, type Call } from "./calls.ts";
import type {
  ByteStream,
  CallOptions,
  ClientTarget,
  DeleteOptions,
  KubeConnection,
  ListOptions,
  ObjectList,
  Patch,
  RawRequest,
  StreamRequest,
  WriteOptions,
} from "./client.ts";
import { loadKubeTarget, type KubeconfigOptions } from "./kubeconfig.ts";
import {
  apiVersionOf,
  keyOf,
  resourceName,
  type KubeObject,
  type ObjectKey,
  type ResourceType,
} from "./object.ts";
import { requestMetrics } from "./request-metrics.ts";
import { collectionPath, describeObject, objectPath, queryText } from "./request-path.ts";
import { Transport } from "./transport.ts";

export interface KubeClientOptions extends KubeconfigOptions {
  /** Stops the opening only; the client lives until it is disposed. */
  readonly signal: AbortSignal;
  readonly log?: Logger;
  readonly userAgent?: string;
  /** Deadline of a call that sets none. */
  readonly timeoutMs?: number;
  /** Most connections for calls at once; further calls wait for one. Watches have connections of their own. */
  readonly maxConnections?: number;
  /** Longest answer of a call. */
  readonly maxAnswerBytes?: number;
  /** Request counts and latencies go here. */
  readonly registry?: Registry;
}

const defaults = {
  log: silentLogger,
  userAgent: "kube-client",
  timeoutMs: 30_000,
  maxConnections: 64,
  maxAnswerBytes: 512 * 1024 * 1024,
};

/** Reads kubeconfig and credentials, and fails on any mistake in them. Does not talk to the server yet. */
export async function openKubeClient(options: KubeClientOptions): Promise<KubeConnection> {
  const settings = { ...defaults, ...options };
  const target = await loadKubeTarget(options);
  const transport = new Transport(target, settings);
  await transport.prepare(options.signal);
  const observe = requestMetrics(options.registry);
  const { context, source, namespace, cluster } = target;
  return new HttpKubeClient(new Calls(transport, { timeoutMs: settings.timeoutMs, observe }), {
    context,
    source,
    namespace,
    server: cluster.server,
  });
}

const patchTypes: Readonly<Record<Patch["type"], string>> = {
  merge: "application/merge-patch+json",
  strategic: "application/strategic-merge-patch+json",
  json: "application/json-patch+json",
  apply: "application/apply-patch+yaml", // JSON is YAML
};

const pageSize = 500;

class HttpKubeClient implements KubeConnection {
  readonly target: ClientTarget;
  readonly #calls: Calls;

  constructor(calls: Calls, target: ClientTarget) {
    this.#calls = calls;
    this.target = target;
  }

  async get<T extends KubeObject>(
    type: ResourceType<T>,
    key: ObjectKey,
    options: CallOptions & { readonly subresource?: string },
  ): Promise<T> {
    const path = objectPath(type, key, options.subresource);
    const what = `get ${describeObject(type, key)}`;
    return this.#calls.json({ ...typed(type, "get", options), method: "GET", path, what });
  }

  async list<T extends KubeObject>(type: ResourceType<T>, options: ListOptions): Promise<ObjectList<T>> {
    const { labelSelector, fieldSelector, limit, resourceVersion, resourceVersionMatch } = options;
    const query = { labelSelector, fieldSelector, limit, resourceVersion, resourceVersionMatch };
    const path =
      collectionPath(type, options.namespace) + queryText({ ...query, continue: options.continueToken });
    const call: Call = { ...typed(type, "list", options), method: "GET", path, what: `list ${type.plural}` };
    const { metadata, items } = await this.#calls.json<WireList<T>>(call);
    const common = { apiVersion: apiVersionOf(type), kind: type.kind };
    return {
      items: (items ?? []).map((item) => ({ ...common, ...item })), // the server leaves these two out of lists
      resourceVersion: metadata?.resourceVersion ?? "",
      continueToken: metadata?.continue || undefined,
    };
  }

  async *pages<T extends KubeObject>(
    type: ResourceType<T>,
    options: ListOptions,
  ): AsyncGenerator<ObjectList<T>, void, undefined> {
    let page = await this.list(type, { limit: pageSize, ...options });
    yield page;
    // The continue token carries the version of the first page; naming one beside it is an error.
    const { resourceVersion: _version, resourceVersionMatch: _match, ...others } = options;
    while (page.continueToken !== undefined) {
      page = await this.list(type, { limit: pageSize, ...others, continueToken: page.continueToken });
      yield page;
    }
  }

  async create<T extends KubeObject>(type: ResourceType<T>, object: T, options: WriteOptions): Promise<T> {
    const key = keyOf(object);
    const { subresource } = options;
    if (type.namespaced && !key.namespace)
      throw new Fault("badRequest", `create ${type.plural} "${key.name}": metadata.namespace is missing`);
    const path = subresource ? objectPath(type, key, subresource) : collectionPath(type, key.namespace);
    const body = JSON.stringify(withKind(type, object, subresource));
    return this.#write({ type, key, verb: "create", method: "POST", path, body, options });
  }

  async update<T extends KubeObject>(type: ResourceType<T>, object: T, options: WriteOptions): Promise<T> {
    const key = keyOf(object);
    const path = objectPath(type, key, options.subresource);
    const body = JSON.stringify(withKind(type, object, options.subresource));
    return this.#write({ type, key, verb: "update", method: "PUT", path, body, options });
  }

  async patch<T extends KubeObject>(
    type: ResourceType<T>,
    { key, patch }: { readonly key: ObjectKey; readonly patch: Patch },
    options: WriteOptions,
  ): Promise<T> {
    if (patch.type === "apply" && !options.fieldManager)
      throw new Fault("badRequest", `apply ${describeObject(type, key)}: a fieldManager is needed`);
    const path = objectPath(type, key, options.subresource);
    const body = JSON.stringify(patch.body);
    const force = patch.type === "apply" ? patch.force : undefined;
    const contentType = patchTypes[patch.type];
    return this.#write({
      type,
      key,
      verb: "patch",
      method: "PATCH",
      path,
      body,
      options,
      contentType,
      force,
    });
  }

  async delete(type: ResourceType<KubeObject>, key: ObjectKey, options: DeleteOptions): Promise<void> {
    const { preconditions, gracePeriodSeconds, propagationPolicy } = options;
    const dryRun = options.dryRun ? ["All"] : undefined;
    const wish = { preconditions, gracePeriodSeconds, propagationPolicy, dryRun };
    const body = JSON.stringify({ apiVersion: "v1", kind: "DeleteOptions", ...wish });
    const what = `delete ${describeObject(type, key)}`;
    const path = objectPath(type, key);
    await this.#calls.answer({ ...typed(type, "delete", options), method: "DELETE", path, body, what });
  }

  async raw(request: RawRequest): Promise<unknown> {
    const { method, path, body, signal, timeoutMs, ...others } = request;
    if (!path.startsWith("/")) throw new Fault("badRequest", `raw request: path "${path}" must begin with /`);
    const answer = await this.#calls.answer({
      ...others,
      ...within({ signal, timeoutMs }),
      method,
      path,
      body: body === undefined || typeof body === "string" ? body : JSON.stringify(body),
      what: `${method} ${path}`,
      labels: { verb: "raw", resource: "" },
    });
    const isJson = answer.headers["content-type"]?.includes("application/json") === true;
    return isJson ? (JSON.parse(answer.text) as unknown) : answer.text;
  }

  stream(request: StreamRequest): Promise<ByteStream> {
    return this.#calls.stream(request);
  }

  #write<T>({ type, key, verb, method, path, body, options, contentType, force }: Write): Promise<T> {
    const { dryRun, fieldManager } = options;
    const query = queryText({ dryRun: dryRun ? "All" : undefined, fieldManager, force });
    const what = `${verb} ${describeObject(type, key)}`;
    return this.#calls.json({
      ...typed(type, verb, options),
      method,
      path: path + query,
      body,
      contentType,
      what,
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#calls[Symbol.asyncDispose]();
  }
}

interface Write extends Pick<Call, "method" | "path" | "contentType"> {
  readonly type: ResourceType<KubeObject>;
  readonly key: ObjectKey;
  readonly verb: string;
  readonly body: string;
  readonly options: WriteOptions;
  readonly force?: boolean | undefined;
}

interface WireList<T> {
  readonly metadata?: { readonly resourceVersion?: string; readonly continue?: string };
  readonly items?: readonly T[] | null;
}

type TypedCall = Pick<Call, "kind" | "labels" | "signal" | "timeoutMs">;

function typed(kind: ResourceType<KubeObject>, verb: string, options: CallOptions): TypedCall {
  return { kind, labels: { verb, resource: resourceName(kind) }, ...within(options) };
}

function within({
  signal,
  timeoutMs,
}: {
  readonly signal: AbortSignal;
  readonly timeoutMs?: number | undefined;
}): CallOptions {
  return { signal, ...(timeoutMs === undefined ? {} : { timeoutMs }) };
}

/** Objects from lists may lack their kind, and custom resources are refused without. A subresource has its own. */
function withKind<T extends KubeObject>(type: ResourceType<T>, object: T, subresource?: string): KubeObject {
  if (object.kind && object.apiVersion) return object;
  if (subresource && subresource !== "status") return object;
  return { ...object, apiVersion: apiVersionOf(type), kind: type.kind };
}
