/** A whole vk-cocoon: one node whose pods are machines of one runtime. */
import {
  createRegistry,
  Fault,
  silentLogger,
  type Abortable,
  type Logger,
  type Registry,
} from "@cocoon/core";
import type { KubeClient, KubeConnection } from "@cocoon/kube";
import { startEventRecorder } from "@cocoon/kube/controller";
import { startKubelet, type Kubelet, type KubeletOptions } from "@cocoon/kubelet";
import type { Registry as OciRegistry, SnapshotFormat } from "@cocoon/oci";
import type { RestoreMode, VmRuntime } from "@cocoon/vm";
import type { SshLogin } from "./guest/ssh.ts";
import { defaultIdle, watchIdle, type IdleSettings } from "./idle.ts";
import { createVkMetrics, type VkMetrics } from "./metrics.ts";
import { describeNode, type NodeSettings } from "./node.ts";
import type { Ping } from "./probes/checks.ts";
import { defaultProbeTimes, type ProbeTimes } from "./probes/probe.ts";
import { dealWithOrphans, type OrphanPolicy } from "./provider/adopt.ts";
import { CocoonProvider } from "./provider/cocoon-provider.ts";
import { Machines, type ProviderParts } from "./provider/provider.ts";
import { watchVms } from "./provider/watch.ts";
import { openSnapshots, type Snapshots } from "./snapshots.ts";
import { createUsageMetrics } from "./usage-metrics.ts";

export interface VkOptions extends Abortable {
  readonly client: KubeClient & KubeConnection;
  readonly runtime: VmRuntime;
  readonly node: NodeSettings;
  readonly api: KubeletOptions["api"];
  readonly registry?: {
    readonly client: OciRegistry;
    readonly format: SnapshotFormat;
    readonly stagingDirectory: string;
    readonly transfers?: number;
    readonly memoryBytes?: number;
    readonly pullMemoryBytes?: number;
    readonly level?: number;
    readonly chunkBytes?: number;
  };
  readonly orphanPolicy: OrphanPolicy;
  readonly cloneRoots?: readonly string[];
  readonly ssh?: SshLogin;
  /** Public keys that guests let in. */
  readonly sshKeys?: readonly string[];
  readonly ping?: Ping;
  readonly probeTimes?: ProbeTimes;
  readonly hibernatedPhase?: "Running" | "Pending";
  readonly restartPauseMs?: number;
  readonly livenessSecondMs?: number;
  readonly idle?: IdleSettings;
  readonly restoreMode?: RestoreMode;
  readonly snapshotConfigMap?: "legacy" | "all";
  readonly macosBin?: string;
  readonly log?: Logger;
  readonly metrics?: Registry;
  readonly configuration?: unknown;
  readonly beforeStep?: ProviderParts["beforeStep"];
}

export interface RunningVk extends AsyncDisposable {
  readonly kubelet: Kubelet;
}

const defaultRestartPauseMs = 30_000;

/** Ending it leaves every VM as it is. */
export async function startVk(options: VkOptions): Promise<RunningVk> {
  const { client, runtime, node, log = silentLogger } = options;
  await using stack = new AsyncDisposableStack();
  const stop = new AbortController();
  stack.defer(() => stop.abort(new Fault("unavailable", "vk-cocoon stops")));
  const signal = AbortSignal.any([options.signal, stop.signal]);
  const registry = options.metrics ?? createRegistry("vk-cocoon");
  const metrics = createVkMetrics(registry);
  const snapshots = stack.use(await openRegistrySide(options, metrics));
  await dealWithOrphans({
    client,
    runtime,
    node: node.name,
    policy: options.orphanPolicy,
    metrics,
    log,
    signal,
  });
  const events = stack.use(startEventRecorder({ client, log, component: "vk-cocoon", host: node.name }));
  const machines = new Machines({
    client,
    runtime,
    snapshots,
    events,
    metrics,
    ping: options.ping,
    log,
    signal,
    settings: await settingsOf(options, { signal }),
    ...(options.beforeStep ? { beforeStep: options.beforeStep } : {}),
  });
  stack.defer(() => machines.stop());
  const seats = () => machines.seats();
  createUsageMetrics(registry, { runtime, seats, rootDirectory: node.rootDirectory, signal });
  const ssh = options.ssh ?? { user: "root" };
  const provider = new CocoonProvider({ machines, runtime, ssh, node: node.name, log });
  const kubelet = stack.use(
    await startKubelet({
      client,
      nodeName: node.name,
      provider,
      api: options.api,
      describe: (describeOptions) => describeNode(node, runtime, describeOptions),
      component: "vk-cocoon",
      registry,
      log,
      signal,
      configuration: options.configuration ?? {},
    }),
  );
  const watching = watchMachines(options, { machines, log, signal });
  stack.defer(async () => {
    stop.abort(new Fault("unavailable", "vk-cocoon stops"));
    await watching;
  });
  const parts = stack.move();
  return { kubelet, [Symbol.asyncDispose]: () => parts.disposeAsync() };
}

/** What goes on beside the pods' own work; ends with the signal. */
async function watchMachines(
  { runtime, idle = defaultIdle }: VkOptions,
  { machines, ...common }: Abortable & { readonly machines: Machines; readonly log: Logger },
): Promise<void> {
  await Promise.all([
    watchVms({ ...common, runtime, lookAgain: (vmName) => machines.lookAgain(vmName) }),
    watchIdle({ ...common, runtime, seats: () => machines.seats(), settings: idle }),
  ]);
}

async function openRegistrySide(
  { registry, runtime, node }: VkOptions,
  metrics: VkMetrics,
): Promise<Snapshots | undefined> {
  if (!registry) return undefined;
  const { client, ...rest } = registry;
  return openSnapshots({ ...rest, registry: client, runtime, node: node.name, metrics });
}

async function settingsOf(options: VkOptions, { signal }: Abortable): Promise<ProviderParts["settings"]> {
  const { node, ssh, runtime } = options;
  const { can } = await runtime.describe({ signal });
  return {
    node: node.name,
    status: { hostIp: node.ip, hibernatedPhase: options.hibernatedPhase ?? "Running" },
    cloneRoots: options.cloneRoots ?? [],
    login: {
      ...(ssh ? { user: ssh.user } : {}),
      ...(ssh?.password ? { password: ssh.password } : {}),
      ...(options.sshKeys ? { sshKeys: options.sshKeys } : {}),
    },
    cpuClass: node.cpuClass,
    probeTimes: options.probeTimes ?? defaultProbeTimes,
    restartPauseMs: options.restartPauseMs ?? defaultRestartPauseMs,
    livenessSecondMs: options.livenessSecondMs ?? 1_000,
    restoreMode: options.restoreMode ?? "mmap",
    snapshotConfigMap: options.snapshotConfigMap ?? "legacy",
    macosBin: options.macosBin ?? "",
    freezes: can.saveFrozen ?? true,
  };
}
