/**
 * A release below one directory:
 *
 *   cocoon-VERSION/                  bundles, for hosts with Node 26: bin/NAME -> ../lib/cocoon/start/NAME.mjs
 *   cocoon-VERSION-linux-x64/        one executable with Node inside: bin/NAME -> ../lib/cocoon/cocoon-suite
 *   cocoon-VERSION*.tar.gz           each of them, to be unpacked in /usr/local; `cocoon` itself is in lib/cocoon/bin/
 *   sbom.cdx.json LICENSES.txt       what is inside, and under which licences
 *   SHA256SUMS                       of the files above
 */
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { cp, mkdir, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { arch } from "node:os";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { bundle, suiteSource, type BuildInfo } from "./bundle.ts";
import { licences, softwareBill } from "./notices.ts";
import { buildPage } from "./web.ts";
import { findBundle, companions, notInPath, programs, suiteName } from "./programs.ts";

const root = join(import.meta.dirname, "../..");

export const releaseKinds = ["bundles", "executable", "notices"] as const;
export type ReleaseKind = (typeof releaseKinds)[number];

export interface ReleaseOptions {
  readonly directory: string;
  /** Pack each tree into an archive, too. */
  readonly archives: boolean;
}

/** Returns the trees that it made. */
export async function buildRelease(
  kinds: readonly ReleaseKind[],
  { directory, archives }: ReleaseOptions,
): Promise<readonly string[]> {
  if (kinds.length === 0) return [];
  await mkdir(directory, { recursive: true });
  const info = await buildInfo();
  const name = `cocoon-${info.version}`;
  const trees: string[] = [];
  if (kinds.includes("bundles")) trees.push(await buildBundles(join(directory, name), info));
  if (kinds.includes("executable"))
    trees.push(await buildExecutable(join(directory, `${name}-linux-${arch()}`), info));
  if (archives) for (const tree of trees) pack(tree);
  if (kinds.includes("notices")) {
    await writeFile(join(directory, "sbom.cdx.json"), softwareBill());
    await writeFile(join(directory, "LICENSES.txt"), await licences());
  }
  await writeSums(directory);
  return trees;
}

async function buildInfo(): Promise<BuildInfo> {
  const { version } = JSON.parse(await readFile(join(root, "package.json"), "utf8")) as BuildInfo;
  const epoch = process.env["SOURCE_DATE_EPOCH"];
  const builtAt = new Date(epoch === undefined ? Date.now() : Number(epoch) * 1_000).toISOString();
  return { version, revision: process.env["COCOON_REVISION"] ?? revision(), builtAt };
}

/** An unpacked archive has no history; COCOON_REVISION says it then. */
function revision(): string {
  try {
    const git = (...args: readonly string[]) =>
      execFileSync("git", args, { cwd: root, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();
    const head = git("rev-parse", "--short=12", "HEAD");
    return git("status", "--porcelain", "--untracked-files=no") === "" ? head : `${head}-dirty`;
  } catch {
    return "unknown";
  }
}

async function buildBundles(tree: string, info: BuildInfo): Promise<string> {
  const library = await startTree(tree);
  const entries = Object.fromEntries(Object.entries(programs).filter(([name]) => findBundle(name) === name));
  await bundle(entries, { info, flavour: "bundles", directory: library });
  await mkdir(join(library, "start"));
  for (const [name, path] of Object.entries(programs))
    await writeFile(join(library, "start", `${name}.mjs`), await starter(name, path), { mode: 0o755 });
  return finishTree(tree, (name) => `start/${name}.mjs`);
}

/**
 * A file cannot keep what was compiled of itself, so a smaller one begins: the second start takes half the time. What was
 * compiled is kept where only its user writes.
 */
async function starter(name: string, path: string): Promise<string> {
  const [first = ""] = (await readFile(join(root, path), "utf8")).split("\n");
  const interpreter = first.startsWith("#!") ? first : "#!/usr/bin/env node";
  return `${interpreter}
import * as nodeModule from "node:module";
import { homedir } from "node:os";
import { join } from "node:path";
if (Number(process.versions.node.split(".")[0]) < 26) {
  process.stderr.write("${name} needs Node 26 or newer; this is " + process.version + "\\n");
  process.exit(1);
}
const { COCOON_CACHE, XDG_CACHE_HOME } = process.env;
nodeModule.enableCompileCache(join(COCOON_CACHE ?? join(XDG_CACHE_HOME ?? join(homedir(), ".cache"), "cocoon"), "compiled"));
await import("../${findBundle(name)}.mjs");
`;
}

async function buildExecutable(tree: string, info: BuildInfo): Promise<string> {
  const library = await startTree(tree);
  await bundle({ source: suiteSource() }, { info, flavour: "executable", directory: library });
  const main = join(library, "stdin.mjs");
  const settings = join(library, "sea.json");
  await writeFile(
    settings,
    JSON.stringify({
      main,
      mainFormat: "module",
      useCodeCache: true,
      output: join(library, suiteName),
      disableExperimentalSEAWarning: true,
      // Most of what a part allocates dies at once: a small young generation keeps its memory small. NODE_OPTIONS adds to it.
      execArgv: ["--max-semi-space-size=4"],
      execArgvExtension: "env",
    }),
  );
  execFileSync(process.execPath, ["--build-sea", settings], { stdio: ["ignore", "ignore", "inherit"] });
  await Promise.all([rm(main), rm(settings)]);
  return finishTree(tree, () => suiteName);
}

/** Returns lib/cocoon of an empty tree, with what programs read beside them. */
async function startTree(tree: string): Promise<string> {
  const library = join(tree, "lib/cocoon");
  await rm(tree, { recursive: true, force: true });
  await mkdir(library, { recursive: true });
  for (const [name, source] of Object.entries(companions))
    await cp(join(root, source), join(library, name), { recursive: true });
  await cp(join(root, "packaging"), join(library, "packaging"), { recursive: true });
  await cp(await buildPage(), join(library, "dashboard"), { recursive: true });
  return library;
}

async function finishTree(tree: string, target: (program: string) => string): Promise<string> {
  await mkdir(join(tree, "bin"));
  await mkdir(join(tree, "lib/cocoon/bin"));
  for (const program of Object.keys(programs))
    await (notInPath.has(program)
      ? symlink(`../${target(program)}`, join(tree, "lib/cocoon/bin", program))
      : symlink(`../lib/cocoon/${target(program)}`, join(tree, "bin", program)));
  await mkdir(join(tree, "share/doc/cocoon"), { recursive: true });
  await cp(join(root, "LICENSE"), join(tree, "share/doc/cocoon/LICENSE"));
  await writeFile(join(tree, "share/doc/cocoon/LICENSES.txt"), await licences());
  console.log(`built ${tree}`);
  return tree;
}

/** Names inside begin at bin/, lib/ and share/; owner and order do not depend on who builds. */
function pack(tree: string): void {
  // Hardly anything is won by packing tighter, and it would take longer than all the rest.
  const settings = ["--sort=name", "--owner=0", "--group=0", "--use-compress-program=gzip -1"];
  execFileSync("tar", [...settings, "-C", tree, "-cf", `${tree}.tar.gz`, "bin", "lib", "share"]);
}

async function writeSums(directory: string): Promise<void> {
  const lines: string[] = [];
  for (const entry of (await readdir(directory, { withFileTypes: true })).toSorted((a, b) =>
    a.name < b.name ? -1 : 1,
  )) {
    if (!entry.isFile() || entry.name === "SHA256SUMS") continue;
    const hash = createHash("sha256");
    await pipeline(createReadStream(join(directory, entry.name)), hash);
    lines.push(`${hash.digest("hex")}  ${entry.name}\n`);
  }
  await writeFile(join(directory, "SHA256SUMS"), lines.join(""));
}
