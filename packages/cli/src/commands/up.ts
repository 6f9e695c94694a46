/** up: programs, certificates, components in dependency order. Idempotent; safe to interrupt at any moment. */
import { mkdir } from "node:fs/promises";
import {
  defaultCacheRoot,
  dependencyGroups,
  markedProcesses,
  resolveBinaries,
  startComponents,
  type Binaries,
  type Component,
} from "@cocoon/controlplane";
import { abortOnSignals, Fault, getErrorMessage } from "@cocoon/core";
import { openKubeClient } from "@cocoon/kube";
import { Listr } from "listr2";
import {
  askCluster,
  forgetExternalCluster,
  writeExternalCluster,
  type ClusterChoice,
  type ExternalCluster,
} from "../external-cluster.ts";
import { installInto } from "../external-install.ts";
import { homeDirectory, lockPlatform, type HomeOptions } from "../home.ts";
import { preparePlatform, type Platform, type PlatformRequest } from "../platform.ts";
import { findNetworkMode, hasMetricsServer } from "../parts/parts.ts";
import { ensureDemo, fetchDemoImage } from "../demo.ts";
import { ensureGatewayKey } from "../gateway-key.ts";
import { describeAgentSandbox } from "../agent-sandbox-text.ts";
import { warnLowSpace } from "../disk-space.ts";
import { dryRunScript } from "../dry-run.ts";
import { Quit, exitCode } from "../run-cli.ts";
import { readyText } from "../ready-text.ts";
import { chooseNetwork, readNetworkWish, type NetworkChoice } from "../network/choose-network.ts";
import { controlPlaneAddress } from "../network/topology.ts";
import type { CommandSpec } from "../command-spec.ts";

export const command: CommandSpec = {
  usage: "up",
  description: "bring the platform up on this machine; again = do what is missing",
  options: {
    "--port <number>": "port of the Kubernetes API (default: a free one, then always the same)",
    "--audit-log": "let the API server write an audit log (metadata only)",
    "--aggregation": "certificates for aggregated API servers of your own",
    "--metrics-server":
      "metrics-server too, so that kubectl top works; built from source the first time; later up keep it",
    "--legacy": "serve the older API cocoon.cis/v1alpha1, too; later up keep it",
    "--agent-sandbox":
      "serve Sandbox, SandboxClaim, SandboxTemplate and SandboxWarmPool of agent-sandbox, too; later up keep it",
    "--network <mode>":
      "cni: machines have a network of their own, with Services and names (needs root); user: forwarded ports only; auto: cni where this machine can; later up keep it (default: COCOON_NETWORK, else auto)",
    "--kubeconfig <path>":
      "use that cluster; no control plane is started here (default: a control plane of this machine)",
    "--context <name>":
      "use that context of the kubeconfig; no control plane is started here (default: its current one)",
    "--no-parts": "only the control plane, without registry, nodes and machines",
    "--no-demo": "do not make the demo machine",
    "--no-install": "do not download or build anything: say what is missing",
    "--dry-run": "print the commands that would run, start nothing",
  },
  examples: ["cocoonctl up", "cocoonctl up --port 6443", "cocoonctl up --dry-run"],
  run: up,
};

export interface UpOptions extends HomeOptions, ClusterChoice {
  readonly port?: string;
  readonly auditLog?: boolean;
  readonly aggregation?: boolean;
  readonly metricsServer?: boolean;
  readonly legacy?: boolean;
  readonly agentSandbox?: boolean;
  readonly network?: string;
  readonly install: boolean;
  readonly parts: boolean;
  readonly demo: boolean;
  readonly dryRun?: boolean;
}

