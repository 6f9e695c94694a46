/** agent-sandbox served by the operator, on a real API server with its controllers, with machines in memory. */
import assert from "node:assert/strict";
import { sandboxVmName } from "@cocoon/contract";
import { createRegistry, silentLogger } from "@cocoon/core";
import { demoImageName } from "@cocoon/images";
import { openKubeClient } from "@cocoon/kube";
import { startOperator } from "@cocoon/operator";
import { eventually, type TestCluster } from "@cocoon/testkit";
import { installCrds } from "../contract/install-crds.ts";
import { openWorld, type TestVk, type World } from "../vk/test-vk.ts";

export const timeoutMs = 180_000;

export async function installAgentSandbox(cluster: TestCluster): Promise<void> {
  await installCrds(cluster, [
    "deploy/crds",
    "deploy/agent-sandbox/sandbox-crds.yaml",
    "deploy/agent-sandbox/pod-snapshot-crds.yaml",
  ]);
  const applied = await cluster.kubectl(["apply", "-f", "deploy/vk/runtime-class.yaml"]);
  assert.equal(applied.code, 0, applied.stderr);
}

export interface SandboxWorld extends World {
  readonly nodes: readonly TestVk[];
  kubectl(...args: readonly string[]): Promise<string>;
  get<T = SandboxView>(kind: string, name: string): Promise<T | undefined>;
  startOperator(): Promise<void>;
  /** As SIGKILL: what is under way stops where it is. */
  killOperator(): Promise<void>;
  vmName(sandbox: string): Promise<string>;
}

export interface SandboxView {
  readonly metadata: {
    readonly name: string;
    readonly uid: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
    readonly ownerReferences?: readonly {
      readonly kind: string;
      readonly name: string;
      readonly uid: string;
    }[];
    readonly deletionTimestamp?: string;
  };
  readonly spec: Readonly<Record<string, unknown>>;
  readonly status?: {
    readonly conditions?: readonly {
      readonly type: string;
      readonly status: string;
      readonly reason: string;
      readonly message: string;
    }[];
    readonly sandbox?: { readonly name?: string };
    readonly podIPs?: readonly string[];
    readonly readyReplicas?: number;
    readonly replicas?: number;
    readonly service?: string;
    readonly serviceFQDN?: string;
  };
}

/** Such as one whose node has real guests. */
interface GivenWorld {
  readonly world: World;
  readonly node: TestVk;
}

export async function openSandboxWorld(
  cluster: TestCluster,
  { nodes: count = 2, given }: { readonly nodes?: number; readonly given?: GivenWorld } = {},
): Promise<SandboxWorld> {
  const world = given?.world ?? (await openWorld(cluster));
  const nodes: TestVk[] = given ? [given.node] : [];
  while (nodes.length < count) nodes.push(await world.newNode());
  const kubectl = async (...args: readonly string[]) => {
    const done = await cluster.kubectl([...args, "-n", world.namespace.name]);
    assert.equal(done.code, 0, done.stderr);
    return done.stdout.trim();
  };
  let running: AsyncDisposable | undefined;
  const killOperator = async () => {
    const ending = running;
    running = undefined;
    await ending?.[Symbol.asyncDispose]();
  };
  const started: SandboxWorld = {
    ...world,
    nodes,
    kubectl,
    get: async <T>(kind: string, name: string) => {
      const text = await kubectl("get", kind, name, "--ignore-not-found", "-o", "json");
      return text === "" ? undefined : (JSON.parse(text) as T);
    },
    vmName: async (sandbox) =>
      sandboxVmName(
        world.namespace.name,
        await kubectl("get", "sandbox", sandbox, "-o", "jsonpath={.metadata.uid}"),
      ),
    startOperator: async () => void (running = await openOperator(world)),
    killOperator,
    [Symbol.asyncDispose]: async () => {
      // Machines end, and their Sandboxes are settled, before the parts that do so stop.
      await kubectl("delete", "sandboxclaims,sandboxwarmpools,sandboxes", "--all", "--wait=false");
      await eventually(async () => assert.equal(await kubectl("get", "sandboxes", "-o", "name"), ""), {
        timeoutMs,
      });
      await killOperator();
      await world[Symbol.asyncDispose]();
    },
  };
  await started.startOperator();
  return started;
}

