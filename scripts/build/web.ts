/**
 * The page of the dashboard, bundled by esbuild below node_modules/.cache/dashboard: once for each state of its sources. `current`
 * leads to the one of the sources as they are.
 */
import { createHash } from "node:crypto";
import { existsSync, globSync, readFileSync, renameSync, rmSync, symlinkSync } from "node:fs";
import { cp, mkdir, readFile, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { build } from "esbuild";

const root = join(import.meta.dirname, "../..");
const web = join(root, "packages/dashboard/web");
const cache = join(root, "node_modules/.cache/dashboard");
const inputs = [
  "packages/dashboard/web/**",
  "packages/dashboard/src/shared/*.ts",
  "packages/contract/src/screen.ts",
  "package-lock.json",
  "scripts/build/web.ts",
];

function fingerprint(): string {
  const hash = createHash("sha256");
  const files = inputs.flatMap((pattern) => globSync(pattern, { cwd: root, withFileTypes: true }));
  for (const file of files.filter((each) => each.isFile())) {
    const path = join(file.parentPath, file.name);
    hash.update(`${path.slice(root.length)}\n`).update(readFileSync(path));
  }
  return hash.digest("hex").slice(0, 16);
}

/** The directory of the built page; builds it where there is none of these sources yet. */
export async function buildPage(): Promise<string> {
  const built = join(cache, fingerprint());
  if (!existsSync(built)) {
    const draft = `${built}.${process.pid}`;
    await mkdir(cache, { recursive: true });
    await bundlePage(draft);
    try {
      renameSync(draft, built);
    } catch (error) {
      if (!existsSync(built)) throw error; // another process was quicker
      rmSync(draft, { recursive: true, force: true });
    }
  }
  const link = `${join(cache, "current")}.${process.pid}`;
  symlinkSync(built, link);
  renameSync(link, join(cache, "current"));
  return built;
}

/** The entry, what it loads on demand, and the page that names the entry's files, which carry a hash of their content. */
async function bundlePage(directory: string): Promise<void> {
  const { metafile } = await build({
    entryPoints: [join(web, "src/main.tsx")],
    outdir: join(directory, "assets"),
    entryNames: "[name]-[hash]",
    chunkNames: "[name]-[hash]",
    bundle: true,
    splitting: true,
    minify: true,
    format: "esm",
    target: "es2024",
    jsx: "automatic",
    define: { "process.env.NODE_ENV": '"production"' },
    legalComments: "none", // the licences are a file of their own
    metafile: true,
    logLevel: "error",
  });
  const names = Object.keys(metafile.outputs).map((path) => basename(path));
  const find = (pattern: RegExp) => names.find((name) => pattern.test(name)) ?? "";
  const html = (await readFile(join(web, "index.html"), "utf8"))
    .replace("/src/main.tsx", `/assets/${find(/^main-.*\.js$/)}`)
    .replace("/src/style.css", `/assets/${find(/^main-.*\.css$/)}`);
  await writeFile(join(directory, "index.html"), html);
  await cp(join(web, "public"), directory, { recursive: true });
}
