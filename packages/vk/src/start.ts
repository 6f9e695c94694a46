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
import { ensureMachineId, startKubelet, type Kubelet, type KubeletOptions } from "@cocoon/kubelet";
import type { Registry as OciRegistry } from "@cocoon/oci";
import type { RestoreMode, VmRuntime } from "@cocoon/vm";
import type { SshLogin } from "./guest/ssh.ts";
import { defaultIdle, watchIdle, type IdleSettings } from "./idle.ts";
import { defaultLocalGc, runLocalGc, type LocalGcSettings } from "./local-gc.ts";
import { createVkMetrics, type VkMetrics } from "./metrics.ts";
import { createAddressMetrics } from "./network-metrics.ts";
import { describeNode, type NodeSettings } from "./node.ts";
import { enforcePolicies } from "./policy/enforce.ts";
import type { Ping } from "./probes/checks.ts";
import { defaultProbeTimes, type ProbeTimes } from "./probes/probe.ts";
import {
  MachineController,
  type ControllerParts,
  type ControllerSettings,
} from "./provider/machine-controller.ts";
import { needsSnapshot } from "./provider/clone-machine.ts";
import { assertKnownVms } from "./provider/known-vms.ts";
import { handOverSandboxes } from "./provider/hand-over.ts";
import { dealWithOrphans, type OrphanPolicy } from "./provider/orphans.ts";
import { CocoonProvider } from "./provider/provider.ts";
import { watchVms } from "./provider/vm-watch.ts";
import { openNodeSnapshots, type NodeSnapshots, type NodeSnapshotsOptions } from "./node-snapshots.ts";
import { noDns, type DnsFacts } from "./pod-network.ts";
import { readPodMachine } from "./pod-machine.ts";
import { createUsageMetrics } from "./usage-metrics.ts";

