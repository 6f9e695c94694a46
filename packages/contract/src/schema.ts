/**
 * Building blocks of the custom resource schemas. Each schema serves twice: zod checks objects with it, and the CRD
 * generator turns it into the OpenAPI schema of the API server, including what `meta` carries for Kubernetes.
 */
import { Fault, type FieldCause } from "@cocoon/core/fault";
import * as z from "zod";

/** A rule the API server evaluates; `message` is what the user reads. */
export interface CelRule {
  readonly rule: string;
  readonly message: string;
  /** Where the error is reported, relative to the schema that carries the rule. */
  readonly fieldPath?: string;
  /** With it `oldSelf` is an optional: the rule also runs when there is no old value. */
  readonly optionalOldSelf?: boolean;
}

export function celRules(...rules: readonly CelRule[]): { "x-kubernetes-validations": readonly CelRule[] } {
  return { "x-kubernetes-validations": rules };
}

export const field = {
  text: (description: string, { max = 1024 } = {}) => z.string().max(max).meta({ description }),
  flag: (description: string) => z.boolean().meta({ description }),
  int32: (description: string, { min, max }: { readonly min?: number; readonly max?: number } = {}) =>
    z
      .int32()
      .min(min ?? -(2 ** 31))
      .max(max ?? 2 ** 31 - 1)
      .meta({ description, format: "int32" }),
  int64: (description: string, { min = Number.MIN_SAFE_INTEGER } = {}) =>
    z.int().min(min).meta({ description, format: "int64" }),
  port: (description: string) => z.int32().min(0).max(65_535).meta({ description, format: "int32" }),
  choice: <const Values extends readonly [string, ...string[]]>(values: Values, description: string) =>
    z.enum(values).meta({ description }),
  timestamp: (description: string) => z.string().meta({ description, format: "date-time" }),
  quantity: (description: string) =>
    z
      .union([z.int(), z.string().regex(quantityPattern)])
      .meta({ description, "x-kubernetes-int-or-string": true }),
  duration: (description: string, { min = "1s" } = {}) =>
    z
      .string()
      .max(32)
      .regex(durationPattern, "must be a duration such as 90s, 30m or 72h")
      .meta({
        description,
        ...celRules({
          // The first half keeps the rule quiet where the pattern has already complained.
          rule: `!self.matches(r'${durationPattern.source}') || duration(self) >= duration('${min}')`,
          message: `must be at least ${min}`,
        }),
      }),
} as const;

/** As the Go systems print it in their CRDs. */
const quantityPattern =
  /^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$/;
/** Go's duration syntax, units from seconds up. */
const durationPattern = /^([0-9]+(\.[0-9]+)?(s|m|h))+$/;

/** Metadata of a custom resource as the API server sends it; the rest of its fields is not our business. */
export interface ObjectMeta {
  readonly name?: string;
  readonly generateName?: string;
  readonly namespace?: string;
  readonly uid?: string;
  readonly resourceVersion?: string;
  readonly generation?: number;
  readonly creationTimestamp?: string;
  readonly deletionTimestamp?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly finalizers?: readonly string[];
  readonly ownerReferences?: readonly {
    readonly apiVersion: string;
    readonly kind: string;
    readonly name: string;
    readonly uid: string;
    readonly controller?: boolean;
    readonly blockOwnerDeletion?: boolean;
  }[];
}

/** Parses at the border: a Fault names every field that is wrong and what would be right. */
export function parseWith<Schema extends z.ZodType>(
  schema: Schema,
  value: unknown,
  what: string,
): z.output<Schema> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const causes = parsed.error.issues.map(toCause);
  const text = causes
    .map(({ field: path, message }) => (path === "" ? message : `${path}: ${message}`))
    .join("; ");
  throw new Fault("invalid", `${what} is not valid: ${text}`, { causes });
}

function toCause(issue: z.core.$ZodIssue): FieldCause {
  const path = issue.path
    .map((part) => (typeof part === "number" ? `[${part}]` : `.${String(part)}`))
    .join("");
  return { field: path.replace(/^\./, ""), message: issue.message };
}

/**
 * Objects stored before a default existed may hold null or "" where a value is missing. Both mean "not set" for every
 * text of our specs, so they are dropped before the schema fills in defaults.
 */
export function withoutBlanks(value: unknown): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).filter(([, member]) => member !== null && member !== ""));
}