async function openOperator(world: World): Promise<AsyncDisposable> {
  const stack = new AsyncDisposableStack();
  const life = new AbortController();
  const { signal } = life;
  const client = stack.use(await openKubeClient({ kubeconfig: world.cluster.kubeconfigPath, signal }));
  stack.defer(() => life.abort());
  const operator = stack.use(
    startOperator({
      connection: client,
      client,
      registry: world.registry,
      log: silentLogger,
      metrics: createRegistry("cocoon-operator"),
      signal,
      namespace: world.namespace.name,
      agentSandbox: true,
    }),
  );
  await operator.ready;
  return stack;
}

/** A pod template whose machines run on the nodes of this test only. */
export function podTemplate({ nodes }: Pick<SandboxWorld, "nodes">, more: object = {}): object {
  const nodeSelectorTerms = nodes.map(({ name }) => ({
    matchFields: [{ key: "metadata.name", operator: "In", values: [name] }],
  }));
  const required = { nodeSelectorTerms };
  return {
    metadata: {
      annotations: {
        "cocoonset.cocoonstack.io/mode": "run",
        "cocoonset.cocoonstack.io/image": "https://images.test/demo.img",
      },
    },
    spec: {
      containers: [{ name: "agent", image: "demo", ports: [{ containerPort: 8888 }] }],
      affinity: { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: required } },
      ...more,
    },
  };
}

/** The demo image, as small as it boots. */
export function demoTemplate(world: Pick<SandboxWorld, "nodes">): object {
  const made = podTemplate(world) as { readonly spec: object };
  const resources = { requests: { cpu: "1", memory: "128Mi" } };
  const annotations = {
    "cocoonset.cocoonstack.io/mode": "run",
    "cocoonset.cocoonstack.io/image": demoImageName,
    "cocoonset.cocoonstack.io/storage": "256Mi",
  };
  const containers = [{ name: "agent", image: demoImageName, resources }];
  return { metadata: { annotations }, spec: { ...made.spec, containers } };
}

export function sandboxObject(world: SandboxWorld, name: string, spec: object = {}): object {
  return {
    apiVersion: "agents.x-k8s.io/v1beta1",
    kind: "Sandbox",
    metadata: { name, namespace: world.namespace.name },
    spec: { podTemplate: podTemplate(world), ...spec },
  };
}

export function extension(kind: string, name: string, spec: object): object {
  return { apiVersion: "extensions.agents.x-k8s.io/v1beta1", kind, metadata: { name }, spec };
}

type ShownCondition = NonNullable<NonNullable<SandboxView["status"]>["conditions"]>[number];

export function condition(object: SandboxView | undefined, type: string): ShownCondition | undefined {
  return object?.status?.conditions?.find((each) => each.type === type);
}

/** Waits until the Ready condition has this reason. */
export async function hasReason(
  world: SandboxWorld,
  [kind, name]: readonly [string, string],
  reason: string,
): Promise<SandboxView> {
  return eventually(
    async () => {
      const found = await world.get(kind, name);
      assert.ok(found);
      const { reason: shown, message } = condition(found, "Ready") ?? { reason: "", message: "no condition" };
      assert.equal(shown, reason, message);
      return found;
    },
    { timeoutMs },
  );
}

/** The node that the machine runs on. */
export function findHost({ nodes }: SandboxWorld, vmName: string): TestVk {
  const host = nodes.find((node) => [...node.host.vms.values()].some(({ vm }) => vm.name === vmName));
  assert.ok(host, `no node has ${vmName}`);
  return host;
}
