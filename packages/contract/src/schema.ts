/** Building blocks of the custom resource schemas: zod checks objects with them, the CRD generator makes OpenAPI of them. */
import { Fault, type FieldCause } from "@cocoon/core/fault";
import type { Frozen } from "@cocoon/core/frozen";
import type * as meta from "kubernetes-types/meta/v1.d.ts";
import * as z from "zod";

export interface CelRule {
  readonly rule: string;
  readonly message: string;
  readonly fieldPath?: string;
  /** With it `oldSelf` is an optional: the rule also runs when there is no old value. */
  readonly optionalOldSelf?: boolean;
}

export function celRules(...rules: readonly CelRule[]): { "x-kubernetes-validations": readonly CelRule[] } {
  return { "x-kubernetes-validations": rules };
}

interface TextLimits {
  readonly min?: number;
  readonly max?: number;
  readonly pattern?: RegExp;
}

export const field = {
  text: (description: string, { min, max = 1024, pattern }: TextLimits = {}) => {
    const bounded = min === undefined ? z.string().max(max) : z.string().min(min).max(max);
    return (pattern ? bounded.regex(pattern) : bounded).meta({ description });
  },
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
const durationPattern = /^([0-9]+(\.[0-9]+)?(s|m|h))+$/;

export type ObjectMeta = Frozen<meta.ObjectMeta>;

export interface CustomObject<Version extends string, Kind extends string, Spec, Status> {
  readonly apiVersion: Version;
  readonly kind: Kind;
  readonly metadata: ObjectMeta;
  readonly spec: Spec;
  readonly status?: Status | undefined;
}

/** An object from before this rule stays editable, so that it can be deleted. */
export const specRequired: CelRule = {
  rule: "has(self.spec) || (oldSelf.hasValue() && !has(oldSelf.value().spec))",
  message: "spec is required",
  optionalOldSelf: true,
};

interface KindInput<Version extends string, Kind extends string, Spec, Status> {
  readonly apiVersion: Version;
  readonly kind: Kind;
  readonly description: string;
  readonly spec: z.ZodType;
  readonly status: z.ZodType<Status>;
  /** How programs read the spec, where that differs from what the API server checks. */
  readonly readSpec: z.ZodType<Spec>;
  readonly rules?: readonly CelRule[];
}

export const metadataSchema = z.custom<ObjectMeta>(
  (value) => typeof value === "object" && value !== null,
  "is missing",
);

/** A kind: the schema of the whole object for the API server, and the reader, which throws `invalid` and names every wrong field. */
export function defineKind<const Version extends string, const Kind extends string, Spec, Status>(
  input: KindInput<Version, Kind, Spec, Status>,
): {
  readonly schema: z.ZodType;
  readonly read: (object: unknown) => CustomObject<Version, Kind, Spec, Status>;
} {
  const { apiVersion, kind, description, spec, status, readSpec, rules = [] } = input;
  const schema = z
    .object({
      spec: spec.meta({ description: "What is wanted." }).optional(),
      status: status.meta({ description: "What was found; written by the operator." }).optional(),
    })
    .meta({ description, ...(rules.length === 0 ? {} : celRules(...rules)) });
  const reading = z.object({ metadata: metadataSchema, spec: readSpec, status: status.nullish() });
  const what = apiVersion.endsWith("/v1") ? kind : `${kind} of ${apiVersion}`;
  const read = (object: unknown) => {
    const { status: found, ...rest } = parseWith(reading, object, what);
    return { apiVersion, kind, ...rest, ...(found ? { status: found } : {}) };
  };
  return { schema, read };
}

/** Parses at the boundary: a Fault names every field that is wrong and what would be right. */
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

/** Stored objects may hold null or "" where a value is missing: dropped before the schema fills in defaults. */
export function withoutBlanks(value: unknown): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).filter(([, member]) => member !== null && member !== ""));
}
