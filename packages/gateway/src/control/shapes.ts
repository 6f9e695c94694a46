/** Requests and answers of the control API. Fields that Python's SDK cannot do without are always there. */
import * as z from "zod";
import { ApiError } from "../http/answer.ts";
import type { Sandbox } from "../sandboxes/sandbox.ts";
import type { Template } from "../sandboxes/templates.ts";

/** Every branch on the version in the SDKs is then the modern one. */
export const envdVersion = "0.6.13";
/** A leftover that SDKs want to see. */
const clientID = "6532622b";

const texts = z.record(z.string(), z.string());
const seconds = z.int();

export const createBody = z.object({
  templateID: z.string().min(1).max(200),
  timeout: seconds.optional(),
  metadata: texts.nullish(),
  envVars: texts.nullish(),
  secure: z.boolean().nullish(),
  autoPause: z.boolean().nullish(),
  autoPauseMemory: z.boolean().nullish(),
  autoResume: z.object({ enabled: z.boolean() }).nullish(),
  allow_internet_access: z.boolean().nullish(),
  network: z
    .looseObject({
      allowPublicTraffic: z.boolean().nullish(),
      allowOut: z.array(z.string()).nullish(),
      denyOut: z.array(z.string()).nullish(),
    })
    .nullish(),
  iam: z.unknown().optional(),
  volumeMounts: z.array(z.unknown()).nullish(),
});
export type CreateBody = z.output<typeof createBody>;

export const connectBody = z.object({ timeout: seconds.optional(), memory: z.boolean().nullish() });
export const resumeBody = z.object({
  timeout: seconds.optional(),
  autoPause: z.boolean().nullish(),
  memory: z.boolean().nullish(),
});
export const pauseBody = z.object({
  memory: z.boolean().nullish(),
  requireHealthyGuest: z.boolean().nullish(),
});
export const timeoutBody = z.object({ timeout: seconds.min(0) });
export const refreshBody = z.object({ duration: seconds.min(0).max(3600).optional() });

/** A field that is left out is cleared. */
export const networkBody = z.looseObject({
  allowOut: z.array(z.string()).nullish(),
  denyOut: z.array(z.string()).nullish(),
  allow_internet_access: z.boolean().nullish(),
});

/** Throws 400 naming the field. */
export function parseBody<T extends z.ZodType>(schema: T, body: unknown): z.output<T> {
  const parsed = schema.safeParse(body ?? {});
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0];
  throw new ApiError(400, `${issue?.path.join(".") || "body"}: ${issue?.message ?? "invalid"}`);
}

export interface Access {
  readonly envdAccessToken: string | undefined;
  readonly trafficAccessToken: string | undefined;
  readonly domain: string | undefined;
}

export function formatSandbox(
  { id, spec }: Sandbox,
  { envdAccessToken, trafficAccessToken, domain }: Access,
): unknown {
  return {
    sandboxID: id,
    templateID: spec.template,
    alias: spec.template,
    clientID,
    envdVersion,
    ...(envdAccessToken ? { envdAccessToken } : {}),
    trafficAccessToken: trafficAccessToken ?? null,
    domain: domain ?? null,
  };
}

type Size = Pick<Template, "cpus" | "memoryMiB" | "storageMiB">;

export function formatListed(
  sandbox: Sandbox,
  { cpus, memoryMiB, storageMiB }: Size,
): Record<string, unknown> {
  const { id, spec, state, endAt } = sandbox;
  return {
    sandboxID: id,
    templateID: spec.template,
    alias: spec.template,
    clientID,
    envdVersion,
    state,
    startedAt: spec.startedAt,
    endAt: endAt.toISOString(),
    cpuCount: cpus,
    memoryMB: memoryMiB,
    diskSizeMB: storageMiB,
    metadata: spec.metadata,
  };
}

export function formatDetail(sandbox: Sandbox, size: Size, { envdAccessToken, domain }: Access): unknown {
  const { spec } = sandbox;
  return {
    ...formatListed(sandbox, size),
    ...(envdAccessToken ? { envdAccessToken } : {}),
    domain: domain ?? null,
    allowInternetAccess: spec.internet ?? null,
    ...(spec.network ? { network: spec.network } : {}),
    lifecycle: { onTimeout: spec.autoPause ? "pause" : "kill", autoResume: spec.autoResume },
    volumeMounts: [],
  };
}
