/** Documents are true where a machine can tell: links lead somewhere, YAML is YAML, objects fit their definitions. */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { test } from "node:test";
import { colocationManifests } from "@cocoon/colocation";
import { readCocoonHibernation, readCocoonSet } from "@cocoon/contract";
import {
  customResourceDefinitions,
  legacyCustomResourceDefinitions,
  type CustomResourceDefinition,
  type StructuralSchema,
} from "@cocoon/contract/crd";
import { parseAllDocuments } from "yaml";
import { anchorsOf, blocksOf, documents, linksOf, type Block } from "./markdown.ts";

const root = join(import.meta.dirname, "..");

test("every relative link leads to a file, and every anchor to a heading", () => {
  const broken = documents().flatMap((document) =>
    linksOf(document).flatMap(({ target, line }) => {
      const problem = problemOf(document, target);
      return problem === undefined ? [] : [`${document}:${line} ${target}: ${problem}`];
    }),
  );
  assert.deepEqual(broken, []);
});

function problemOf(document: string, target: string): string | undefined {
  if (/^[a-z]+:/.test(target)) return undefined;
  const [path = "", anchor] = target.split("#");
  const file = path === "" ? document : normalize(join(dirname(document), path));
  if (!existsSync(join(root, file))) return "there is no such file";
  if (anchor === undefined || !file.endsWith(".md")) return undefined;
  return anchorsOf(file).has(anchor) ? undefined : "there is no such heading";
}

test("every page of docs/ can be reached from docs/README.md", () => {
  const reached = new Set<string>();
  const queue = ["docs/README.md"];
  for (let page = queue.pop(); page !== undefined; page = queue.pop()) {
    if (reached.has(page)) continue;
    reached.add(page);
    for (const { target } of linksOf(page)) {
      const file = normalize(join(dirname(page), target.split("#")[0] ?? ""));
      if (file.startsWith("docs/") && file.endsWith(".md") && existsSync(join(root, file))) queue.push(file);
    }
  }
  assert.deepEqual(
    documents().filter((page) => /^docs\/(?!decisions\/)/.test(page) && !reached.has(page)),
    [],
  );
});

const heredoc = /<<-?'?(\w+)'?[^\n]*\n([\s\S]*?)\n\s*\1(?:\n|$)/g;

/** YAML blocks, and YAML that a command line is fed with. */
function yamlOf({ language, text }: Block): string[] {
  if (language === "yaml") return [text];
  if (language !== "sh") return [];
  return [...text.matchAll(heredoc)].map((match) => match[2] ?? "").filter((body) => /^kind:/m.test(body));
}

const definitions = new Map(
  [
    ...customResourceDefinitions(),
    ...legacyCustomResourceDefinitions(),
    ...Object.values(colocationManifests())
      .flat()
      .filter((manifest) => "kind" in manifest && manifest.kind === "CustomResourceDefinition"),
  ].flatMap((each) => {
    const { spec } = each as CustomResourceDefinition;
    return spec.versions.map(({ name, schema }): [string, StructuralSchema] => [
      `${String(spec["group"])}/${name} ${(spec["names"] as { kind: string }).kind}`,
      schema.openAPIV3Schema,
    ]);
  }),
);

test("YAML in documents parses, and objects of ours fit their definitions", () => {
  let objects = 0;
  for (const block of documents().flatMap(blocksOf)) {
    for (const text of yamlOf(block)) {
      for (const parsed of parseAllDocuments(text)) {
        const where = `${block.document}:${block.line}`;
        assert.deepEqual(parsed.errors, [], where);
        objects += check(parsed.toJS(), where);
      }
    }
  }
  assert.ok(
    objects >= 10,
    `only ${objects} objects were found: are they still looked for in the right place?`,
  );
});

/** How many objects of ours were checked. */
function check(object: unknown, where: string): number {
  if (typeof object !== "object" || object === null || !("kind" in object) || !("apiVersion" in object))
    return 0;
  const schema = definitions.get(`${String(object.apiVersion)} ${String(object.kind)}`);
  if (!schema) {
    assert.doesNotMatch(String(object.apiVersion), /cocoon|koordinator/, `${where}: no such API`);
    return 0;
  }
  assert.deepEqual(misfits(object, schema, ""), [], where);
  if (object.apiVersion === "cocoonset.cocoonstack.io/v1") {
    const given = "metadata" in object && typeof object.metadata === "object" ? object.metadata : {};
    const whole = { ...object, metadata: { namespace: "default", ...given } };
    if (object.kind === "CocoonSet") readCocoonSet(whole);
    if (object.kind === "CocoonHibernation") readCocoonHibernation(whole);
  }
  return 1;
}

/** What the API server would say: fields that are not defined, missing ones, values that are not among the choices. */
function misfits(value: unknown, schema: StructuralSchema, at: string): string[] {
  if (schema.enum && !schema.enum.includes(String(value))) return [`${at}: ${String(value)} is not a choice`];
  if (Array.isArray(value))
    return value.flatMap((item, index) =>
      schema.items ? misfits(item, schema.items, `${at}[${index}]`) : [],
    );
  if (typeof value !== "object" || value === null) return [];
  const { properties, additionalProperties } = schema;
  const missing = (schema.required ?? [])
    .filter((name) => !(name in value))
    .map((name) => `${at}.${name} is missing`);
  const below = Object.entries(value).flatMap(([name, child]) => {
    if (at === "" && ["apiVersion", "kind", "metadata"].includes(name)) return [];
    const next = properties?.[name] ?? additionalProperties;
    if (next) return misfits(child, next, `${at}.${name}`);
    const open = schema["x-kubernetes-preserve-unknown-fields"] === true || !properties;
    return open ? [] : [`${at}.${name} is not defined`];
  });
  return [...missing, ...below];
}
