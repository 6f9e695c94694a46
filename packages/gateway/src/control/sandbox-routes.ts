/** Sandboxes: create, connect, list, read, pause, prolong, kill. */
import { isFault, type Abortable } from "@cocoon/core";
import { ApiError, sendEmpty, sendJson } from "../http/answer.ts";
import { parseSandboxId } from "../sandboxes/ids.ts";
import type { Egress } from "../sandboxes/egress.ts";
import type { CreateRequest, Lifecycle } from "../sandboxes/lifecycle.ts";
import type { Sandbox, SandboxSpec } from "../sandboxes/sandbox.ts";
import type { SandboxStore } from "../sandboxes/store.ts";
import { chooseMachine, type ChosenMachine } from "../sandboxes/choose-machine.ts";
import type { Snapshots } from "../sandboxes/snapshots.ts";
import type { Template, Templates } from "../sandboxes/templates.ts";
import type { WarmPool } from "../sandboxes/warm-pool.ts";
import type { Tenant } from "../tenants/tenant.ts";
import { deriveId, tryReadIdempotency, type Idempotency } from "./idempotency.ts";
import { parseListQuery, selectPage } from "./list.ts";
import { planEgress } from "./network-routes.ts";
import { refuseUnsupported } from "./refusals.ts";
import type { Call, Routes } from "./router.ts";
import {
  connectBody,
  createBody,
  formatDetail,
  formatListed,
  formatSandbox,
  parseBody,
  pauseBody,
  refreshBody,
  resumeBody,
  timeoutBody,
  type Access,
  type CreateBody,
} from "./shapes.ts";

export interface SandboxRoutesOptions {
  readonly store: SandboxStore;
  readonly lifecycle: Lifecycle;
  readonly pool: WarmPool;
  readonly templates: Templates;
  readonly snapshots: Snapshots;
  readonly egress: Egress;
  readonly access: (sandbox: Sandbox) => Access;
  readonly maxSandboxes: number;
}

const defaultTimeout = { v1: 15, v2: 300 } as const;
const minRefresh = 15;

export function buildSandboxRoutes(options: SandboxRoutesOptions): Routes {
  const routes = new SandboxRoutes(options);
  return {
    "POST /sandboxes": (call) => routes.create(call, "v1"),
    "POST /v2/sandboxes": (call) => routes.create(call, "v2"),
    "GET /sandboxes": (call) => routes.list(call, true),
    "GET /v2/sandboxes": (call) => routes.list(call, false),
    "GET /sandboxes/{id}": (call) => routes.read(call),
    "DELETE /sandboxes/{id}": (call) => routes.kill(call),
    "POST /sandboxes/{id}/connect": (call) => routes.connect(call, "v1"),
    "POST /v2/sandboxes/{id}/connect": (call) => routes.connect(call, "v2"),
    "POST /sandboxes/{id}/resume": (call) => routes.resume(call),
    "POST /sandboxes/{id}/pause": (call) => routes.pause(call),
    "POST /sandboxes/{id}/timeout": (call) => routes.setTimeout(call),
    "POST /sandboxes/{id}/refreshes": (call) => routes.refresh(call),
  };
}

class SandboxRoutes {
  readonly #options: SandboxRoutesOptions;

  constructor(options: SandboxRoutesOptions) {
    this.#options = options;
  }