export async function up(options: UpOptions): Promise<void> {
  const directory = homeDirectory(options, process.env);
  const signal = abortOnSignals();
  const wish = await findNetwork(directory, options, signal);
  const settings = readSettings(options, wish); // bad values are errors before anything is written
  if (options.dryRun) {
    process.stdout.write(await dryRunScript(directory, settings));
    return;
  }
  await mkdir(directory, { recursive: true, mode: 0o700 });
  if (options.kubeconfig !== undefined || options.context !== undefined) {
    await using _lock = await lockPlatform(directory, signal);
    return await useExternal(directory, options, signal);
  }
  try {
    const { platform, network } = await startPlatform(directory, { ...options, wish }, signal);
    if (options.parts && options.demo) await bringUpDemo(platform, signal);
    const gateway = options.parts ? await ensureGatewayKey(platform, { signal }) : undefined;
    const sandboxes = options.parts ? await describeAgentSandbox(directory) : "";
    process.stdout.write(`${readyText(platform, options, { gateway, network })}${sandboxes}`);
  } catch (error) {
    if (!signal.aborted) throw error;
    process.stderr.write(
      "\nInterrupted. What had started is running; `up` goes on from here, `down` stops it.\n",
    );
    throw new Quit(exitCode.interrupted);
  }
}

/** The lock is given back before the demo is made: from then on the supervisor restarts parts. */
async function startPlatform(
  directory: string,
  { wish, ...options }: UpOptions & { readonly wish: NetworkChoice | undefined },
  signal: AbortSignal,
): Promise<{ readonly platform: Platform; readonly network: NetworkChoice | undefined }> {
  await using _lock = await lockPlatform(directory, signal);
  await forgetExternalCluster(directory);
  await warnLowSpace(directory);
  const { binaries, network } = await findPrograms(directory, { ...options, wish }, signal);
  const settings = readSettings(options, network);
  await using platform = await preparePlatform({ directory, binaries, ...settings }, { signal });
  for (const group of dependencyGroups(platform.components)) await startGroup(group, { directory, signal });
  return { platform, network };
}

