/**
 * One stream of server-sent events per browser: sets, machines, hibernations and nodes (or the events of one machine) as they
 * are, then every change. It watches the API server as the user, so it shows exactly what that user may see.
 */
import type { ServerResponse } from "node:http";
import { isMachinePod } from "@cocoon/contract";
import { aborted, Fault, getErrorMessage, isFault, type Logger } from "@cocoon/core";
import {
  events,
  nodes,
  pods,
  watch,
  type KubeConnection,
  type KubeEvent,
  type KubeObject,
  type ResourceType,
} from "@cocoon/kube";
import type { MachineUsage } from "../metrics/machine-usage.ts";
import type { Row, RowKind, UsageRow } from "../shared/rows.ts";
import { ChangeQueue } from "./change-queue.ts";
import {
  cocoonHibernations,
  cocoonSets,
  readEventRow,
  readHibernationRow,
  readMachineRow,
  readNodeRow,
  readSetRow,
} from "./rows.ts";

export interface LiveOptions {
  /** Calls as the signed-in user; disposed with the stream. */
  readonly openClient: (signal: AbortSignal) => Promise<KubeConnection>;
  readonly usage: MachineUsage;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

interface Source<T extends KubeObject> {
  readonly kind: RowKind;
  readonly type: ResourceType<T>;
  readonly read: (object: T) => Row | undefined;
  readonly namespace?: string | undefined;
  readonly fieldSelector?: string;
  /** Usage of machines belongs to it: who may list pods may see it. */
  readonly withUsage?: boolean;
}

const keepAliveMs = 15_000;
const dnsName = /^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/;

/** Ends when the browser leaves or the server stops. */
export async function serveLive(
  { response, query }: { readonly response: ServerResponse; readonly query: URLSearchParams },
  options: LiveOptions,
): Promise<void> {
  const run = readSources(query);
  const closed = new AbortController();
  const signal = AbortSignal.any([options.signal, closed.signal]);
  response.once("close", () => closed.abort());
  await using client = await options.openClient(signal);
  response.writeHead(200, {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store",
  });
  response.flushHeaders();
  const queue = new ChangeQueue((changes) => response.write(`data: ${JSON.stringify(changes)}\n\n`));
  response.on("drain", () => queue.resume());
  const alive = setInterval(() => response.write(": alive\n\n"), keepAliveMs);
  try {
    await run((source) => follow(source, { ...options, client, queue, signal }));
    // Where the user may see none of it, the stream stays open all the same: the browser would ask again and again.
    await aborted(signal);
  } finally {
    clearInterval(alive);
    queue.stop();
    response.end();
  }
}

type Follow = <T extends KubeObject>(source: Source<T>) => Promise<void>;

/** The kinds of one stream. Types differ, so they are given one by one instead of as a list. */
function readSources(query: URLSearchParams): (follow: Follow) => Promise<unknown> {
  const namespace = readName(query, "namespace");
  const events = readEventSource(query, namespace);
  if (events) return (follow) => follow(events);
  return (follow) =>
    Promise.all([
      follow({ kind: "set", type: cocoonSets, read: readSetRow, namespace }),
      follow({
        kind: "machine",
        type: pods,
        read: (pod) => (isMachinePod(pod) ? readMachineRow(pod) : undefined),
        namespace,
        withUsage: true,
      }),
      follow({ kind: "hibernation", type: cocoonHibernations, read: readHibernationRow, namespace }),
      follow({ kind: "node", type: nodes, read: readNodeRow }),
    ]);
}

/** Events about one machine (`about`), about a set with all its machines (`family`), or all warnings. */
function readEventSource(
  query: URLSearchParams,
  namespace: string | undefined,
): Source<KubeEvent> | undefined {
  const about = readName(query, "about");
  const family = readName(query, "family");
  const source = { kind: "event", type: events, read: readEventRow, namespace } as const;
  if (about !== undefined) return { ...source, fieldSelector: `regarding.name=${about}` };
  if (query.get("warnings") === "true") return { ...source, fieldSelector: "type=Warning" };
  if (family === undefined) return undefined;
  return {
    ...source,
    read: (event) => {
      const { name = "" } = event.regarding ?? {};
      return name === family || name.startsWith(`${family}-`) ? readEventRow(event) : undefined;
    },
  };
}

function readName(query: URLSearchParams, field: string): string | undefined {
  const name = query.get(field) || undefined;
  if (name === undefined || dnsName.test(name)) return name;
  throw new Fault("badRequest", `${field} is not a name of Kubernetes`);
}

interface FollowContext {
  readonly client: KubeConnection;
  readonly queue: ChangeQueue;
  readonly usage: MachineUsage;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

async function follow<T extends KubeObject>(source: Source<T>, context: FollowContext): Promise<void> {
  const { client, queue, log, signal } = context;
  const { kind, type, read, namespace, fieldSelector } = source;
  if (!(await mayList(source, context))) return;
  using _usage = source.withUsage ? followUsage(context, namespace) : undefined;
  const selection = { ...(namespace ? { namespace } : {}), ...(fieldSelector ? { fieldSelector } : {}) };
  for await (const event of watch(client, type, { ...selection, signal, log, managedFields: false })) {
    if (event.kind === "relisting") queue.add({ op: "reset", kind });
    else if (event.kind === "synced") queue.add({ op: "synced", kind });
    else if (event.kind === "malformed")
      log.warn({ key: event.key, error: getErrorMessage(event.cause) }, "object cannot be read");
    else {
      const { namespace: place = "", name = "" } = event.object.metadata;
      const row = event.kind === "deleted" ? undefined : read(event.object);
      queue.add(row ? { op: "put", row } : { op: "delete", kind, namespace: place, name });
    }
  }
}

function followUsage({ usage, queue }: FollowContext, namespace: string | undefined): Disposable {
  const isShown = (row: UsageRow) => namespace === undefined || row.namespace === namespace;
  const show = (rows: readonly UsageRow[]) => {
    for (const row of rows.filter(isShown)) queue.add({ op: "put", row });
  };
  const listening = usage.subscribe((changed, gone) => {
    show(changed);
    for (const { kind, namespace: place, name } of gone.filter(isShown))
      queue.add({ op: "delete", kind, namespace: place, name });
  });
  queue.add({ op: "reset", kind: "usage" });
  show(usage.rows());
  queue.add({ op: "synced", kind: "usage" });
  return listening;
}

/** A watch repeats a refusal for ever; a page must be told. A server that cannot be asked is left to the watch. */
async function mayList<T extends KubeObject>(
  { kind, type, namespace }: Source<T>,
  { client, queue, signal }: FollowContext,
): Promise<boolean> {
  try {
    await client.list(type, { limit: 1, signal, ...(namespace ? { namespace } : {}) });
    return true;
  } catch (error) {
    if (isFault(error, "unauthorized")) {
      queue.add({ op: "signedOut" });
      return false;
    }
    if (isFault(error, "forbidden") || isFault(error, "notFound")) {
      queue.add({ op: "denied", kind, message: getErrorMessage(error) });
      return false;
    }
    return !signal.aborted;
  }
}
