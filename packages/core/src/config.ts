/**
 * Configuration of an executable: one table of options; flags win over environment, environment over file, file over default.
 * Names follow from the key (`healthPort` -> `--health-port`, `COCOON_HEALTH_PORT`). All mistakes are reported at once.
 */
import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import * as z from "zod";
import { Fault, getErrorMessage, type FieldCause } from "./fault.ts";
import { tryParseBool } from "./go-bool.ts";
import { normalizeGoFlags } from "./go-flags.ts";
import { formatDuration, tryParseDuration } from "./go-duration.ts";
import { logLevels } from "./log.ts";
import { versionText } from "./version.ts";

export interface Option<S extends z.ZodType = z.ZodType> {
  readonly schema: S;
  readonly description: string;
  /** Documented variable names, first one wins. The mechanical `COCOON_…` name works as well. */
  readonly env?: readonly string[];
  /** Documented flag name, without dashes, instead of the mechanical one. */
  readonly flag?: string;
  readonly boolean?: boolean;
  /** A variable with a text that cannot be read counts as not set, as in the Go programs. */
  readonly lenientEnv?: boolean;
  readonly secret?: boolean;
}

export type Options = Readonly<Record<string, Option>>;
export type ConfigOf<O extends Options> = { readonly [K in keyof O]: z.output<O[K]["schema"]> };

export interface Program<O extends Options> {
  readonly name: string;
  readonly summary: string;
  readonly options: O;
}

export type ConfigResult<O extends Options> =
  | { readonly kind: "config"; readonly config: ConfigOf<O> }
  | { readonly kind: "print"; readonly text: string };

export interface ConfigInput {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
}

const builtIn = {
  help: { type: "boolean", short: "h" },
  version: { type: "boolean" },
  "print-config": { type: "boolean" },
  config: { type: "string" },
} as const;

/** Reads the configuration, or the text to print for `--help`, `--version` and `--print-config`. */
export function readConfig<O extends Options>(program: Program<O>, input: ConfigInput): ConfigResult<O> {
  const flags = readFlags(program, input.argv);
  if (flags["help"]) return { kind: "print", text: helpText(program) };
  if (flags["version"]) return { kind: "print", text: versionText(program.name) };
  const file = readFile(program, flags["config"]);
  const config = resolve(
    program,
    (key, option) => flags[getFlagName(key, option)] ?? fromEnv(key, option, input.env) ?? file[key],
  );
  if (flags["print-config"]) return { kind: "print", text: printable(program, config) };
  return { kind: "config", config };
}

function resolve<O extends Options>(
  program: Program<O>,
  lookUp: (key: string, option: Option) => unknown,
): ConfigOf<O> {
  const config: Record<string, unknown> = {};
  const causes: FieldCause[] = [];
  for (const [key, option] of Object.entries(program.options)) {
    const parsed = option.schema.safeParse(lookUp(key, option));
    if (parsed.success) config[key] = parsed.data;
    else
      causes.push({
        field: `--${getFlagName(key, option)}`,
        message: parsed.error.issues.map((issue) => issue.message).join("; "),
      });
  }
  if (causes.length > 0) {
    const list = causes.map((cause) => `${cause.field}: ${cause.message}`).join("\n  ");
    throw new Fault("invalid", `${program.name}: bad configuration\n  ${list}`, { causes });
  }
  return Object.freeze(config) as ConfigOf<O>;
}

function readFlags(
  program: Program<Options>,
  argv: readonly string[],
): Record<string, string | boolean | undefined> {
  const known: Record<string, { type: "string" | "boolean"; short?: string }> = { ...builtIn };
  for (const [key, option] of Object.entries(program.options))
    known[getFlagName(key, option)] = { type: "string" };
  const booleans = new Set(
    Object.entries(program.options).flatMap(([key, option]) =>
      option.boolean ? [getFlagName(key, option)] : [],
    ),
  );
  try {
    const args = normalizeGoFlags(argv, {
      isKnown: (name) => Object.hasOwn(known, name),
      isBoolean: (name) => booleans.has(name),
    });
    return parseArgs({ args, options: known, allowPositionals: false }).values;
  } catch (error) {
    throw new Fault("invalid", `${program.name}: ${getErrorMessage(error)}; see ${program.name} --help`, {
      cause: error,
    });
  }
}

function readFile(program: Program<Options>, path: unknown): Readonly<Record<string, unknown>> {
  if (typeof path !== "string") return {};
  let content: unknown;
  try {
    content = JSON.parse(readFileSync(path, "utf8"));
  } catch (error) {
    throw new Fault(
      "invalid",
      `${program.name}: cannot read configuration file ${path}: ${getErrorMessage(error)}`,
      { cause: error },
    );
  }
  const parsed = z.record(z.string(), z.unknown()).safeParse(content);
  if (!parsed.success) throw new Fault("invalid", `${program.name}: ${path} must hold one JSON object`);
  const unknown = Object.keys(parsed.data).filter((key) => !Object.hasOwn(program.options, key));
  if (unknown.length > 0)
    throw new Fault("invalid", `${program.name}: ${path}: unknown keys ${unknown.join(", ")}`);
  return parsed.data;
}

