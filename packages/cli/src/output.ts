/** `-o`: a table for people, JSON and YAML for programs. */
import { Fault } from "@cocoon/core/fault";

const outputFormats = ["table", "wide", "json", "yaml", "name"] as const;
export type OutputFormat = (typeof outputFormats)[number];

export function readFormat(text: string, allowed: readonly OutputFormat[] = outputFormats): OutputFormat {
  const format = allowed.find((each) => each === text);
  if (format) return format;
  throw new Fault("badRequest", `-o ${text}: use ${allowed.join(", ")}`);
}

export async function serialize(format: "json" | "yaml", value: unknown): Promise<string> {
  if (format === "json") return `${JSON.stringify(value, null, 2)}\n`;
  const { stringify } = await import("yaml");
  return stringify(value, { aliasDuplicateObjects: false, lineWidth: 0, compat: "yaml-1.1" });
}

/** `managedFields` is of no use to readers and longer than the rest. */
export function withoutManagedFields<T extends { readonly metadata: object }>(object: T): T {
  const { managedFields: _dropped, ...metadata } = object.metadata as { managedFields?: unknown };
  return { ...object, metadata };
}

/** 12 digits are enough to tell snapshots apart. */
export function shortDigest(digest: string): string {
  return digest.replace(/^([a-z0-9]+:[0-9a-f]{12})[0-9a-f]+$/, "$1");
}
