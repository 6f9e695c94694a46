/** Documents are true where a machine can tell: links lead somewhere, YAML is YAML, objects fit their definitions. */
import assert from "node:assert/strict";
import { existsSync, globSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { test } from "node:test";
import { readDefinitions } from "@cocoon/colocation/testing/manifests";
import { readCocoonHibernation, readCocoonSet } from "@cocoon/contract";
import {
  customResourceDefinitions,
  legacyCustomResourceDefinitions,
  type CustomResourceDefinition,
  type StructuralSchema,
} from "@cocoon/contract/crd";
import { parseAllDocuments } from "yaml";
import { histories } from "./chaos/histories/index.ts";
import { listAnchors, listBlocks, documents, listLinks, type Block } from "./markdown.ts";

const root = join(import.meta.dirname, "..");

test("every relative link leads to a file, and every anchor to a heading", () => {
  const broken = documents().flatMap((document) =>
    listLinks(document).flatMap(({ target, line }) => {
      const problem = findProblem(document, target);
      return problem === undefined ? [] : [`${document}:${line} ${target}: ${problem}`];
    }),
  );
  assert.deepEqual(broken, []);
});

function findProblem(document: string, target: string): string | undefined {
  if (/^[a-z]+:/.test(target)) return undefined;
  const [path = "", anchor] = target.split("#");
  const file = path === "" ? document : normalize(join(dirname(document), path));
  if (!existsSync(join(root, file))) return "there is no such file";
  if (anchor === undefined || !file.endsWith(".md")) return undefined;
  return listAnchors(file).has(anchor) ? undefined : "there is no such heading";
}

test("the tests that the compatibility page names exist, with their titles", () => {
  const page = readFileSync(join(root, "docs/compatibility.md"), "utf8");
  const [, table = ""] = page.split(/^## Moving from the Go stack/m);
  const problems = table.split("\n").flatMap((row) => findMissingTests(row.split("|")[2] ?? ""));
  assert.ok(table.includes("| Promise | Test |"));
  assert.deepEqual(problems, []);
});

/** A title belongs to the file before it; suites may hold it in another file of the same directory. */
function findMissingTests(cell: string): string[] {
  const problems: string[] = [];
  let texts = "";
  for (const [, file, title] of cell.matchAll(/`([^`]+\.ts)`|"([^"]+)"/g)) {
    if (file !== undefined) {
      const path = join(root, /^(packages|test|bench)\//.test(file) ? "." : "test/integration", file);
      if (!existsSync(path)) problems.push(`${file}: there is no such file`);
      texts = globSync(join(dirname(path), "*.ts"))
        .map((each) => readFileSync(each, "utf8"))
        .join("\n");
    } else if (title !== undefined && !texts.includes(title.replace("…", "").trim()))
      problems.push(`"${title}": there is no such test`);
  }
  return problems;
}

test("files that the architecture and the contributor's guide name exist, and a machine's path stays short", () => {
  const named = (text: string) =>
    [...text.matchAll(/`([a-z]+\/src\/[^`]+)`/g)].map((match) => match[1] ?? "");
  const architecture = readFileSync(join(root, "ARCHITECTURE.md"), "utf8");
  const guide = readFileSync(join(root, "CONTRIBUTING.md"), "utf8");
  const missing = [...named(architecture), ...named(guide)].filter(
    (file) => !existsSync(join(root, "packages", file)),
  );
  assert.deepEqual(missing, []);
  const [, create = "", hibernate = ""] = architecture.split(/^### /m);
  assert.ok(create.startsWith("Create") && new Set(named(create)).size <= 60);
  assert.ok(hibernate.startsWith("Hibernate") && new Set(named(hibernate)).size <= 45);
});

test("the tests and histories that the reliability page names exist", () => {
  const page = readFileSync(join(root, "docs/reliability.md"), "utf8");
  const files = [...page.matchAll(/`([\w./-]+\.ts)`/g)].map((match) => match[1] ?? "");
  const missing = files.filter(
    (file) => !["", "packages", "test/integration"].some((base) => existsSync(join(root, base, file))),
  );
  assert.deepEqual(missing, []);
  const named = [...page.matchAll(/\*([a-z0-9]+(?:-[a-z0-9]+)+)\*/g)].map((match) => match[1] ?? "");
  const known = new Set(histories.map(({ name }) => name));
  assert.deepEqual(
    named.filter((name) => !known.has(name)),
    [],
  );
  assert.ok(files.length > 30 && named.length > 10);
});

test("every page of docs/ can be reached from docs/README.md", () => {
  const reached = new Set<string>();
  const queue = ["docs/README.md"];
  for (let page = queue.pop(); page !== undefined; page = queue.pop()) {
    if (reached.has(page)) continue;
    reached.add(page);
    for (const { target } of listLinks(page)) {
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
function listYaml({ language, text }: Block): string[] {
  if (language === "yaml") return [text];
  if (language !== "sh") return [];
  return [...text.matchAll(heredoc)].map((match) => match[2] ?? "").filter((body) => /^kind:/m.test(body));
}

const definitions = new Map(
  [...customResourceDefinitions(), ...legacyCustomResourceDefinitions(), ...readDefinitions()].flatMap(
    (each) => {
      const { spec } = each as unknown as CustomResourceDefinition;
      return spec.versions.map(({ name, schema }): [string, StructuralSchema] => [
        `${String(spec["group"])}/${name} ${(spec["names"] as { kind: string }).kind}`,
        schema.openAPIV3Schema,
      ]);
    },
  ),
);

test("YAML in documents parses, and objects of ours fit their definitions", () => {
  let objects = 0;
  for (const block of documents().flatMap(listBlocks)) {
    for (const text of listYaml(block)) {
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