function fromEnv(key: string, option: Option, env: ConfigInput["env"]): string | undefined {
  for (const name of getEnvNames(key, option)) {
    const value = env[name];
    if (value === undefined || value === "") continue;
    if (option.lenientEnv && !option.schema.safeParse(value).success) continue;
    return value;
  }
  return undefined;
}

export function getFlagName(key: string, option: Option): string {
  return option.flag ?? key.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

export function getEnvNames(key: string, option: Option): readonly string[] {
  const mechanical = `COCOON_${key.replaceAll(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`;
  return [...(option.env ?? []), mechanical];
}

function printable(program: Program<Options>, config: Readonly<Record<string, unknown>>): string {
  const shown = Object.entries(config).map(([key, value]) => [
    key,
    program.options[key]?.secret && value ? "***" : value,
  ]);
  return `${JSON.stringify(Object.fromEntries(shown), null, 2)}\n`;
}

function helpText(program: Program<Options>): string {
  const rows = Object.entries(program.options).map(([key, option]) => {
    return `  --${getFlagName(key, option)}\n      ${option.description} (${describeDefault(option)})\n      env: ${getEnvNames(key, option).join(", ")}`;
  });
  const common =
    "  --config FILE\n      read options from a JSON file\n  --print-config\n      show the effective configuration and exit\n  --version\n  --help\n  klog's flags (--v, --logtostderr, …)\n      accepted, no effect";
  return `${program.name}: ${program.summary}\n\nUsage: ${program.name} [flags]\n\nFlags:\n${rows.join("\n")}\n${common}\n`;
}

function describeDefault(option: Option): string {
  return option.schema.safeParse(undefined).success ? `default ${defaultText(option) || "none"}` : "required";
}

/** The default as a person would write it; empty when there is none. Also used by the generated reference. */
export function defaultText(option: Option): string {
  const parsed = option.schema.safeParse(undefined);
  if (!parsed.success || parsed.data === undefined || parsed.data === "") return "";
  if (durations.has(option.schema) && typeof parsed.data === "number") return formatDuration(parsed.data);
  return typeof parsed.data === "string"
    ? parsed.data
    : JSON.stringify(parsed.data).replaceAll(/[[\]"]/g, "");
}

const durations = new WeakSet<z.ZodType>();

/** Schemas for the usual kinds of option; each accepts text (flag, environment) and its native form (file). */
export const optionType = {
  text: (fallback = "") => z.string().default(fallback),
  optionalText: () => z.string().optional(),
  choice: <const T extends readonly [string, ...string[]]>(values: T, fallback: T[number]) =>
    z
      .preprocess(
        (value) => matchIgnoringCase(values, value),
        z.enum(values, { error: `must be one of ${values.join(", ")}` }),
      )
      .default(fallback as never),
  logLevel: (fallback: (typeof logLevels)[number] = "info") => optionType.choice(logLevels, fallback),
  integer: (fallback: number, { min = 0, max = Number.MAX_SAFE_INTEGER } = {}) =>
    z.coerce
      .number({ error: "must be a whole number" })
      .int("must be a whole number")
      .min(min)
      .max(max)
      .default(fallback),
  port: (fallback: number) =>
    z.coerce.number({ error: "must be a port number" }).int().min(0).max(65_535).default(fallback),
  bool: (fallback: boolean) =>
    z.preprocess(readBool, z.boolean({ error: "must be true or false" })).default(fallback),
  list: (fallback: readonly string[] = []) =>
    z.preprocess(readList, z.array(z.string())).default([...fallback]),
  durationMs: (fallbackMs: number) => {
    const schema = z
      .preprocess(readDuration, z.number({ error: "must be a duration such as 500ms, 15s or 1h30m" }))
      .default(fallbackMs);
    durations.add(schema);
    return schema;
  },
} as const;

/** People write INFO as well as info. */
function matchIgnoringCase(values: readonly string[], value: unknown): unknown {
  if (typeof value !== "string") return value;
  return values.find((each) => each.toLowerCase() === value.toLowerCase()) ?? value;
}

function readBool(value: unknown): unknown {
  return typeof value === "string" ? tryParseBool(value) : value;
}

function readList(value: unknown): unknown {
  return typeof value === "string"
    ? value
        .split(",")
        .map((item) => item.trim())
        .filter((item) => item !== "")
    : value;
}

function readDuration(value: unknown): unknown {
  return typeof value === "string" ? tryParseDuration(value) : value;
}