export interface VkOptions extends Abortable {
  readonly client: KubeClient & KubeConnection;
  readonly runtime: VmRuntime;
  readonly node: NodeSettings;
  readonly api: KubeletOptions["api"];
  readonly registry?: Omit<NodeSnapshotsOptions, "registry" | "runtime" | "node" | "metrics"> & {
    readonly client: OciRegistry;
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
  readonly localGc?: LocalGcSettings;
  readonly restoreMode?: RestoreMode;
  readonly snapshotConfigMap?: "legacy" | "all";
  readonly dns?: DnsFacts;
  /** Enforce NetworkPolicies on this host, for the node's machines. */
  readonly enforcesPolicies?: boolean;
  readonly log?: Logger;
  readonly metrics?: Registry;
  /** How often VMs of Sandboxes without a pod are looked for. */
  readonly handOverMs?: number;
  /** Where traces of hibernations and wakes go; default nowhere. */
  readonly tracer?: NonNullable<ControllerParts["tracer"]>;
  readonly beforeStep?: ControllerParts["beforeStep"];
}

export interface RunningVk extends AsyncDisposable {
  readonly kubelet: Kubelet;
}

const defaultRestartPauseMs = 30_000;

/** Ending it leaves every VM as it is. */
export async function startVk(options: VkOptions): Promise<RunningVk> {
  const { client, runtime, node, log = silentLogger } = options;
  await assertKnownVms({ client, runtime, node: node.name, signal: options.signal });
  await using stack = new AsyncDisposableStack();
  const stop = new AbortController();
  stack.defer(() => stop.abort(new Fault("unavailable", "vk-cocoon stops")));
  const signal = AbortSignal.any([options.signal, stop.signal]);
  const registry = options.metrics ?? createRegistry("vk-cocoon");
  const metrics = createVkMetrics(registry);
  const snapshots = stack.use(await openSnapshots(options, metrics));
  const events = stack.use(startEventRecorder({ client, log, component: "vk-cocoon", host: node.name }));
  const controller = new MachineController({
    client,
    runtime,
    snapshots,
    events,
    metrics,
    ping: options.ping,
    log,
    signal,
    settings: await readSettings(options, { signal }),
    ...(options.tracer ? { tracer: options.tracer } : {}),
    ...(options.beforeStep ? { beforeStep: options.beforeStep } : {}),
  });
  stack.defer(() => controller.stop());
  const machines = () => controller.machines();
  const isClaimed = (vmName: string) =>
    [...machines()].some(({ writer }) => readPodMachine(writer.pod).vm.vmName === vmName);
  createUsageMetrics(registry, { runtime, machines, rootDirectory: node.rootDirectory, signal });
  createAddressMetrics(registry, { runtime, signal });
  const ssh = options.ssh ?? { user: "root" };
  const provider = new CocoonProvider({ controller, metrics, runtime, ssh, node: node.name, log });
  const kubelet = stack.use(
    await startKubelet({
      client,
      nodeName: node.name,
      machineId: await ensureMachineId(node.rootDirectory),
      provider,
      api: options.api,
      describe: (describeOptions) => describeNode(node, { runtime, isClaimed }, describeOptions),
      // Not before: VMs of a host whose node name belongs to another host are no orphans.
      onRegistered: (registered) => {
        const policy = options.orphanPolicy;
        return dealWithOrphans({ client, runtime, metrics, log, node: node.name, policy, ...registered });
      },
      component: "vk-cocoon",
      registry,
      log,
      signal,
    }),
  );
  const onListChange = () => kubelet.touchNode();
  const watched = { controller, snapshots, metrics, onListChange, isClaimed };
  const watching = watchMachines(options, { ...watched, log, signal });
  stack.defer(async () => {
    stop.abort(new Fault("unavailable", "vk-cocoon stops"));
    await watching;
  });
  const parts = stack.move();
  return { kubelet, [Symbol.asyncDispose]: () => parts.disposeAsync() };
}

/** What runs beside the machines' own loops; ends with the signal. */
async function watchMachines(
  { runtime, client, node, enforcesPolicies, handOverMs = 5_000, ...settings }: VkOptions,
  {
    controller,
    snapshots,
    metrics,
    onListChange,
    isClaimed,
    ...common
  }: Abortable & {
    readonly onListChange: () => void;
    readonly isClaimed: (vmName: string) => boolean;
    readonly controller: MachineController;
    readonly snapshots: NodeSnapshots | undefined;
    readonly metrics: VkMetrics;
    readonly log: Logger;
  },
): Promise<void> {
  const { idle = defaultIdle, localGc = defaultLocalGc } = settings;
  const description = await runtime.describe(common);
  await Promise.all([
    watchVms({ ...common, runtime, onListChange, requeue: (vmName) => controller.requeueVm(vmName) }),
    runLocalGc({
      ...common,
      metrics,
      runtime,
      snapshots,
      settings: localGc,
      isInUse: (name) =>
        [...controller.machines()].some(({ writer }) =>
          needsSnapshot(readPodMachine(writer.pod), name, description),
        ),
    }),
    enforcesPolicies ? enforcePolicies({ ...common, client, node: node.name }) : undefined,
    snapshots &&
      handOverSandboxes({
        ...common,
        client,
        runtime,
        node: node.name,
        isClaimed,
        everyMs: handOverMs,
        hibernate: (pod, options) => controller.handOver(pod, options),
      }),
    watchIdle({ ...common, runtime, machines: () => controller.machines(), settings: idle }),
  ]);
}

async function openSnapshots(
  { registry, runtime, node }: VkOptions,
  metrics: VkMetrics,
): Promise<NodeSnapshots | undefined> {
  if (!registry) return undefined;
  const { client, ...rest } = registry;
  return openNodeSnapshots({ ...rest, registry: client, runtime, node: node.name, metrics });
}

async function readSettings(options: VkOptions, { signal }: Abortable): Promise<ControllerSettings> {
  const { node, ssh, runtime } = options;
  const description = await runtime.describe({ signal });
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
    dns: options.dns ?? noDns,
    description,
    canSavePaused: description.can.saveFrozen ?? true,
  };
}
