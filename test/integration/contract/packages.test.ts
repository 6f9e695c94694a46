/**
 * The packages that others may install: packed, installed in an empty project, and the examples of their READMEs
 * compiled against the installed types and run. The comments in the examples are what they must print.
 */
import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { test } from "node:test";
import { runCommand, temporaryDirectory } from "@cocoon/testkit";
import { startWorld } from "../registry/world.ts";
import { publishable } from "../../../scripts/publishable.ts";

const root = join(import.meta.dirname, "../../..");

interface LockEntry {
  readonly version?: string;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
  readonly link?: boolean;
}
type Lock = Readonly<Record<string, LockEntry>>;

interface Manifest extends LockEntry {
  readonly name: string;
  readonly version: string;
}

const rootLock = (JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")) as { packages: Lock })
  .packages;
const manifests = publishable.map(
  ({ name }) => JSON.parse(readFileSync(join(root, "packages", name, "package.json"), "utf8")) as Manifest,
);

/** Where Node finds a dependency of the package at this place of the lock file. */
function findPlace(dependency: string, from: string): string | undefined {
  for (let place = from; ; place = place.slice(0, Math.max(0, place.lastIndexOf("node_modules/") - 1))) {
    const candidate = `${place === "" ? "" : `${place}/`}node_modules/${dependency}`;
    if (Object.hasOwn(rootLock, candidate)) return candidate;
    if (place === "") return undefined;
  }
}

/** What the tarballs need from the registry, at the versions of our own lock file: nothing is resolved anew. */
function registryLock(): Record<string, LockEntry> {
  const found: Record<string, LockEntry> = {};
  const visit = (dependencies: LockEntry["dependencies"], from: string) => {
    for (const name of Object.keys(dependencies ?? {})) {
      const place = name.startsWith("@cocoon/") ? undefined : findPlace(name, from);
      const entry = place === undefined ? undefined : rootLock[place];
      if (place === undefined || entry === undefined || Object.hasOwn(found, place)) continue;
      found[place] = entry;
      visit(entry.dependencies, place);
    }
  };
  for (const manifest of manifests) visit(manifest.dependencies, "");
  visit({ "@types/node": "" }, "");
  return found;
}

async function prepareProject(directory: string): Promise<void> {
  const tarball = ({ name, version }: Manifest) =>
    `${name.replace("@", "").replace("/", "-")}-${version}.tgz`;
  const dependencies = Object.fromEntries(manifests.map((each) => [each.name, `file:${tarball(each)}`]));
  const types = registryLock()["node_modules/@types/node"]?.version ?? "";
  const manifest = {
    name: "consumer",
    version: "1.0.0",
    type: "module",
    private: true,
    dependencies: { ...dependencies, "@types/node": types },
  };
  const ours = manifests.map((each): [string, LockEntry & { readonly resolved: string }] => [
    `node_modules/${each.name}`,
    { version: each.version, resolved: `file:${tarball(each)}`, dependencies: each.dependencies ?? {} },
  ]);
  const packages = { "": manifest, ...Object.fromEntries(ours), ...registryLock() };
  await writeFile(join(directory, "package.json"), JSON.stringify(manifest, null, 2));
  await writeFile(
    join(directory, "package-lock.json"),
    JSON.stringify(
      { name: "consumer", version: "1.0.0", lockfileVersion: 3, requires: true, packages },
      null,
      2,
    ),
  );
}

interface Example {
  readonly file: string;
  readonly code: string;
  readonly browser: boolean;
  /** The comments behind the calls of console.log. */
  readonly prints: readonly string[];
}

function listExamples(name: string, browser: boolean): Example[] {
  const [readme] = globSync(`packages/${name}/README.md`, { cwd: root });
  if (readme === undefined) return [];
  const blocks = [...readFileSync(join(root, readme), "utf8").matchAll(/^```ts\n([\s\S]*?)^```/gm)];
  return blocks.map(([, code = ""], index) => ({
    file: `${name}-${index}.ts`,
    code,
    browser,
    prints: [...code.matchAll(/console\.log\(.*\); \/\/ (.*)$/gm)].map((match) => match[1] ?? ""),
  }));
}

interface Surroundings {
  readonly cwd: string;
  readonly env?: Readonly<Record<string, string>>;
}

async function run(command: string, args: readonly string[], around: Surroundings): Promise<string> {
  const result = await runCommand(command, args, { ...around, timeoutMs: 300_000 });
  assert.equal(result.code, 0, `${basename(command)} ${args.join(" ")}:\n${result.stdout}${result.stderr}`);
  return result.stdout;
}

const settings = (browser: boolean) => ({
  compilerOptions: {
    target: "ES2024",
    module: "nodenext",
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    skipLibCheck: false,
    // A browser package must be usable without Node, not even its types.
    ...(browser ? { lib: ["ES2024", "DOM"], types: [] } : { lib: ["ES2024"], types: ["node"] }),
    outDir: "../out",
  },
});

test("packed packages install in an empty project, and their examples compile and print what they say", async () => {
  await using directory = await temporaryDirectory();
  await run(process.execPath, [join(root, "scripts/build.ts"), "--pack", directory.path], { cwd: root });
  await prepareProject(directory.path);
  await run("npm", ["ci", "--prefer-offline", "--ignore-scripts", "--no-audit", "--no-fund"], {
    cwd: directory.path,
  });

  const examples = publishable.flatMap(({ name, browser }) => listExamples(name, browser));
  assert.ok(examples.filter((each) => each.file.startsWith("contract-")).length >= 4);
  const tsc = join(root, "node_modules/.bin/tsc");
  for (const browser of [true, false]) {
    const chosen = examples.filter((each) => each.browser === browser);
    if (chosen.length === 0) continue;
    const sources = join(directory.path, browser ? "browser" : "node");
    await mkdir(sources, { recursive: true });
    for (const { file, code } of chosen) await writeFile(join(sources, file), code);
    await writeFile(join(sources, "tsconfig.json"), JSON.stringify(settings(browser)));
    await run(tsc, ["--project", "tsconfig.json"], { cwd: sources });
  }
  await using world = await startWorld();
  const env = { REGISTRY: world.registry.url, REGISTRY_TOKEN: world.client.token ?? "" };
  for (const { file, prints } of examples) {
    const program = join("out", file.replace(/\.ts$/, ".js"));
    const printed = await run(process.execPath, [program], { cwd: directory.path, env });
    assert.ok(prints.length > 0, `${file} shows nothing`);
    assert.deepEqual(printed.trimEnd().split("\n"), prints, file);
  }
});
