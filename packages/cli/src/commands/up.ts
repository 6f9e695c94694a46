/** up: programs, certificates, components in dependency order. Idempotent; safe to interrupt at any moment. */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import {
  defaultCacheRoot,
  dependencyGroups,
  markedProcesses,
  resolveBinaries,
  startComponents,
  type Binaries,
  type Component,
} from "@cocoon/controlplane";
import { abortOnSignals, Fault, lockFile } from "@cocoon/core";
import { openKubeClient } from "@cocoon/kube";
import { Listr, type ListrTask } from "listr2";
import {
  askCluster,
  forgetExternalCluster,
  writeExternalCluster,
  type ClusterChoice,
  type ExternalCluster,
} from "../external-cluster.ts";
import { installInto } from "../external-install.ts";
import { homeDirectory, type HomeOptions } from "../home.ts";
import { preparePlatform, type Platform, type PlatformRequest } from "../platform.ts";
import { demoPod, ensureDemo, fetchDemoImage } from "../demo.ts";
import { dryRunScript } from "../dry-run.ts";
import { Quit, exitCode } from "../run-cli.ts";
import { shellWord } from "../shell-words.ts";

export interface UpOptions extends HomeOptions, ClusterChoice {
  readonly port?: string;
  readonly auditLog?: boolean;
  readonly aggregation?: boolean;
  readonly install: boolean;
  /** False: only the control plane. */
  readonly parts: boolean;
  readonly demo: boolean;
  readonly dryRun?: boolean;
}

export async function up(options: UpOptions): Promise<void> {
  const directory = homeDirectory(options, process.env);
  const settings = settingsOf(options);
  if (options.dryRun) {
    process.stdout.write(await dryRunScript(directory, settings));
    return;
  }
  const signal = abortOnSignals();
  await mkdir(directory, { recursive: true, mode: 0o700 });
  await using _lock = await lockFile(join(directory, "lock"), {
    signal,
    onWait: (holder) =>
      process.stderr.write(`Process ${holder.pid} is working on this cluster; waiting for it.\n`),
  });
  if (options.kubeconfig !== undefined || options.context !== undefined)
    return await useExternal(directory, options, signal);
  await forgetExternalCluster(directory);
  try {
    const binaries = await findBinaries(options, signal);
    await using platform = await preparePlatform({ directory, binaries, ...settings });
    for (const group of dependencyGroups(platform.components)) await startGroup(group, { directory, signal });
    if (options.parts && options.demo) await bringUpDemo(platform, signal);
    process.stdout.write(readyText(platform, options));
  } catch (error) {
    if (!signal.aborted) throw error;
    process.stderr.write(
      "\nInterrupted. What had started is running; `up` goes on from here, `down` stops it.\n",
    );
    throw new Quit(exitCode.interrupted);
  }
}

async function useExternal(
  directory: string,
  options: ClusterChoice & Pick<UpOptions, "parts">,
  signal: AbortSignal,
): Promise<void> {
  if (markedProcesses(directory).length > 0) {
    throw new Fault(
      "conflict",
      `a control plane of this machine runs in ${directory}; stop it first with: npm run down`,
    );
  }
  const { kubeconfig, context } = options;
  const choice = { ...(kubeconfig ? { kubeconfig } : {}), ...(context ? { context } : {}) };
  const { version, ...cluster } = await askCluster(choice, signal);
  if (options.parts) {
    await using client = await openKubeClient({ ...choice, signal });
    await showOne("Cocoon in the cluster", (tell) => installInto(client, { signal, tell }));
  }
  await writeExternalCluster(directory, cluster);
  process.stdout.write(externalText({ ...cluster, version }, options.parts));
}

function externalText(
  { server, version, context }: ExternalCluster & { version: string },
  parts: boolean,
): string {
  const cluster = `the cluster at ${server} (Kubernetes ${version}, context ${context})`;
  if (!parts) return `\nUsing ${cluster}. Nothing was installed in it or started here.\n`;
  return `
Cocoon is installed in ${cluster}. Nothing was started here.

Next:
  npm run cocoonctl -- kubectl -n cocoon-system get pods   the parts come up
  docs/install.md, "VM hosts"                              machines need at least one
`;
}

