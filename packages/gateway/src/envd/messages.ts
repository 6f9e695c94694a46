/** Messages of the two services. proto3 JSON: fields may be missing, names may be camel or snake case, enums numbers. */
import * as z from "zod";
import { ConnectError } from "./connect-codec.ts";

const text = z.string();
const texts = z.record(text, text).default({});
const size = z.object({ cols: z.int().min(0).max(65_535), rows: z.int().min(0).max(65_535) });
const selector = z.object({ pid: z.coerce.number().int().min(1).optional(), tag: text.optional() });
export type Selector = z.output<typeof selector>;
const pty = z.object({ size: size.optional() });

export const startRequest = z.object({
  process: z.object({
    cmd: text.min(1),
    args: z.array(text).default([]),
    envs: texts,
    cwd: text.optional(),
  }),
  pty: pty.optional(),
  tag: text.optional(),
  stdin: z.boolean().optional(),
});

export const selectRequest = z.object({ process: selector });
export const updateRequest = z.object({ process: selector, pty: pty.optional() });

const input = z.object({ stdin: text.optional(), pty: text.optional() });
export type ProcessInput = z.output<typeof input>;
export const inputRequest = z.object({ process: selector, input });
export const streamInputRequest = z.object({
  start: z.object({ process: selector }).optional(),
  data: z.object({ input }).optional(),
  keepalive: z.unknown().optional(),
});

const signals: Readonly<Record<string, number>> = { SIGNAL_SIGKILL: 9, SIGNAL_SIGTERM: 15 };
export const signalRequest = z.object({
  process: selector,
  signal: z
    .union([text, z.number()])
    .transform((value) => (typeof value === "number" ? value : (signals[value] ?? 0))),
});

export const pathRequest = z.object({ path: text.default("") });
export const listRequest = z.object({
  path: text.default(""),
  depth: z.coerce.number().int().min(0).default(0),
});
export const moveRequest = z.object({ source: text.default(""), destination: text.default("") });
export const watchRequest = z.object({
  path: text.default(""),
  recursive: z.boolean().default(false),
  includeEntry: z.boolean().default(false),
  allowNetworkMounts: z.boolean().default(false),
});
export const watcherRequest = z.object({ watcherId: text.default("") });

/** Throws `invalid_argument` naming the field. */
export function parseRequest<T extends z.ZodType>(schema: T, message: unknown): z.output<T> {
  const parsed = schema.safeParse(toCamelKeys(message));
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0];
  throw new ConnectError(
    "invalid_argument",
    `${issue?.path.join(".") ?? ""}: ${issue?.message ?? "not a message"}`,
  );
}

/** Maps of free keys (environment) keep theirs. */
function toCamelKeys(value: unknown): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, member]) => [
      key.replace(/_([a-z])/g, (_match, letter: string) => letter.toUpperCase()),
      key === "envs" ? member : toCamelKeys(member),
    ]),
  );
}
