/** From zod to a structural schema: no references, no unions except int-or-string, formats instead of type bounds. */
import * as z from "zod";

/** One node of the schema, with the members that our definitions use. */
export interface StructuralSchema {
  readonly description?: string;
  readonly type?: "object" | "array" | "string" | "integer" | "number" | "boolean";
  readonly format?: string;
  readonly default?: unknown;
  readonly enum?: readonly string[];
  readonly pattern?: string;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly anyOf?: readonly StructuralSchema[];
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, StructuralSchema>>;
  readonly additionalProperties?: StructuralSchema;
  readonly items?: StructuralSchema;
  readonly [extension: `x-kubernetes-${string}`]: unknown;
}

export function structuralSchema(schema: z.ZodType): StructuralSchema {
  const generated = z.toJSONSchema(schema, { io: "input", target: "openapi-3.0", unrepresentable: "throw" });
  return cleaned(generated as Node);
}

type Node = { readonly [Key in keyof StructuralSchema]: StructuralSchema[Key] } & {
  readonly $schema?: string;
};

/** Members in the order a reader wants them; what is not listed here must not occur. */
const order = [
  "description",
  "type",
  "format",
  "anyOf",
  "default",
  "enum",
  "pattern",
  "minLength",
  "maxLength",
  "minimum",
  "maximum",
  "minItems",
  "maxItems",
  "x-kubernetes-int-or-string",
  "x-kubernetes-list-type",
  "x-kubernetes-list-map-keys",
  "x-kubernetes-map-type",
  "x-kubernetes-preserve-unknown-fields",
  "x-kubernetes-validations",
  "required",
  "properties",
  "additionalProperties",
  "items",
] as const;

function cleaned(node: Node): StructuralSchema {
  const parts = plain(node);
  const unknown = Object.keys(parts).filter((key) => !(order as readonly string[]).includes(key));
  if (parts.anyOf && !parts["x-kubernetes-int-or-string"]) unknown.push("anyOf");
  if (unknown.length > 0) throw new Error(`a structural schema has no ${unknown.join(", ")}`);
  const members = order.flatMap((key): [string, unknown][] => {
    const value = parts[key];
    return value === undefined ? [] : [[key, cleanedMember(key, value)]];
  });
  return Object.fromEntries(members);
}

function cleanedMember(key: (typeof order)[number], value: unknown): unknown {
  switch (key) {
    case "properties":
      return Object.fromEntries(
        Object.entries(value as Record<string, Node>).map(([name, child]) => [name, cleaned(child)]),
      );
    case "items":
    case "additionalProperties":
      return cleaned(value as Node);
    case "pattern":
      return String(value).replaceAll("\\/", "/");
    default:
      return value;
  }
}

function plain(node: Node): Node {
  if (node["x-kubernetes-int-or-string"]) return intOrString(node);
  if (!node["x-kubernetes-preserve-unknown-fields"]) return withoutTypeBounds(node);
  const { additionalProperties: _anything, properties: _none, ...open } = node;
  return open;
}

/** Kubernetes wants bare types in the union and the pattern beside it. */
function intOrString(node: Node): Node {
  const pattern = node.anyOf?.find((branch) => branch.type === "string")?.pattern;
  return {
    ...node,
    anyOf: [{ type: "integer" }, { type: "string" }],
    ...(pattern === undefined ? {} : { pattern }),
  };
}

const typeBounds = new Set([-(2 ** 31), 2 ** 31 - 1, Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER]);

/** `format` says what the bounds of int32 and int64 would repeat. */
function withoutTypeBounds(node: Node): Node {
  const { minimum, maximum, ...rest } = node;
  return {
    ...rest,
    ...(minimum === undefined || typeBounds.has(minimum) ? {} : { minimum }),
    ...(maximum === undefined || typeBounds.has(maximum) ? {} : { maximum }),
  };
}