/** One task with progress; its failure is thrown. */
async function showOne(title: string, work: (tell: (text: string) => void) => Promise<void>): Promise<void> {
  const failures: unknown[] = [];
  await show([
    {
      title,
      task: async (_context, shown) => {
        try {
          await work(teller(title, shown));
        } catch (error) {
          failures.push(error);
          throw error;
        }
      },
    },
  ]);
  if (failures.length > 0) throw failures[0];
}

/** Where no line can be written anew, what takes long says now and then how far it is. */
const logEveryMs = 15_000;

function teller(title: string, shown: { title?: unknown }): (text: string) => void {
  let loggedAt = performance.now();
  return (text) => {
    const told = `${title} (${text})`;
    if (shown.title !== told) shown.title = told;
    if (process.stdout.isTTY || performance.now() - loggedAt < logEveryMs) return;
    loggedAt = performance.now();
    process.stdout.write(`  ${text}\n`);
  };
}

type Settings = Pick<PlatformRequest, "apiserverPort" | "settings" | "bare">;

function settingsOf(options: UpOptions): Settings {
  const apiserverPort = readPort(options.port);
  return {
    bare: !options.parts,
    settings: {
      ...(options.auditLog === undefined ? {} : { auditLog: options.auditLog }),
      ...(options.aggregation === undefined ? {} : { aggregation: options.aggregation }),
    },
    ...(apiserverPort === undefined ? {} : { apiserverPort }),
  };
}

function readPort(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const port = Number(text);
  if (Number.isInteger(port) && port > 0 && port < 65_536) return port;
  throw new Fault("badRequest", `--port ${text} is not a port number (1 to 65535)`);
}

/** A list of tasks as progress lines: in place on a terminal, one line per event elsewhere. */
async function show(tasks: ListrTask[]): Promise<void> {
  await new Listr(tasks, {
    concurrent: true,
    exitOnError: false,
    registerSignalListeners: false, // ours stops cleanly; theirs ends the process at once
    fallbackRenderer: "simple",
    rendererOptions: { showErrorMessage: false, collapseErrors: false },
  }).run();
}

async function findBinaries(options: UpOptions, signal: AbortSignal): Promise<Binaries> {
  let found: Binaries | undefined;
  await showOne("Programs of the control plane", async (tell) => {
    found = await resolveBinaries({
      cacheRoot: defaultCacheRoot(process.env),
      env: process.env,
      signal,
      installAllowed: options.install && !process.env["COCOON_NO_INSTALL"],
      onProgress: (program, text) => tell(`${program}: ${text}`),
    });
    tell("all there");
  });
  if (!found) throw new Fault("internal", "no programs were found, and nothing says why");
  return found;
}

async function startGroup(
  group: readonly Component[],
  options: { directory: string; signal: AbortSignal },
): Promise<void> {
  const failures: unknown[] = [];
  await show(
    group.map((component) => ({
      title: `${component.name}: ${component.summary}`,
      task: async (_context, task) => {
        try {
          await startComponents([component], {
            ...options,
            onProgress: (_name, text) => {
              task.title = `${component.name}: ${component.summary} (${text})`;
            },
          });
        } catch (error) {
          failures.push(error);
          throw error;
        }
      },
    })),
  );
  options.signal.throwIfAborted();
  if (failures.length > 0) throw failures[0];
}

/** The image first, for it may have to be built; then a machine from it. */
async function bringUpDemo(platform: Platform, signal: AbortSignal): Promise<void> {
  await showOne("Image of the demo machines", (tell) => fetchDemoImage(platform, { signal, tell }));
  signal.throwIfAborted();
  await showOne("Demo: a set of two machines", (tell) => ensureDemo(platform, { signal, tell }));
  signal.throwIfAborted();
}

function readyText(platform: Platform, { parts, demo }: UpOptions): string {
  const machines =
    parts && demo
      ? `
  npm run cocoonctl -- get machines         what there is
  kubectl exec -it ${demoPod} -- sh            a shell in a machine
  npm run cocoonctl -- suspend demo         it sleeps in the registry; resume wakes it as it was`
      : `
  kubectl get namespaces`;
  return `
Cocoon is up: Kubernetes API at ${platform.server}

Try:
  eval "$(npm run --silent cocoonctl -- env)"   kubectl of this shell is then this cluster's${machines}
  npm run status                            what runs
  npm run down                              stop it (the data stays; -- --wipe removes it)

Without eval: export KUBECONFIG=${shellWord(platform.kubeconfig)}
`;
}
