/**
 * Packages that others may install. Inside the repository Node runs our TypeScript as it is, but it refuses to do so below
 * node_modules. So each package is staged in dist/npm/NAME with JavaScript, declarations, and a manifest whose exports
 * point at them; tarballs are made from there. What is exported under `/testing` is for this repository and stays out.
 */
import { execFileSync } from "node:child_process";
import { cpSync, existsSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { publishable } from "../publishable.ts";

const root = join(import.meta.dirname, "../..");
const stages = join(root, "dist/npm");

interface Manifest {
  readonly name: string;
  readonly exports: Readonly<Record<string, string>>;
  readonly devDependencies?: unknown;
  readonly scripts?: unknown;
  readonly private?: unknown;
}

function buildManifest(name: string): Manifest {
  return JSON.parse(readFileSync(join(root, "packages", name, "package.json"), "utf8")) as Manifest;
}

function publicExports(manifest: Manifest): [subpath: string, source: string][] {
  return Object.entries(manifest.exports).filter(([subpath]) => !subpath.endsWith("/testing"));
}

/** `./src/crd/index.ts` is compiled to `./dist/crd/index` with `.js` and `.d.ts`. */
function compiled(source: string): string {
  return source.replace(/^\.\/src\//, "./dist/").replace(/\.ts$/, "");
}

/** Other packages are seen through what was built of them, as an installation will see them. */
function builtPaths(): Record<string, string[]> {
  const entries = publishable.flatMap(({ name }) => {
    const manifest = buildManifest(name);
    return publicExports(manifest).map(([subpath, source]): [string, string[]] => [
      `${manifest.name}${subpath.slice(1)}`,
      [`${join(stages, name, compiled(source))}.d.ts`],
    ]);
  });
  return Object.fromEntries(entries);
}

function compile(name: string): void {
  const sources = join(root, "packages", name, "src");
  const project = join(stages, `${name}.tsconfig.json`);
  const settings = {
    extends: join(root, "tsconfig.json"),
    compilerOptions: {
      noEmit: false,
      declaration: true,
      rewriteRelativeImportExtensions: true,
      rootDir: sources,
      outDir: join(stages, name, "dist"),
      typeRoots: [join(root, "node_modules/@types")],
      paths: builtPaths(),
    },
    include: [`${sources}/**/*.ts`],
    exclude: [`${sources}/**/*.test.ts`, `${sources}/**/testing/**`],
  };
  writeFileSync(project, `${JSON.stringify(settings, null, 2)}\n`);
  execFileSync(join(root, "node_modules/.bin/tsc"), ["--project", project], { cwd: root, stdio: "inherit" });
}

/** The compiler rewrites `./x.ts` in JavaScript but leaves it in declarations, where not every tool understands it. */
function rewriteDeclarationImports(name: string): void {
  const directory = join(stages, name, "dist");
  for (const file of globSync("**/*.d.ts", { cwd: directory })) {
    const path = join(directory, file);
    const text = readFileSync(path, "utf8");
    writeFileSync(path, text.replaceAll(/((?:from|import)\s*\(?\s*"\.{1,2}\/[^"]+)\.ts"/g, '$1.js"'));
  }
}

/** A worker is named by its file, which the compiler does not see. */
function rewriteWorkerFiles(name: string): void {
  const directory = join(stages, name, "dist");
  for (const file of globSync("**/*.js", { cwd: directory })) {
    const path = join(directory, file);
    const text = readFileSync(path, "utf8");
    writeFileSync(
      path,
      text.replaceAll(/(new URL\("\.\/[^"]+)\.ts", import\.meta\.url\)/g, '$1.js", import.meta.url)'),
    );
  }
}

function stage(name: string): void {
  const target = join(stages, name);
  const { devDependencies: _tools, scripts: _scripts, private: _private, ...manifest } = buildManifest(name);
  const exports = publicExports(manifest).map(([subpath, source]): [string, object] => [
    subpath,
    { types: `${compiled(source)}.d.ts`, default: `${compiled(source)}.js` },
  ]);
  const published = { ...manifest, files: ["dist"], exports: Object.fromEntries(exports) };
  writeFileSync(join(target, "package.json"), `${JSON.stringify(published, null, 2)}\n`);
  cpSync(join(root, "LICENSE"), join(target, "LICENSE"));
  const readme = join(root, "packages", name, "README.md");
  if (existsSync(readme)) cpSync(readme, join(target, "README.md"));
}

/** Stages all of them; with `pack`, tarballs go there. */
export function buildPackages(pack: string | undefined): void {
  rmSync(stages, { recursive: true, force: true });
  for (const { name } of publishable) {
    mkdirSync(join(stages, name), { recursive: true });
    compile(name);
    rewriteDeclarationImports(name);
    rewriteWorkerFiles(name);
    stage(name);
    console.log(`built dist/npm/${name}`);
    if (pack === undefined) continue;
    const destination = resolve(pack);
    mkdirSync(destination, { recursive: true });
    execFileSync("npm", ["pack", "--silent", "--pack-destination", destination], {
      cwd: join(stages, name),
      stdio: ["ignore", "inherit", "inherit"],
    });
  }
}
