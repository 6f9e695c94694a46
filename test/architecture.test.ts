/** The layers of ARCHITECTURE.md as a test: who may import whom, in manifests and in sources. */
import assert from "node:assert/strict";
import { globSync, readFileSync, readdirSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { test } from "node:test";

const root = join(import.meta.dirname, "..");

/** Each package and the packages it may import. Arrows only go down; apps never import each other. */
const allowed: Readonly<Record<string, readonly string[]>> = {
  core: [],
  contract: ["core"],
  oci: ["core", "contract"],
  machine: ["core", "contract", "oci"],
  vm: ["core", "contract", "oci"],
  qemu: ["core", "contract", "oci", "vm"],
  images: ["core", "contract", "oci", "vm"],
  kube: ["core"],
  controlplane: ["core", "kube"],
  kubelet: ["core", "contract", "kube"],
  registry: ["core", "contract", "oci"],
  operator: ["core", "contract", "kube", "oci", "machine"],
  webhook: ["core", "contract", "kube", "oci", "machine"],
  colocation: ["core", "contract", "kube"],
  vk: ["core", "contract", "oci", "machine", "vm", "qemu", "images", "kube", "kubelet"],
  cocoon: ["core", "contract", "oci", "vm", "qemu", "images"],
  gateway: ["core", "contract", "kube", "kubelet", "oci"],
  dashboard: ["core", "contract", "kube"],
  cli: [
    "core",
    "contract",
    "oci",
    "machine",
    "vm",
    "qemu",
    "images",
    "kube",
    "controlplane",
    "kubelet",
    "registry",
    "operator",
    "webhook",
    "colocation",
    "vk",
    "cocoon",
    "gateway",
    "dashboard",
  ],
};
const testOnly = new Set(["testkit"]);

/** Libraries run wherever they are loaded: only programs read a command line. */
const commandLineParsers = new Set(["commander", "listr2"]);
const programs = new Set([
  "registry",
  "operator",
  "webhook",
  "colocation",
  "vk",
  "cocoon",
  "gateway",
  "dashboard",
  "cli",
]);

/** Words of the product that the general Kubernetes and process layers must not know. */
const productWords = /cocoon|hibernat|microvm|snapshot/i;
const generalLayers = ["kube"];

const packages = readdirSync(join(root, "packages"));
const isTest = (file: string) => /\.test\.ts$|\/testing\//.test(file);

function sources(name: string): string[] {
  return globSync(`packages/${name}/src/**/*.ts`, { cwd: root });
}

function listImports(file: string): { readonly specifier: string; readonly line: number }[] {
  const lines = readFileSync(join(root, file), "utf8").split("\n");
  return lines.flatMap((text, index) => {
    const match = /(?:\bfrom\s+|\bimport\s*\(?\s*)"([^"]+)"/.exec(text);
    return match?.[1] ? [{ specifier: match[1], line: index + 1 }] : [];
  });
}

test("every package is in the table of layers", () => {
  const unknown = packages.filter((name) => !Object.hasOwn(allowed, name) && !testOnly.has(name));
  assert.deepEqual(unknown, []);
});

test("manifests depend only downwards", () => {
  for (const name of packages.filter((each) => !testOnly.has(each))) {
    const manifest = JSON.parse(readFileSync(join(root, "packages", name, "package.json"), "utf8")) as {
      dependencies?: Record<string, string>;
    };
    const internal = Object.keys(manifest.dependencies ?? {}).filter((each) => each.startsWith("@cocoon/"));
    const wrong = internal.filter((each) => !allowed[name]?.includes(each.slice("@cocoon/".length)));
    assert.deepEqual(wrong, [], `packages/${name}/package.json`);
  }
});

test("libraries depend on no parser of command lines", () => {
  const wrong = packages
    .filter((name) => !programs.has(name))
    .filter((name) => {
      const manifest = readFileSync(join(root, "packages", name, "package.json"), "utf8");
      const { dependencies = {} } = JSON.parse(manifest) as { dependencies?: Record<string, string> };
      return Object.keys(dependencies).some((each) => commandLineParsers.has(each));
    });
  assert.deepEqual(wrong, []);
});

test("imports go down, through a package's exports, and only tests use the testkit", () => {
  const wrong: string[] = [];
  for (const name of packages) {
    for (const file of sources(name)) {
      for (const { specifier, line } of listImports(file)) {
        const problem = findProblem(name, file, specifier);
        if (problem) wrong.push(`${file}:${line}: ${problem}`);
      }
    }
  }
  assert.deepEqual(wrong, []);
});

function findProblem(name: string, file: string, specifier: string): string | undefined {
  if (specifier.startsWith(".")) {
    const target = relative(join(root, "packages", name), join(root, dirname(file), specifier));
    return target.startsWith("..") ? `reaches out of its package: ${specifier}` : undefined;
  }
  if (!specifier.startsWith("@cocoon/")) return undefined;
  const target = specifier.split("/")[1] ?? "";
  if (target === name) return `imports its own package by name: ${specifier}`;
  if (testOnly.has(name)) return undefined;
  if (testOnly.has(target)) return isTest(file) ? undefined : `only tests import ${specifier}`;
  if (allowed[name]?.includes(target)) return undefined;
  return isTest(file) ? undefined : `${name} must not import ${target}`;
}

test("general layers know no product words", () => {
  const wrong: string[] = [];
  for (const file of generalLayers.flatMap(sources)) {
    for (const [index, text] of readFileSync(join(root, file), "utf8").split("\n").entries()) {
      if (productWords.test(text.replaceAll("@cocoon/", "").replaceAll("COCOON_TEST", "")))
        wrong.push(`${file}:${index + 1}: ${text.trim()}`);
    }
  }
  assert.deepEqual(wrong, []);
});

test("programs take node:http from core, where it comes without a second HTTP client", () => {
  const found = packages
    .flatMap(sources)
    .filter((file) => !isTest(file))
    .filter((file) => /^import (?!type ).* from "node:http";$/m.test(readFileSync(join(root, file), "utf8")));
  assert.deepEqual(found, []);
});