  async create(call: Call, version: "v1" | "v2"): Promise<void> {
    const { tenant, response, signal } = call;
    const { store } = this.#options;
    const body = parseBody(createBody, call.body);
    refuseUnsupported(body);
    const egress = await planEgress(this.#options.egress, {
      ...body.network,
      internet: body.allow_internet_access,
    });
    const idempotency = tryReadIdempotency(call);
    const id = idempotency && deriveId(tenant, idempotency.key);
    const known = id === undefined ? undefined : store.tryGet({ namespace: tenant.namespace, id });
    if (known) return this.#answerRepeated(call, known, idempotency?.body);
    const planned = this.#plan(body, { tenant, version, idempotency });
    const request = { ...planned, ...(id ? { id } : {}), ...(egress ? { egress } : {}) };
    try {
      const sandbox = await this.#start(tenant, request, { signal });
      sendJson(response, 201, formatSandbox(sandbox, this.#options.access(sandbox)));
    } catch (error) {
      if (id === undefined || !isFault(error, "alreadyExists")) throw error;
      await this.#answerRepeated(call, await store.require(tenant, id, { signal }), idempotency?.body);
    }
  }

  /** From the warm pool where there is one; the pool is filled again, and a template that was booted is saved. */
  async #start(tenant: Tenant, request: Planned & CreateRequest, options: Abortable): Promise<Sandbox> {
    const { lifecycle, snapshots, pool } = this.#options;
    const { pooled, boots } = request;
    // Rules hold from the first moment on, so that a machine that runs already is none for them.
    const warm = pooled &&
      !request.egress && { template: pooled, setSpec: request.setSpec, spec: request.spec };
    const taken = warm && !request.id ? await pool.tryTake(tenant, warm, options) : undefined;
    try {
      const sandbox = taken ?? (await lifecycle.create(tenant, request, options));
      if (warm && !boots) pool.fill(tenant, warm);
      return sandbox;
    } catch (error) {
      throw boots && !request.id ? explainPreparing(error, boots) : error;
    } finally {
      // Also when it took too long: a node that builds the image goes on for the machine that is saved.
      if (boots) snapshots.saveBuiltIn(tenant, boots);
    }
  }

