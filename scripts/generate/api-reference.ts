/** docs/reference/api.md: every field of every object, from the definitions that the API server gets. */
import {
  customResourceDefinitions,
  legacyCustomResourceDefinitions,
  podSnapshotCustomResourceDefinitions,
  sandboxCustomResourceDefinitions,
  type CustomResourceDefinition,
  type StructuralSchema,
} from "@cocoon/contract/crd";
import type { Generator } from "./generator.ts";
import { code, notice, table } from "./markdown.ts";

const path = "docs/reference/api.md";

export const apiReference: Generator = {
  name: "API reference",
  owns: [path],
  generate: () => {
    const current = customResourceDefinitions().map(section);
    const older = legacyCustomResourceDefinitions().map(section);
    const sandboxes = [...sandboxCustomResourceDefinitions(), ...podSnapshotCustomResourceDefinitions()].map(
      section,
    );
    const content = `${notice("packages/contract")}${intro}${current.join("")}${legacyIntro}${older.join("")}${sandboxIntro}${sandboxes.join("")}`;
    return [{ path, content }];
  },
};

const intro = `# API

Group \`cocoonset.cocoonstack.io/v1\`. A field with \`*\` is required; one with a default may be left out. The rules are checked by the API
server itself, before any webhook. What pods, nodes and workloads carry as labels and annotations is in
[contract.md](../contract.md).
`;

const legacyIntro = `
# The older API

Group \`cocoon.cis/v1alpha1\`, served through a bridge where it is installed; see [migrating-from-go.md](../migrating-from-go.md).
`;

const sandboxIntro = `
# agent-sandbox

Served by cocoon-operator on request, where the controller of kubernetes-sigs/agent-sandbox is not installed; see
[agent-sandbox.md](../how-to/agent-sandbox.md).
`;

interface Names {
  readonly kind: string;
  readonly plural: string;
  readonly shortNames?: readonly string[];
}

function section({ metadata, spec }: CustomResourceDefinition): string {
  const [version] = spec.versions;
  const names = spec["names"] as Names;
  const schema = version?.schema.openAPIV3Schema;
  if (!version || !schema) throw new Error(`${metadata.name} has no schema`);
  const short = (names.shortNames ?? []).map(code).join(", ");
  const { rows, rules } = walk(schema, "");
  const head = `\n## ${names.kind}\n\n${code(`${String(spec["group"])}/${version.name}`)}, plural ${code(names.plural)}${short ? `, short ${short}` : ""}.\n\n`;
  const ruleText =
    rules.length === 0 ? "" : `\nRules across fields:\n\n${rules.map((rule) => `- ${rule}\n`).join("")}`;
  return `${head}${table(["Field", "Type", "Meaning"], rows)}${ruleText}`;
}

interface Walked {
  readonly rows: (readonly string[])[];
  readonly rules: string[];
}

/** Metadata and the two type fields are every object's, so they are left out. */
const commonFields = new Set(["apiVersion", "kind", "metadata"]);

function walk(schema: StructuralSchema, prefix: string): Walked {
  const walked: Walked = { rows: [], rules: listRules(schema, prefix) };
  for (const [name, child] of Object.entries(schema.properties ?? {})) {
    if (prefix === "" && commonFields.has(name)) continue;
    const required = schema.required?.includes(name) ? "*" : "";
    const field = `${prefix === "" ? "" : `${prefix}.`}${name}${child.type === "array" ? "[]" : ""}`;
    walked.rows.push([`${code(field)}${required}`, describeType(child), describeMeaning(child)]);
    const below = walk(child.items?.properties ? child.items : child, field);
    walked.rows.push(...below.rows);
    walked.rules.push(...below.rules);
  }
  return walked;
}

function listRules(schema: StructuralSchema, prefix: string): string[] {
  const rules = schema["x-kubernetes-validations"];
  if (!Array.isArray(rules)) return [];
  return rules.map(
    ({ message }: { message?: string }) => `${prefix === "" ? "" : `${code(prefix)}: `}${message ?? ""}`,
  );
}

function describeType(schema: StructuralSchema): string {
  if (schema["x-kubernetes-int-or-string"]) return "number or text";
  if (schema.type === "array") return `list of ${schema.items ? describeType(schema.items) : "anything"}`;
  if (schema.additionalProperties) return `map to ${describeType(schema.additionalProperties)}`;
  return schema.type ?? "anything";
}

function describeMeaning(schema: StructuralSchema): string {
  const values = schema.enum ?? schema.items?.enum;
  const parts = [
    schema.description ?? "",
    values ? `One of ${values.map((value) => code(value === "" ? '""' : value)).join(", ")}.` : "",
    schema.default === undefined ? "" : `Default ${code(JSON.stringify(schema.default))}.`,
    describeBounds(schema),
  ];
  return parts.filter((part) => part !== "").join(" ");
}

function describeBounds({ minimum, maximum, maxItems }: StructuralSchema): string {
  if (maxItems !== undefined) return `At most ${maxItems}.`;
  if (minimum !== undefined && maximum !== undefined) return `${minimum} to ${maximum}.`;
  if (minimum !== undefined) return `At least ${minimum}.`;
  return maximum === undefined ? "" : `At most ${maximum}.`;
}
