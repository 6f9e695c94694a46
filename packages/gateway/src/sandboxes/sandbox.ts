/** A sandbox is a CocoonSet with one machine. What the client asked for is an annotation; everything else is spec and status. */
import { apiGroup, gatewayKey, type CocoonSetSpecInput, type CocoonSetStatus } from "@cocoon/contract";
import { tryParseJson } from "@cocoon/core";
import { resourceType, type KubeObject } from "@cocoon/kube";
import * as z from "zod";

export interface SetObject extends KubeObject {
  readonly spec?: CocoonSetSpecInput;
  readonly status?: CocoonSetStatus;
}

export const cocoonSets = resourceType<SetObject>({ group: apiGroup, version: "v1", kind: "CocoonSet" });

/** Image and size of a machine, with the name of its template. */
export const machineSchema = z.object({
  name: z.string(),
  image: z.string().min(1),
  mode: z.enum(["run", "clone"]).default("run"),
  cpus: z.int().min(1).max(64).default(1),
  memoryMiB: z.int().min(64).max(1_048_576).default(256),
  storageMiB: z.int().min(64).max(16_777_216).default(512),
});

const texts = z.record(z.string(), z.string());

/** `gatewayKey.sandboxSpec`. */
export const sandboxSpec = z.object({
  template: z.string(),
  /** ServiceAccount of its namespace that requests for the guest act as. */
  account: z.string().regex(/^[a-z0-9][a-z0-9.-]{0,252}$/),
  metadata: texts.default({}),
  env: texts.default({}),
  /** Of the template: user and directory of commands that name none. */
  user: z.string().optional(),
  directory: z.string().optional(),
  /** Seconds; what a wake by traffic gives it. */
  timeout: z.number(),
  autoPause: z.boolean().default(false),
  autoResume: z.boolean().default(false),
  /** Requests to envd need the token. */
  secure: z.boolean().default(true),
  /** Ports may be reached without a token. */
  publicTraffic: z.boolean().default(false),
  internet: z.boolean().optional(),
  network: z.record(z.string(), z.unknown()).optional(),
  startedAt: z.string(),
  /** First generation of the set whose status speaks of this run; later ones may only have moved the end. */
  generation: z.int().optional(),
  /** When it was paused; absent while it runs. */
  pausedAt: z.string().optional(),
  /** Of a snapshot: the sandbox it was made of, and its machine. */
  source: z.string().optional(),
  machine: machineSchema.optional(),
  /** Of a template that a client built: its build. */
  build: z.string().optional(),
  idempotency: z.object({ key: z.string(), body: z.string() }).optional(),
});
export type SandboxSpec = z.output<typeof sandboxSpec>;

export interface Sandbox {
  readonly id: string;
  readonly namespace: string;
  readonly set: SetObject;
  readonly spec: SandboxSpec;
  readonly state: "running" | "paused";
  readonly endAt: Date;
  /** The machine answers: its pod is ready at the newest generation. */
  readonly isReady: boolean;
  readonly phase: string;
}

/** Undefined for a set that is no sandbox, terminates, or has expired. */
export function tryReadSandbox(set: SetObject, now: Date): Sandbox | undefined {
  const spec = tryReadSpec(set);
  if (!spec) return undefined;
  const { suspend, expire } = set.spec ?? {};
  const expiry = new Date(expire?.at ?? latest);
  const expired = expiry.getTime() <= now.getTime();
  if (expired && expire?.action === "Delete") return undefined;
  const paused = expired || suspend === true;
  const phase = readPhase(set, spec.generation);
  return {
    ...readOwner(set),
    set,
    spec,
    state: paused ? "paused" : "running",
    endAt: paused && spec.pausedAt ? new Date(spec.pausedAt) : expiry,
    isReady: !paused && phase === "Running" && isMainReady(set),
    phase,
  };
}

/** The last moment that a Date can hold. */
const latest = 8.64e15;

function tryReadSpec(set: SetObject): SandboxSpec | undefined {
  const { deletionTimestamp, labels, annotations } = set.metadata;
  if (deletionTimestamp !== undefined || labels?.[gatewayKey.sandbox] !== "true") return undefined;
  return parseSpec(set, annotations?.[gatewayKey.sandboxSpec] ?? "");
}

/** Objects of a cache do not change: each is parsed once, not for every request and list. */
const parsed = new WeakMap<SetObject, SandboxSpec | undefined>();

function parseSpec(set: SetObject, text: string): SandboxSpec | undefined {
  if (parsed.has(set)) return parsed.get(set);
  const spec = sandboxSpec.safeParse(tryParseJson(text)).data;
  parsed.set(set, spec);
  return spec;
}

function readOwner({ metadata }: SetObject): { readonly id: string; readonly namespace: string } {
  return { id: metadata.name ?? "", namespace: metadata.namespace ?? "" };
}

function isMainReady({ status }: SetObject): boolean {
  return status?.agents?.[0]?.ready === true;
}

/** Of this run: a status of before says nothing about what was asked for since. */
function readPhase({ metadata, status }: SetObject, generation = metadata.generation ?? 0): string {
  const isCurrent = (status?.observedGeneration ?? 0) >= generation;
  return (isCurrent ? status?.phase : undefined) ?? "Pending";
}

/** A set that runs and is no sandbox yet, as far as its guest is concerned. */
export function describeRunning(set: SetObject, spec: SandboxSpec): Sandbox {
  const endAt = new Date(set.spec?.expire?.at ?? latest);
  return { ...readOwner(set), set, spec, state: "running", endAt, isReady: true, phase: "Running" };
}

/** Its main machine runs and answers. */
export function isSetReady(set: SetObject): boolean {
  return readPhase(set) === "Running" && isMainReady(set);
}

export function writeSandboxSpec(spec: SandboxSpec): Readonly<Record<string, string>> {
  return { [gatewayKey.sandboxSpec]: JSON.stringify(spec) };
}

/** Who traffic that names no tenant acts as: never an account of another namespace. */
export function getUser({ namespace, spec }: Pick<Sandbox, "namespace" | "spec">): string {
  return `system:serviceaccount:${namespace}:${spec.account}`;
}

/** The pod of the sandbox's machine. */
export function getPodName({ id }: Pick<Sandbox, "id">): string {
  return `${id}-0`;
}