  #plan(body: CreateBody, { tenant, version, idempotency }: Origin): Planned {
    const { store, maxSandboxes } = this.#options;
    const { template, defaults, ...machine } = chooseMachine(
      this.#options,
      tenant.namespace,
      body.templateID,
    );
    if (store.list(tenant.namespace).length >= maxSandboxes)
      throw new ApiError(429, `the namespace has ${maxSandboxes} sandboxes already`, {
        headers: { "retry-after": "5" },
      });
    const timeout = body.timeout ?? defaultTimeout[version];
    if (timeout <= 0) throw new ApiError(400, "timeout: at least 1 second");
    const own = inherit(buildSpec(body, { tenant, version }), defaults);
    const more = idempotency ? { idempotency } : {};
    return { ...machine, spec: { ...own, template: template.name, machine: template, timeout, ...more } };
  }

  /** The same key and body again: the same sandbox, once it runs. */
  async #answerRepeated(
    { tenant, response, signal }: Call,
    known: Sandbox,
    body: string | undefined,
  ): Promise<void> {
    if (known.spec.idempotency?.body !== body)
      throw new ApiError(422, "Idempotency-Key: the key was used with another body", {
        errorCode: "idempotency_request_mismatch",
      });
    const { sandbox } = await this.#options.lifecycle.connect(tenant, known, { timeout: 1, signal });
    sendJson(response, 201, formatSandbox(sandbox, this.#options.access(sandbox)));
  }

  async list({ tenant, query, response }: Call, runningOnly: boolean): Promise<void> {
    const parsed = parseListQuery(query);
    const wanted = runningOnly ? { ...parsed, states: new Set(["running"]) } : parsed;
    const page = selectPage(this.#options.store.list(tenant.namespace), wanted);
    sendJson(
      response,
      200,
      page.items.map((each) => formatListed(each, this.#size(each))),
      {
        ...(page.nextToken ? { "x-next-token": page.nextToken } : {}),
        ...(wanted.states.has("running") ? { "x-total-running": String(page.running) } : {}),
      },
    );
  }

  async read(call: Call): Promise<void> {
    const sandbox = await this.#require(call);
    sendJson(call.response, 200, formatDetail(sandbox, this.#size(sandbox), this.#options.access(sandbox)));
  }

  async kill(call: Call): Promise<void> {
    await this.#options.lifecycle.kill(call.tenant, await this.#require(call), call);
    sendEmpty(call.response, 204);
  }

  async connect(call: Call, version: "v1" | "v2"): Promise<void> {
    const { timeout, memory } = parseBody(connectBody, call.body);
    if (timeout === undefined && version === "v1") throw new ApiError(400, "timeout: required");
    await this.#connect(call, { timeout: timeout ?? defaultTimeout.v2, memory });
  }

  async resume(call: Call): Promise<void> {
    const { timeout = defaultTimeout.v1, memory } = parseBody(resumeBody, call.body);
    if ((await this.#require(call)).state === "running")
      throw new ApiError(409, `Sandbox ${call.parameter("id")} is already running`);
    await this.#connect(call, { timeout, memory });
  }

  async #connect(
    call: Call,
    { timeout, memory }: { readonly timeout: number; readonly memory: boolean | null | undefined },
  ): Promise<void> {
    if (timeout <= 0) throw new ApiError(400, "timeout: at least 1 second");
    const known = await this.#require(call);
    if (memory === false && known.state === "paused") throw withoutMemory();
    const { sandbox, woken } = await this.#options.lifecycle.connect(call.tenant, known, {
      timeout,
      signal: call.signal,
    });
    sendJson(call.response, woken ? 201 : 200, formatSandbox(sandbox, this.#options.access(sandbox)));
  }

  async pause(call: Call): Promise<void> {
    const { memory } = parseBody(pauseBody, call.body);
    if (memory === false) throw withoutMemory();
    const sandbox = await this.#require(call);
    if (sandbox.state === "paused") throw new ApiError(409, `Sandbox ${sandbox.id} is already paused`);
    await this.#options.lifecycle.pause(call.tenant, sandbox, call);
    sendEmpty(call.response, 204);
  }

  async setTimeout(call: Call): Promise<void> {
    const { timeout } = parseBody(timeoutBody, call.body);
    const sandbox = await this.#requireRunning(call);
    await this.#options.lifecycle.setTimeout(call.tenant, sandbox, { timeout, signal: call.signal });
    sendEmpty(call.response, 204);
  }

  async refresh(call: Call): Promise<void> {
    const timeout = Math.max(minRefresh, parseBody(refreshBody, call.body).duration ?? 0);
    const sandbox = await this.#requireRunning(call);
    const { store, lifecycle } = this.#options;
    if (store.now().getTime() + timeout * 1000 > sandbox.endAt.getTime())
      await lifecycle.setTimeout(call.tenant, sandbox, { timeout, signal: call.signal });
    sendEmpty(call.response, 204);
  }

  #require(call: Call): Promise<Sandbox> {
    return this.#options.store.require(call.tenant, parseSandboxId(call.parameter("id")), call);
  }

  async #requireRunning(call: Call): Promise<Sandbox> {
    const sandbox = await this.#require(call);
    if (sandbox.state === "paused") throw new ApiError(404, `Sandbox ${sandbox.id} is not running`);
    return sandbox;
  }

  #size({ spec }: Sandbox) {
    return spec.machine ?? { cpus: 1, memoryMiB: 0, storageMiB: 0 };
  }
}

/** Nothing was made, so that a client may ask again. */
function explainPreparing(error: unknown, { name }: Template): unknown {
  if (!(error instanceof ApiError) || error.status !== 504) return error;
  return new ApiError(
    503,
    `template ${name} is being prepared: a node makes its image with its first use, which takes minutes; ask again`,
    { errorCode: "sandbox_capacity_unavailable", headers: { "retry-after": "60", "should-retry": "false" } },
  );
}

function withoutMemory(): ApiError {
  return new ApiError(400, "memory: a pause or wake without memory is not offered", {
    errorCode: "sandbox_memory_override_disabled",
  });
}

function buildSpec(
  body: CreateBody,
  { tenant, version }: { readonly tenant: Tenant; readonly version: "v1" | "v2" },
): Omit<SandboxSpec, "startedAt" | "template" | "timeout"> {
  const { network, allow_internet_access: internet } = body;
  return {
    account: tenant.user.split(":").at(-1) ?? "",
    metadata: body.metadata ?? {},
    env: body.envVars ?? {},
    autoPause: body.autoPause ?? false,
    autoResume: body.autoResume?.enabled ?? false,
    secure: version === "v2" || (body.secure ?? false),
    publicTraffic: network?.allowPublicTraffic === true,
    ...(typeof internet === "boolean" ? { internet } : {}),
    ...(network ? { network } : {}),
  };
}

/** What the template says, unless the client says otherwise. */
function inherit<T extends Pick<SandboxSpec, "env">>(spec: T, defaults: ChosenMachine["defaults"]): T {
  return defaults ? { ...spec, ...defaults, env: { ...defaults.env, ...spec.env } } : spec;
}

type Planned = Pick<CreateRequest, "spec"> & Omit<ChosenMachine, "template" | "defaults">;

interface Origin {
  readonly tenant: Tenant;
  readonly version: "v1" | "v2";
  readonly idempotency: Idempotency | undefined;
}
