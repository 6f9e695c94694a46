/**
 * Bundles a program into one file. Sources find a few things by where they are (a worker's file, Go modules, the other
 * programs); in a bundle these are elsewhere, so the lines that say so are exchanged, each exactly once or the build fails.
 */
import { join } from "node:path";
import { build, type BuildOptions, type Plugin } from "esbuild";
import { assertSlim, assertText } from "./assert-bundle.ts";
import { exchange, exchangeLines, type Replacement } from "./exchange-lines.ts";
import { findBundle, programs, suiteName } from "./programs.ts";

const root = join(import.meta.dirname, "../..");

export interface BuildInfo {
  readonly version: string;
  readonly revision: string;
  readonly builtAt: string;
}

/** `bundles`: run by an installed Node, one file each. `executable`: all in one, with Node inside. */
type Flavour = "bundles" | "executable";

const common = {
  bundle: true,
  platform: "node",
  target: "node26",
  format: "esm",
  legalComments: "none", // the licences are a file of their own
  minifySyntax: true,
  minifyWhitespace: true,
  logLevel: "error",
  absWorkingDir: root,
  // ssh2 tries these native parts and does without them.
  external: ["cpu-features", "*.node"],
} as const satisfies BuildOptions;

/** What CommonJS libraries inside an ES module expect to be there. */
const banner = {
  js: [
    'import { createRequire as createRequireOfBundle } from "node:module";',
    "const require = createRequireOfBundle(import.meta.url);",
    "const __dirname = import.meta.dirname;",
    "const __filename = import.meta.filename;",
  ].join("\n"),
};

export interface BundleOptions {
  readonly info: BuildInfo;
  readonly flavour: Flavour;
  /** Gets NAME.mjs for each. */
  readonly directory: string;
}

interface Source {
  readonly source: string;
}

/** Bundles the given files, or one source (then the file is stdin.mjs), in one go: what they share is read once. */
export async function bundle(
  entries: Readonly<Record<string, string>> | Source,
  { info, flavour, directory }: BundleOptions,
): Promise<void> {
  const names = entries.source === undefined ? Object.keys(entries) : ["stdin"];
  const changed = await exchangeLines(await replacements(flavour), root);
  const { metafile } = await build({
    ...common,
    ...resolveInput(entries),
    metafile: true,
    outdir: directory,
    outExtension: { ".js": ".mjs" },
    banner,
    define: { COCOON_BUILD_INFO: JSON.stringify(info) },
    plugins: [slimKubernetes, slimUndici, plainHttp, exchange(changed)],
  });
  assertSlim(metafile);
  for (const name of names) await assertText(join(directory, `${name}.mjs`));
}

function resolveInput(entries: Readonly<Record<string, string>> | Source): BuildOptions {
  const { source } = entries;
  if (source === undefined) return { entryPoints: { ...entries } };
  return { stdin: { contents: source, resolveDir: root, loader: "ts" } };
}

async function replacements(flavour: Flavour): Promise<Replacement[]> {
  return [
    {
      file: "packages/oci/src/chunks/worker-pool.ts",
      from: 'new URL("./chunk-worker.ts", import.meta.url)',
      to: `new URL(${JSON.stringify(await workerUrl("packages/oci/src/chunks/chunk-worker.ts"))})`,
    },
    {
      file: "packages/registry/src/uploads/upload-threads.ts",
      from: 'new URL("./upload-thread.ts", import.meta.url)',
      to: `new URL(${JSON.stringify(await workerUrl("packages/registry/src/uploads/upload-thread.ts"))})`,
    },
    {
      file: "packages/registry/src/content/manifest-reader.ts",
      from: 'new URL("./manifest-thread.ts", import.meta.url)',
      to: `new URL(${JSON.stringify(await workerUrl("packages/registry/src/content/manifest-thread.ts"))})`,
    },
    {
      file: "packages/kube/src/client/credential-plugin.ts",
      from: 'await import("@kubernetes/client-node")',
      to: 'await import("@kubernetes/client-node/dist/config.js")',
    },
    {
      file: "packages/images/src/guest/guest-program.ts",
      from: 'join(import.meta.dirname, "..", "..", "guest", "src")',
      to: 'join(import.meta.dirname, "guest")',
    },
    {
      file: "packages/qemu/src/process/native-program.ts",
      from: 'join(import.meta.dirname, "..", "..", "native")',
      to: 'join(import.meta.dirname, "native")',
    },
    {
      file: "packages/qemu/src/lazy/page-server-process.ts",
      from: 'join(import.meta.dirname, "page-server.ts")',
      to:
        flavour === "executable"
          ? '"cocoon-page-server"'
          : 'join(import.meta.dirname, "cocoon-page-server.mjs")',
    },
    {
      file: "packages/controlplane/src/binaries/build.ts",
      from: 'new URL("../../go/", import.meta.url)',
      to: 'new URL("./go/", import.meta.url)',
    },
    {
      file: "packages/dashboard/src/config.ts",
      from: 'join(import.meta.dirname, "../../../node_modules/.cache/dashboard/current")',
      to: 'join(import.meta.dirname, "dashboard")',
    },
    {
      file: "packages/cli/src/parts/part.ts",
      from: 'join(packages, "..", ...names)',
      to: "join(import.meta.dirname, ...names)",
    },
    {
      file: "packages/cli/src/parts/part.ts",
      from: '["--max-semi-space-size=2", join(packages, name, "src", "main.ts"), ...args]',
      to:
        flavour === "executable"
          ? `[${findProgram}, ...args]`
          : `["--max-semi-space-size=2", join(import.meta.dirname, ${findProgram} + ".mjs"), ...args]`,
    },
  ];
}

