/** A real guest under QEMU behind a vk-cocoon of the test's own, and the ways kubectl reaches it. */
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import {
  eventually,
  runCommand,
  temporaryDirectory,
  type CommandOptions,
  type CommandResult,
  type TestCluster,
} from "@cocoon/testkit";
import { demoImageName } from "@cocoon/images";
import type { VmRuntime } from "@cocoon/vm";
import { killVm, openQemuRuntimeIn } from "../vm/qemu-harness.ts";
import { machinePod, openWorld, runMachine, type NodeChanges, type TestVk, type World } from "./test-vk.ts";

/** One way from kubectl to the kubelet. */
export interface Client {
  readonly name: string;
  readonly program: string;
  readonly env: Readonly<Record<string, string>>;
}

const withoutWebSockets = {
  KUBECTL_REMOTE_COMMAND_WEBSOCKETS: "false",
  KUBECTL_PORT_FORWARD_WEBSOCKETS: "false",
};

/** WebSocket all the way (the node declares it), and SPDY all the way. */
export function newClients(cluster: TestCluster): readonly Client[] {
  const program = cluster.binaries.kubectl;
  return [
    { name: "WebSocket", program, env: {} },
    { name: "SPDY", program, env: withoutWebSockets },
  ];
}

export interface RealGuest extends AsyncDisposable {
  readonly world: World;
  readonly node: TestVk;
  readonly pod: string;
  readonly vmName: string;
  kubectl(client: Client, args: readonly string[], options?: CommandOptions): Promise<CommandResult>;
  /** Starts it in a process of its own, which the caller ends. */
  start(client: Client, args: readonly string[]): ChildProcess;
  /** A command of the guest that must succeed; its output. */
  run(...command: readonly string[]): Promise<string>;
}

export interface RealGuestOptions {
  readonly changes?: NodeChanges;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly wrap?: (runtime: VmRuntime) => VmRuntime;
}

export const bootMs = 240_000;

export function demoPod(
  name: string,
  node: string,
  annotations: Readonly<Record<string, string>>,
): Record<string, unknown> & { readonly spec: Record<string, unknown> } {
  const pod = machinePod(name, node, {
    "cocoonset.cocoonstack.io/storage": "256Mi",
    ...annotations,
  }) as Record<string, unknown> & { readonly spec: Record<string, unknown> };
  const resources = { requests: { cpu: "1", memory: "128Mi" } };
  return { ...pod, spec: { ...pod.spec, containers: [{ name: "agent", image: demoImageName, resources }] } };
}

/** A managed machine that boots the demo image. */
export function demoMachine(vmName: string): Record<string, string> {
  return { ...runMachine(vmName), "cocoonset.cocoonstack.io/image": demoImageName };
}

export async function reaches(world: World, pod: string, state: string): Promise<void> {
  await eventually(
    async () => {
      const { annotations = {} } = (await world.pod(pod))?.metadata ?? {};
      const message = annotations["vm.cocoonstack.io/lifecycle-state-message"] ?? "";
      assert.equal(annotations["vm.cocoonstack.io/lifecycle-state"], state, message);
    },
    { timeoutMs: bootMs, intervalMs: 200 },
  );
}

export interface RealNode extends AsyncDisposable {
  readonly world: World;
  readonly node: TestVk;
  /** By SIGKILL, as a host that fails does. */
  readonly killVms: () => Promise<void>;
}

/** A node whose VMs are real, with a store of its own. */
export async function openRealNode(cluster: TestCluster, options: RealGuestOptions = {}): Promise<RealNode> {
  const stack = new AsyncDisposableStack();
  const directory = stack.use(await temporaryDirectory());
  const world = stack.use(await openWorld(cluster));
  const life = new AbortController();
  stack.defer(() => life.abort());
  stack.defer(() => removeVms(directory.path));
  const wrap = options.wrap ?? ((runtime: VmRuntime) => runtime);
  const node = await world.newNode({
    runtime: async () => wrap(await openQemuRuntimeIn(directory.path, { signal: life.signal })),
    ...(options.changes ? { changes: options.changes } : {}),
  });
  const killVms = () => killVmsIn(directory.path);
  return { world, node, killVms, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

async function killVmsIn(root: string): Promise<void> {
  const { signal } = new AbortController();
  await using runtime = await openQemuRuntimeIn(root, { signal });
  for (const vm of await runtime.list({ signal })) await killVm(vm);
}

/** VMs outlive their kubelet; they must not outlive the test. */
async function removeVms(root: string): Promise<void> {
  const { signal } = new AbortController();
  await using runtime = await openQemuRuntimeIn(root, { signal });
  for (const vm of await runtime.list({ signal })) await runtime.remove(vm.id, { force: true, signal });
}

export async function openRealGuest(
  cluster: TestCluster,
  options: RealGuestOptions = {},
): Promise<RealGuest> {
  const stack = new AsyncDisposableStack();
  const { world, node } = stack.use(await openRealNode(cluster, options));
  const pod = "demo";
  const vmName = `vk-${world.namespace.name}-${pod}`;
  await world.apply(demoPod(pod, node.name, { ...demoMachine(vmName), ...options.annotations }));
  await reaches(world, pod, "ready");
  const [newest] = newClients(cluster);
  assert.ok(newest);
  const inNamespace = (args: readonly string[]) => ["-n", world.namespace.name, ...args];
  const kubectl: RealGuest["kubectl"] = ({ program, env }, args, more = {}) =>
    runCommand(program, inNamespace(args), { ...more, env: { KUBECONFIG: cluster.kubeconfigPath, ...env } });
  return {
    world,
    node,
    pod,
    vmName,
    kubectl,
    start: ({ program, env }, args) =>
      spawn(program, inNamespace(args), {
        env: { ...process.env, KUBECONFIG: cluster.kubeconfigPath, ...env },
      }),
    run: async (...command) => {
      const ran = await kubectl(newest, ["exec", pod, "--", ...command]);
      assert.equal(ran.code, 0, ran.stderr);
      return ran.stdout;
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}
