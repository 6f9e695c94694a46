/** The package runs in a browser: nothing it loads may be a module of Node, directly or through others. */
import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { test } from "node:test";

const packages = join(import.meta.dirname, "../..");

interface PackageJson {
  readonly exports: Readonly<Record<string, string>>;
}

function readExports(name: string): Readonly<Record<string, string>> {
  return (JSON.parse(readFileSync(join(packages, name, "package.json"), "utf8")) as PackageJson).exports;
}

/** The file behind a specifier; undefined for packages from the registry. */
function resolve(specifier: string, from: string): string | undefined {
  if (specifier.startsWith(".")) return join(dirname(from), specifier);
  if (!specifier.startsWith("@cocoon/")) return undefined;
  const [, name = "", ...rest] = specifier.split("/");
  const target = readExports(name)[rest.length === 0 ? "." : `./${rest.join("/")}`];
  assert.ok(target, `${from} imports ${specifier}, which is not exported`);
  return join(packages, name, target);
}

/** Type-only imports vanish before anything runs. */
const imports =
  /^(?:import|export)\s+(?!type\b)[^"';]*?from\s+"([^"]+)"|^import\s+"([^"]+)"|\bimport\("([^"]+)"\)/gm;

function load(file: string, seen: Map<string, string[]>): void {
  if (seen.has(file)) return;
  const specifiers = [...readFileSync(file, "utf8").matchAll(imports)].map(
    (match) => match.slice(1).find(Boolean) ?? "",
  );
  seen.set(file, specifiers);
  for (const specifier of specifiers) {
    const target = resolve(specifier, file);
    if (target) load(target, seen);
  }
}

test("no entry reaches a module of Node", () => {
  for (const [subpath, target] of Object.entries(readExports("contract"))) {
    const seen = new Map<string, string[]>();
    load(join(packages, "contract", target), seen);
    assert.ok(seen.size > 0);
    const outside = [...seen].flatMap(([file, specifiers]) =>
      specifiers
        .filter(
          (specifier) =>
            !specifier.startsWith(".") && !specifier.startsWith("@cocoon/") && specifier !== "zod",
        )
        .map((specifier) => `${relative(packages, file)} imports ${specifier}`),
    );
    assert.deepEqual(outside, [], `@cocoon/contract${subpath.slice(1)}`);
  }
});

test("no source uses a global that browsers lack", () => {
  const sources = globSync("contract/src/**/*.ts", { cwd: packages }).filter(
    (file) => !/\.test\.ts$|\/testing\//.test(file),
  );
  assert.ok(sources.length > 30);
  for (const file of sources) {
    const code = readFileSync(join(packages, file), "utf8").replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, "");
    const found = /\b(?:process|Buffer|__dirname|require|setImmediate)\b\s*[.([]/.exec(code);
    assert.equal(found?.[0], undefined, file);
  }
});