/** The name of the program of a package, in the words of part.ts. */
const findProgram = JSON.stringify(
  Object.fromEntries(
    Object.entries(programs).map(([name, path]) => [path.split("/")[1] ?? "", findBundle(name)]),
  ),
).concat("[name]");

/** A worker's whole program as an address that a Worker takes, so that it needs no file of its own. */
async function workerUrl(entryPoint: string): Promise<string> {
  const built = await build({ ...common, entryPoints: [entryPoint], write: false });
  const [file] = built.outputFiles;
  if (file === undefined) throw new Error("the worker was not built");
  // It has no `require`: a CommonJS library that loads a module of Node's would fail in the first thread that starts.
  if (file.text.includes("Dynamic require of"))
    throw new Error(
      `${entryPoint} imports a CommonJS library; import the file that is needed, not the package`,
    );
  return `data:text/javascript;base64,${Buffer.from(file.contents).toString("base64")}`;
}

/** Most of this library is models that are not used here; its modules do nothing when they are only loaded. */
const slimKubernetes: Plugin = {
  name: "leave out what is not used of @kubernetes/client-node",
  setup: (context) => {
    const library = /node_modules\/@kubernetes\/client-node\//;
    // It names its files in full, so they need not be looked up.
    context.onResolve({ filter: /^\.{1,2}\/.*\.js$/ }, ({ path, importer, resolveDir }) =>
      library.test(importer) ? { path: join(resolveDir, path), sideEffects: false } : undefined,
    );
  },
};

/** Its main file loads all of it: fetch, web sockets, caches, mocks. Those cost every program 13 MB of memory. */
const slimUndici: Plugin = {
  name: "leave out what is not used of undici",
  setup: (context) => {
    context.onResolve({ filter: /^undici$|\/client-h2\.js$/ }, ({ path }) => ({ path, namespace: "slim" }));
    // All our connections are made with allowH2 off.
    context.onLoad({ filter: /client-h2\.js$/, namespace: "slim" }, () => ({
      contents: `module.exports = () => { throw new Error("HTTP/2 is left out of this program"); };`,
    }));
    context.onLoad({ filter: /^undici$/, namespace: "slim" }, () => ({
      resolveDir: root,
      contents: `
        import api from "undici/lib/api/index.js";
        import Dispatcher from "undici/lib/dispatcher/dispatcher.js";
        export { default as Agent } from "undici/lib/dispatcher/agent.js";
        export { default as Pool } from "undici/lib/dispatcher/pool.js";
        export { default as ProxyAgent } from "undici/lib/dispatcher/proxy-agent.js";
        export const fetch = (...args) => globalThis.fetch(...args); // named by the Kubernetes library, in code that is never called
        Object.assign(Dispatcher.prototype, api); // as its main file does`,
    }));
  },
};

/**
 * An import of `node:http` reads all that it exports, and with its WebSocket comes all of Node's own undici: 16 MB, in
 * every program. Taken as an object, only what is used is read.
 */
const plainHttp: Plugin = {
  name: "take node:http without its WebSocket",
  setup: (context) => {
    context.onResolve({ filter: /^(node:)?http$/ }, ({ kind }) =>
      kind === "import-statement" ? { path: "http", namespace: "plain" } : undefined,
    );
    context.onLoad({ filter: /^http$/, namespace: "plain" }, () => ({
      contents: `module.exports = process.getBuiltinModule("node:http");`,
    }));
  },
};

/** The entry of the one executable: which program runs is the name it was called by, or its first argument. */
export function suiteSource(): string {
  const loaders = Object.entries(programs).map(
    ([name, path]) => `${JSON.stringify(name)}: () => import(${JSON.stringify(`./${path}`)}),`,
  );
  return `
import { basename } from "node:path";
const programs: Record<string, () => Promise<unknown>> = {
  ${loaders.join("\n  ")}
};
const called = basename(process.argv0);
const named = Object.hasOwn(programs, called) ? called : (process.argv.splice(2, 1)[0] ?? "");
const load = Object.hasOwn(programs, named) ? programs[named] : undefined;
if (load) {
  process.argv[1] = named; // by which a program knows its name
  await load();
} else {
  process.stderr.write("Usage: ${suiteName} PROGRAM [arguments], or a link to it named PROGRAM, which is one of\\n  " + Object.keys(programs).join("\\n  ") + "\\n");
  process.exitCode = 2;
}
`;
}
