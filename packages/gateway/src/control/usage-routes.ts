/** Metrics and logs of sandboxes. */
import type { KubeConnection } from "@cocoon/kube";
import { readUsageSince, type UsageSample } from "../envd/guest-metrics.ts";
import { ApiError, sendJson } from "../http/answer.ts";
import type { Guests } from "../sandboxes/guests.ts";
import { parseSandboxId } from "../sandboxes/ids.ts";
import { getPodName, getUser, type Sandbox } from "../sandboxes/sandbox.ts";
import type { SandboxStore } from "../sandboxes/store.ts";
import { impersonate } from "../tenants/tenant.ts";
import type { Call, Routes } from "./router.ts";

export interface UsageOptions {
  readonly store: SandboxStore;
  readonly guests: Guests;
  readonly client: KubeConnection;
}

const mostIds = 100;
const mostLines = 1_000;

export function buildUsageRoutes(options: UsageOptions): Routes {
  const { store } = options;
  const require = (call: Call) => store.require(call.tenant, parseSandboxId(call.parameter("id")), call);
  return {
    "GET /sandboxes/metrics": async (call) =>
      sendJson(call.response, 200, { sandboxes: await readMany(call, options) }),
    "GET /sandboxes/{id}/metrics": async (call) => {
      const sandbox = await require(call);
      sendJson(call.response, 200, await readHistory(sandbox, call, options));
    },
    "GET /sandboxes/{id}/logs": async (call) => {
      const entries = await readLogs(await require(call), call, options);
      const logs = entries.map(({ timestamp, message }) => ({ timestamp, line: message }));
      sendJson(call.response, 200, { logs, logEntries: entries });
    },
    "GET /v2/sandboxes/{id}/logs": async (call) => {
      const entries = await readLogs(await require(call), call, options);
      const search = call.query.get("search") ?? "";
      if (search.length > 256) throw new ApiError(400, "search: at most 256 characters");
      sendJson(call.response, 200, { logs: entries.filter(({ message }) => message.includes(search)) });
    },
  };
}

interface Span {
  readonly start: number;
  readonly end: number;
}

/** Unix seconds; a bound that is not given is open. */
function parseSpan(query: URLSearchParams): Span {
  const read = (name: string, open: number) => {
    const text = query.get(name);
    const value = text === null ? open : Number(text);
    if (Number.isNaN(value)) throw new ApiError(400, `${name}: unix seconds`);
    return value;
  };
  return { start: read("start", 0), end: read("end", Number.POSITIVE_INFINITY) };
}

/** The guest keeps the history: it is there for every replica, and after a pause. A clone has that of its template too, which is left out. */
async function readHistory(sandbox: Sandbox, call: Call, { guests }: UsageOptions): Promise<unknown[]> {
  const { start, end } = parseSpan(call.query);
  if (!sandbox.isReady) return [];
  const made = Date.parse(sandbox.set.metadata.creationTimestamp ?? "") / 1000 || 0;
  const since = Math.floor(Math.max(start, made));
  const samples = await readUsageSince(guests.open(sandbox), { since, signal: call.signal });
  return samples.filter(({ at }) => at >= since && at <= end).map(formatSample);
}

function formatSample({ at, ...usage }: UsageSample): unknown {
  return { timestamp: new Date(at * 1000).toISOString(), timestampUnix: at, ...usage };
}

async function readMany(call: Call, options: UsageOptions): Promise<Record<string, unknown>> {
  const ids = (call.query.get("sandbox_ids") ?? "").split(",").filter((id) => id !== "");
  if (ids.length > mostIds) throw new ApiError(400, `sandbox_ids: at most ${mostIds}`);
  const entries = await Promise.all(
    ids.map(async (id) => {
      const sandbox = options.store.tryGet({ namespace: call.tenant.namespace, id: parseSandboxId(id) });
      if (!sandbox?.isReady) return [];
      const sample = (await readUsageSince(options.guests.open(sandbox), call)).at(-1);
      return sample ? [[id, formatSample(sample)] as const] : [];
    }),
  );
  return Object.fromEntries(entries.flat());
}

interface LogEntry {
  readonly timestamp: string;
  readonly message: string;
  readonly level: string;
  readonly fields: Record<string, string>;
}

/** Lines of the pod: the guest's journal, or its console. */
async function readLogs(
  sandbox: Sandbox,
  { query, signal }: Call,
  { client }: UsageOptions,
): Promise<readonly LogEntry[]> {
  const limit = Number(query.get("limit") ?? mostLines);
  if (!Number.isInteger(limit) || limit < 0 || limit > mostLines)
    throw new ApiError(400, `limit: 0 to ${mostLines}`);
  if (!sandbox.isReady || limit === 0) return [];
  const path = `/api/v1/namespaces/${sandbox.namespace}/pods/${getPodName(sandbox)}/log?timestamps=true&tailLines=${limit}`;
  const text = await client.raw({
    method: "GET",
    path,
    headers: impersonate({ user: getUser(sandbox) }),
    signal,
  });
  return String(text)
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => {
      const space = line.indexOf(" ");
      return { timestamp: line.slice(0, space), message: line.slice(space + 1), level: "info", fields: {} };
    });
}