/** Where those of the machines' network cannot be had, a new platform is brought up without it. */
async function findPrograms(
  directory: string,
  { wish, ...options }: UpOptions & { readonly wish: NetworkChoice | undefined },
  signal: AbortSignal,
): Promise<{ readonly binaries: Binaries; readonly network: NetworkChoice | undefined }> {
  const find = (hasNetwork: boolean) => findBinaries(directory, { ...options, hasNetwork }, signal);
  if (!wish?.isReplaceable) return { binaries: await find(wish?.network === "cni"), network: wish };
  try {
    return { binaries: await find(true), network: wish };
  } catch (error) {
    signal.throwIfAborted();
    return { binaries: await find(false), network: { network: "user", missing: getErrorMessage(error) } };
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
  const choice = { kubeconfig, context };
  const { version, ...cluster } = await askCluster(choice, signal);
  if (options.parts) {
    await using client = await openKubeClient({ ...choice, signal });
    await showOne("Cocoon in the cluster", (report) => installInto(client, { signal, report }));
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

type Report = (text: string) => void;

/** One task with progress; its failure is thrown. */
async function showOne<T>(title: string, work: (report: Report) => Promise<T>): Promise<T> {
  const results: T[] = [];
  await showAll([{ title, work: async (report) => void results.push(await work(report)) }]);
  return results[0] as T;
}

/** Tasks at the same time, as progress lines: in place on a terminal, else one line per event. The first failure is thrown. */
async function showAll(
  tasks: readonly { readonly title: string; readonly work: (report: Report) => Promise<void> }[],
): Promise<void> {
  const failures: unknown[] = [];
  const list = tasks.map(({ title, work }) => ({
    title,
    task: async (_context: unknown, shown: { title?: unknown }) => {
      try {
        await work(reporter(title, shown));
      } catch (error) {
        failures.push(error);
        throw error;
      }
    },
  }));
  await new Listr(list, {
    concurrent: true,
    exitOnError: false,
    registerSignalListeners: false, // ours stops cleanly; theirs ends the process at once
    fallbackRenderer: "simple",
    rendererOptions: { showErrorMessage: false, collapseErrors: false },
  }).run();
  if (failures.length > 0) throw failures[0];
}

/** Where no line can be written anew, what takes long says now and then how far it is. */
const logEveryMs = 15_000;

function reporter(title: string, shown: { title?: unknown }): Report {
  let loggedAt = performance.now();
  return (text) => {
    const full = `${title} (${text})`;
    if (shown.title !== full) shown.title = full;
    if (process.stdout.isTTY || performance.now() - loggedAt < logEveryMs) return;
    loggedAt = performance.now();
    process.stdout.write(`  ${text}\n`);
  };
}

type Settings = Pick<PlatformRequest, "apiserverPort" | "settings" | "bare" | "partSettings">;

/** Flags that are absent keep the settings of an earlier `up`. */
function readSettings(options: UpOptions, choice: NetworkChoice | undefined): Settings {
  const { port, auditLog, metricsServer, legacy, agentSandbox } = options;
  const otlpEndpoint = process.env["OTEL_EXPORTER_OTLP_ENDPOINT"];
  const aggregation = options.aggregation ?? metricsServer; // metrics-server is behind the API server
  const apiserverPort = readPort(port);
  return {
    bare: !options.parts,
    settings: {
      ...(auditLog ? { auditLog } : {}),
      ...(aggregation ? { aggregation } : {}),
      ...(choice ? { advertiseAddress: choice.network === "cni" ? controlPlaneAddress : "" } : {}),
    },
    partSettings: {
      ...(metricsServer ? { metricsServer } : {}),
      ...(legacy ? { legacy } : {}),
      ...(agentSandbox ? { agentSandbox } : {}),
      ...(otlpEndpoint === undefined ? {} : { otlpEndpoint }), // empty: no traces any more
      ...(choice ? { network: choice.network } : {}),
    },
    ...(apiserverPort === undefined ? {} : { apiserverPort }),
  };
}

/** Undefined where no machines are asked for here. */
// oxlint-disable-next-line max-params -- where, what, and how long
async function findNetwork(
  directory: string,
  { network, parts, kubeconfig, context }: UpOptions,
  signal: AbortSignal,
): Promise<NetworkChoice | undefined> {
  if (!parts || kubeconfig !== undefined || context !== undefined) return undefined;
  const before = await findNetworkMode(directory);
  const wanted = readNetworkWish(network ?? process.env["COCOON_NETWORK"], before);
  return chooseNetwork({ wanted, before, path: process.env["PATH"] ?? "", signal });
}

function readPort(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const port = Number(text);
  if (Number.isInteger(port) && port > 0 && port < 65_536) return port;
  throw new Fault("badRequest", `--port ${text} is not a port number (1 to 65535)`);
}

function findBinaries(
  directory: string,
  options: UpOptions & { readonly hasNetwork: boolean },
  signal: AbortSignal,
): Promise<Binaries> {
  return showOne("Programs of the control plane", async (report) => {
    const found = await resolveBinaries({
      cacheRoot: defaultCacheRoot(process.env),
      env: process.env,
      signal,
      installAllowed: options.install && !process.env["COCOON_NO_INSTALL"],
      groups: [
        ...((options.metricsServer ?? (await hasMetricsServer(directory)))
          ? (["metricsServer"] as const)
          : []),
        ...(options.hasNetwork ? (["clusterNetwork"] as const) : []),
      ],
      onProgress: (program, text) => report(`${program}: ${text}`),
    });
    report("found");
    return found;
  });
}

async function startGroup(
  group: readonly Component[],
  options: { readonly directory: string; readonly signal: AbortSignal },
): Promise<void> {
  await showAll(
    group.map((component) => ({
      title: `${component.name}: ${component.summary}`,
      work: (report) =>
        startComponents([component], { ...options, onProgress: (_name, text) => report(text) }),
    })),
  );
  options.signal.throwIfAborted();
}

/** The image first, for it may have to be built; then a machine from it. */
async function bringUpDemo(platform: Platform, signal: AbortSignal): Promise<void> {
  await showOne("Image of the demo machines", (report) => fetchDemoImage(platform, { signal, report }));
  signal.throwIfAborted();
  await showOne("Demo: a set of two machines", (report) => ensureDemo(platform, { signal, report }));
  signal.throwIfAborted();
}
