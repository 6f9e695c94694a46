/**
 * Writes every generated file of the repository: `node scripts/generate.ts`. With `--check` it writes nothing and fails
 * when a file on disk is not what would be written, naming the first line that differs.
 *
 * A new kind of generated file is one more entry of `generators`.
 */
import { globSync } from "node:fs";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { apiReference } from "./generate/api-reference.ts";
import { cliReference } from "./generate/cli-reference.ts";
import { crds } from "./generate/custom-resource-definitions.ts";
import { errorsReference } from "./generate/errors-reference.ts";
import { eventsReference } from "./generate/events-reference.ts";
import { dashboards } from "./generate/dashboards.ts";
import { environmentExamples } from "./generate/environment-examples.ts";
import type { Generator } from "./generate/generator.ts";
import { helmChart } from "./generate/helm-chart.ts";
import { metadataReference } from "./generate/metadata-reference.ts";
import { metricsReference } from "./generate/metrics-reference.ts";
import { settingsReference } from "./generate/settings-reference.ts";
import { namespaceFiles, singleFiles } from "./generate/single-files.ts";

/** In order: the single files are made from what the others wrote. */
const generators: readonly Generator[] = [
  crds,
  metadataReference,
  apiReference,
  settingsReference,
  metricsReference,
  eventsReference,
  errorsReference,
  cliReference,
  environmentExamples,
  dashboards,
  namespaceFiles,
  singleFiles,
  helmChart,
];

const root = join(import.meta.dirname, "..");

/** What a file should be; undefined means that it should not be. */
type Wanted = ReadonlyMap<string, string | undefined>;

async function wantedBy(generator: Generator): Promise<Wanted> {
  const files = await generator.generate();
  const stale = generator.owns.flatMap((pattern) => globSync(pattern, { cwd: root }));
  return new Map([
    ...stale.map((path): [string, undefined] => [path, undefined]),
    ...files.map(({ path, content }): [string, string] => [path, content]),
  ]);
}

async function currentText(path: string): Promise<string | undefined> {
  try {
    return await readFile(join(root, path), "utf8");
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw error;
  }
}

async function write(path: string, content: string | undefined): Promise<void> {
  const target = join(root, path);
  if (content === undefined) return rm(target);
  await mkdir(dirname(target), { recursive: true });
  await writeFile(target, content);
}

function difference(path: string, current: string | undefined, content: string | undefined): string {
  if (current === undefined) return `${path} is missing`;
  if (content === undefined) return `${path} is no longer generated`;
  const [found, wanted] = [current.split("\n"), content.split("\n")];
  const line = wanted.findIndex((text, index) => text !== found[index]);
  const at = line < 0 ? wanted.length : line;
  return `${path}:${at + 1} is "${found[at] ?? ""}", should be "${wanted[at] ?? ""}"`;
}

const check = process.argv.includes("--check");
const differences: string[] = [];
for (const generator of generators) {
  for (const [path, content] of await wantedBy(generator)) {
    const current = await currentText(path);
    if (current === content) continue;
    differences.push(difference(path, current, content));
    if (!check) await write(path, content);
    console.log(check ? differences.at(-1) : `${generator.name}: ${path}`);
  }
}

if (check && differences.length > 0) {
  console.error("generated files are not up to date; run npm run generate");
  process.exitCode = 1;
}
