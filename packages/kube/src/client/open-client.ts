/** `KubeClient` over HTTP. */
import { Fault, silentLogger, type Logger, type Registry } from "@cocoon/core";
import { Calls, type Call, requestMetrics } from "./calls.ts";
import type { CallOptions, KubeConnection, ListOptions, Patch, WriteOptions } from "./client.ts";
import { withBearerToken } from "./endpoint.ts";
import { loadKubeTarget, type KubeconfigOptions } from "./kubeconfig.ts";
import {
  formatApiVersion,
  getKey,
  resourceName,
  type KubeObject,
  type ObjectKey,
  type ResourceType,
} from "../object.ts";
import { collectionPath, describeObject, objectPath, queryText } from "./request-path.ts";
import { Transport } from "./transport.ts";

export interface KubeClientOptions extends KubeconfigOptions {
  readonly signal: AbortSignal;
  readonly log?: Logger;
  readonly userAgent?: string;
  readonly timeoutMs?: number;
  /** Most connections for calls at once; further calls wait for one. Watches have connections of their own. */
  readonly maxConnections?: number;
  readonly maxAnswerBytes?: number;
  readonly registry?: Registry;
  /** Calls as this user instead of the kubeconfig's: none of its own credentials is sent then. */
  readonly bearerToken?: string;
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
  const loaded = await loadKubeTarget(options);
  const target = options.bearerToken === undefined ? loaded : withBearerToken(loaded, options.bearerToken);
  const transport = new Transport(target, settings);
  await transport.prepare(options.signal);
  const observe = requestMetrics(options.registry);
  const { context, source, namespace, cluster } = target;
  const calls = new Calls(transport, { timeoutMs: settings.timeoutMs, observe });
  return {
    target: { context, source, namespace, server: cluster.server },
    ...createReads(calls),
    ...createWrites(calls),
    stream: (request) => calls.stream(request),
    upgrade: (request) => calls.upgrade(request),
    [Symbol.asyncDispose]: () => calls[Symbol.asyncDispose](),
  };
}

const patchTypes: Readonly<Record<Patch["type"], string>> = {
  merge: "application/merge-patch+json",
  strategic: "application/strategic-merge-patch+json",
  json: "application/json-patch+json",
  apply: "application/apply-patch+yaml", // JSON is YAML
};

const pageSize = 500;

type Reads = Pick<KubeConnection, "get" | "list" | "pages" | "raw">;
type Writes = Pick<KubeConnection, "create" | "update" | "patch" | "delete">;

function createReads(calls: Calls): Reads {
  const list: Reads["list"] = async <T extends KubeObject>(type: ResourceType<T>, options: ListOptions) => {
    const { labelSelector, fieldSelector, limit, continueToken } = options;
    const query = queryText({ labelSelector, fieldSelector, limit, continue: continueToken });
    const path = collectionPath(type, options.namespace) + query;
    const call: Call = { ...typed(type, "list", options), method: "GET", path, what: `list ${type.plural}` };
    const { metadata, items } = await calls.json<WireList<T>>(call);
    const common = { apiVersion: formatApiVersion(type), kind: type.kind };
    return {
      items: (items ?? []).map((item) => ({ ...common, ...item })), // the server leaves these two out of lists
      resourceVersion: metadata?.resourceVersion ?? "",
      continueToken: metadata?.continue || undefined,
    };
  };
  return {
    get: async (type, key, options) => {
      const path = objectPath(type, key, options.subresource);
      const what = `get ${describeObject(type, key)}`;
      return calls.json({ ...typed(type, "get", options), method: "GET", path, what });
    },
    list,
    pages: async function* (type, options) {
      let page = await list(type, { limit: pageSize, ...options });
      yield page;
      while (page.continueToken !== undefined) {
        page = await list(type, { limit: pageSize, ...options, continueToken: page.continueToken });
        yield page;
      }
    },
    raw: async ({ method, path, body, signal, timeoutMs, ...others }) => {
      if (!path.startsWith("/"))
        throw new Fault("badRequest", `raw request: path "${path}" must begin with /`);
      const answer = await calls.answer({
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
    },
  };
}

function createWrites(calls: Calls): Writes {
  return {
    create: async (type, object, options) => {
      const key = getKey(object);
      const { subresource } = options;
      if (type.namespaced && !key.namespace)
        throw new Fault("badRequest", `create ${type.plural} "${key.name}": metadata.namespace is missing`);
      const path = subresource ? objectPath(type, key, subresource) : collectionPath(type, key.namespace);
      const body = JSON.stringify(withKind(type, object, subresource));
      return write(calls, { type, key, verb: "create", method: "POST", path, body, options });
    },
    update: async (type, object, options) => {
      const key = getKey(object);
      const path = objectPath(type, key, options.subresource);
      const body = JSON.stringify(withKind(type, object, options.subresource));
      return write(calls, { type, key, verb: "update", method: "PUT", path, body, options });
    },
    patch: async (type, { key, patch }, options) => {
      if (patch.type === "apply" && !options.fieldManager)
        throw new Fault("badRequest", `apply ${describeObject(type, key)}: a fieldManager is needed`);
      const path = objectPath(type, key, options.subresource);
      const body = JSON.stringify(patch.body);
      const force = patch.type === "apply" ? patch.force : undefined;
      const how = { verb: "patch", method: "PATCH", contentType: patchTypes[patch.type], force } as const;
      return write(calls, { ...how, type, key, path, body, options });
    },
    delete: async (type, key, options) => {
      const { preconditions, gracePeriodSeconds, propagationPolicy } = options;
      const dryRun = options.dryRun ? ["All"] : undefined;
      const deletion = { preconditions, gracePeriodSeconds, propagationPolicy, dryRun };
      const body = JSON.stringify({ apiVersion: "v1", kind: "DeleteOptions", ...deletion });
      const what = `delete ${describeObject(type, key)}`;
      const path = objectPath(type, key);
      await calls.answer({ ...typed(type, "delete", options), method: "DELETE", path, body, what });
    },
  };
}

function write<T>(calls: Calls, request: Write): Promise<T> {
  const { type, key, verb, path, options, force, ...sent } = request;
  const { dryRun, fieldManager } = options;
  const query = queryText({ dryRun: dryRun ? "All" : undefined, fieldManager, force });
  const what = `${verb} ${describeObject(type, key)}`;
  return calls.json({ ...typed(type, verb, options), ...sent, path: path + query, what });
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
  return { ...object, apiVersion: formatApiVersion(type), kind: type.kind };
}
