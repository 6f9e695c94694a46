/** Copies of running sandboxes: forks, and snapshots to start others from. */
import * as z from "zod";
import { ApiError, sendEmpty, sendJson, toApiError } from "../http/answer.ts";
import { parseSandboxId } from "../sandboxes/ids.ts";
import type { Lifecycle } from "../sandboxes/lifecycle.ts";
import type { Sandbox } from "../sandboxes/sandbox.ts";
import type { Snapshot } from "../sandboxes/read-snapshot.ts";
import { readEgressRules, type EgressRequest, type EgressRules } from "../sandboxes/egress-rules.ts";
import { buildForkSpec } from "../sandboxes/copy-specs.ts";
import type { Snapshots } from "../sandboxes/snapshots.ts";
import type { SandboxStore } from "../sandboxes/store.ts";
import type { Template } from "../sandboxes/templates.ts";
import { parseLimit } from "./list.ts";
import type { Call, Routes } from "./router.ts";
import { formatSandbox, parseBody, type Access } from "./shapes.ts";

export interface SnapshotRoutesOptions {
  readonly store: SandboxStore;
  readonly lifecycle: Lifecycle;
  readonly snapshots: Snapshots;
  readonly access: (sandbox: Sandbox) => Access;
}

const forkBody = z.object({ timeout: z.int().min(1).default(15), count: z.int().min(1).max(100).default(1) });
const snapshotBody = z.object({ name: z.string().nullish(), memory: z.boolean().nullish() });
const aliasPattern = /^(?:([a-z0-9-]+)\/)?([a-z0-9]([a-z0-9_-]{0,58}[a-z0-9])?)(?::default)?$/;

export function buildSnapshotRoutes(options: SnapshotRoutesOptions): Routes {
  const { store, snapshots } = options;
  return {
    "POST /sandboxes/{id}/fork": (call) => fork(call, options),
    "POST /sandboxes/{id}/snapshots": async (call) => {
      const { name, memory } = parseBody(snapshotBody, call.body);
      if (memory === false)
        throw new ApiError(400, "memory: a snapshot without memory is not offered", {
          errorCode: "sandbox_memory_override_disabled",
        });
      const alias = parseAlias(call.tenant.namespace, name ?? "");
      const sandbox = await requireReady(call, store);
      const egress = readStoredRules(sandbox);
      const request = { sandbox, template: requireMachine(sandbox), alias, egress };
      sendJson(call.response, 201, formatSnapshot(await snapshots.create(call.tenant, request, call)));
    },
    "GET /snapshots": async (call) => listSnapshots(call, snapshots),
    "DELETE /templates/{id}": async (call) => {
      const found = snapshots.tryFind(call.tenant.namespace, call.parameter("id"));
      if (!found) throw new ApiError(404, `template "${call.parameter("id")}" not found`);
      await snapshots.delete(call.tenant, found, call);
      sendEmpty(call.response, 204);
    },
  };
}

async function fork(call: Call, { store, lifecycle, access }: SnapshotRoutesOptions): Promise<void> {
  const { timeout, count } = parseBody(forkBody, call.body);
  const source = await requireReady(call, store);
  const setSpec = buildForkSpec(source, requireMachine(source));
  const { startedAt: _started, pausedAt: _paused, idempotency: _key, ...inherited } = source.spec;
  const egress = readStoredRules(source);
  const copy = async (): Promise<unknown> => {
    try {
      const request = { setSpec, spec: { ...inherited, timeout }, ...(egress ? { egress } : {}) };
      const made = await lifecycle.create(call.tenant, request, call);
      return { sandbox: formatSandbox(made, access(made)) };
    } catch (error) {
      const { status, message } = toApiError(error);
      return { error: { code: status, message } };
    }
  };
  // One after the other: each fork stops the source for a moment.
  const entries: unknown[] = [];
  for (let made = 0; made < count; made += 1) entries.push(await copy());
  sendJson(call.response, 201, entries);
}

/** Copies may connect to what their source may. */
function readStoredRules({ spec }: Sandbox): EgressRules | undefined {
  return readEgressRules({ ...(spec.network as EgressRequest | undefined), internet: spec.internet });
}

async function requireReady(call: Call, store: SandboxStore): Promise<Sandbox> {
  const sandbox = await store.require(call.tenant, parseSandboxId(call.parameter("id")), call);
  if (sandbox.state === "paused") throw new ApiError(409, `Sandbox ${sandbox.id} is paused`);
  if (!sandbox.isReady) throw new ApiError(409, `Sandbox ${sandbox.id} is starting`);
  return sandbox;
}

function requireMachine({ id, spec }: Sandbox): Template {
  if (!spec.machine) throw new ApiError(409, `Sandbox ${id} was made by a version that cannot copy it`);
  return spec.machine;
}

function parseAlias(namespace: string, name: string): string {
  if (name === "") return "";
  const [, owner, alias] = aliasPattern.exec(name.toLowerCase()) ?? [];
  if (alias === undefined) throw new ApiError(400, "name: letters, digits, - and _, at most 60");
  if (owner !== undefined && owner !== namespace)
    throw new ApiError(400, `name: the namespace is ${namespace}`);
  return alias;
}

function formatSnapshot({ namespace, alias, name }: Snapshot): unknown {
  return alias === ""
    ? { snapshotID: `${name}:default`, names: [] }
    : { snapshotID: `${namespace}/${alias}:default`, names: [`${namespace}/${alias}`] };
}

function listSnapshots({ tenant, query, response }: Call, snapshots: Snapshots): void {
  const limit = parseLimit(query.get("limit"));
  const source = query.get("sandboxID");
  const name = query.get("name");
  const wanted = name === null ? undefined : snapshots.tryFind(tenant.namespace, name)?.name;
  const all = snapshots
    .list(tenant.namespace)
    .filter(
      (each) =>
        each.source !== "" &&
        (source === null || each.source === source) &&
        (name === null || each.name === wanted),
    );
  const after = query.get("nextToken");
  const first = after ? all.findIndex((each) => each.name === after) + 1 : 0;
  const page = all.slice(first, first + limit);
  const more = first + limit < all.length ? { "x-next-token": page.at(-1)?.name ?? "" } : {};
  sendJson(response, 200, page.map(formatSnapshot), more);
}
