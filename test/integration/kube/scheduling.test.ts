/** The fit check against the real scheduler: random nodes, random pods on them, and one more pod for each node. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { nodes, openKubeClient, pods, type KubeConnection, type Node, type PodSpec } from "@cocoon/kube";
import {
  addAmounts,
  findMisfit,
  readNodeSupply,
  readPodDemand,
  type NodeLoad,
} from "@cocoon/kube/scheduling";
import {
  count,
  eventually,
  ownControlPlane,
  seededRandom,
  testSeed,
  type TestCluster,
} from "@cocoon/testkit";

const stack = new AsyncDisposableStack();
const signal = new AbortController().signal;
let cluster: TestCluster;
let client: KubeConnection;

before(async () => {
  cluster = stack.use(await ownControlPlane());
  client = stack.use(await openKubeClient({ kubeconfig: cluster.kubeconfigPath, signal }));
});

after(() => stack.disposeAsync());

const trials = count({ small: 40, full: 300 });
const random = seededRandom(testSeed());
const pick = <T>(choices: readonly T[]): T => choices[Math.floor(random() * choices.length)] as T;
const many = <T>(most: number, make: () => T): T[] =>
  Array.from({ length: Math.floor(random() * (most + 1)) }, make);

function randomContainer(): PodSpec["containers"][number] {
  const resources = {
    requests: {
      ...pick([{}, { cpu: pick(["100m", "0.3", "1"]) }]),
      ...pick([{}, { memory: pick(["64Mi", "100M"]) }]),
    },
  };
  const ports = pick([undefined, undefined, [{ containerPort: 80, hostPort: pick([8080, 8081]) }]]);
  const name = `c${Math.floor(random() * 1e9)}`;
  return { name, image: "example.com/x:1", resources, ...(ports ? { ports } : {}) };
}

function randomSpec(): PodSpec {
  const init = many(2, () => ({ ...randomContainer(), ...pick([{}, { restartPolicy: "Always" }]) }));
  return {
    containers: [randomContainer(), ...many(1, randomContainer)],
    // Two containers of a pod may not ask for the same port.
    ...(init.length > 0 ? { initContainers: init.map(({ ports: _ports, ...rest }) => rest) } : {}),
    tolerations: pick([
      [],
      [{ key: "team", operator: "Exists" }],
      [{ key: "team", operator: "Equal", value: "blue" }],
    ]),
    nodeSelector: pick<Record<string, string>>([{}, {}, { disk: "ssd" }]),
    affinity: pick<NonNullable<PodSpec["affinity"]>>([
      {},
      requireNode(pick(["In", "NotIn", "Exists", "DoesNotExist", "Gt"])),
    ]),
  };
}

function requireNode(operator: string): NonNullable<PodSpec["affinity"]> {
  const values = operator === "Gt" ? ["5"] : ["ssd", "hdd"];
  const key = operator === "Gt" ? "generation" : "disk";
  const expression = {
    key,
    operator,
    ...(operator.endsWith("xist") || operator === "Exists" ? {} : { values }),
  };
  return {
    nodeAffinity: {
      requiredDuringSchedulingIgnoredDuringExecution: {
        nodeSelectorTerms: [{ matchExpressions: [expression] }],
      },
    },
  };
}

function withoutPortClash(spec: PodSpec): PodSpec {
  const [first, ...others] = spec.containers;
  return {
    ...spec,
    containers: [first, ...others.map(({ ports: _ports, ...rest }) => rest)] as PodSpec["containers"],
  };
}

interface Trial {
  readonly node: Node;
  readonly placed: readonly PodSpec[];
  readonly wanted: PodSpec;
}

function randomTrial(index: number): Trial {
  const name = `fit-${index}`;
  const allocatable = {
    cpu: pick(["1", "1500m", "4"]),
    memory: pick(["256Mi", "1Gi"]),
    pods: pick(["2", "3", "10"]),
  };
  const labels = {
    trial: name,
    ...pick<Record<string, string>>([{}, { disk: "ssd" }, { disk: "hdd", generation: pick(["4", "7"]) }]),
  };
  const taints = pick([
    [],
    [{ key: "team", value: pick(["blue", "red"]), effect: pick(["NoSchedule", "PreferNoSchedule"]) }],
  ]);
  const node: Node = {
    metadata: { name, labels },
    spec: { taints, unschedulable: random() < 0.1 },
    status: { allocatable },
  };
  return {
    node,
    placed: many(2, () => withoutPortClash(randomSpec())),
    wanted: withoutPortClash(randomSpec()),
  };
}

function predict({ node, placed, wanted }: Trial): boolean {
  const demands = placed.map((spec) => readPodDemand(spec));
  const load: NodeLoad = {
    pods: placed.length,
    amounts: demands.reduce((sum, { requests }) => addAmounts(sum, requests), {}),
    hostPorts: demands.flatMap(({ hostPorts }) => hostPorts),
  };
  return findMisfit(readNodeSupply(node), readPodDemand(wanted), load) === undefined;
}

async function createNode({ metadata, spec, status }: Node): Promise<void> {
  await client.create<Node>(nodes, { metadata, ...(spec ? { spec } : {}) }, { signal });
  const now = new Date().toISOString();
  const condition = {
    type: "Ready",
    status: "True",
    reason: "Test",
    lastHeartbeatTime: now,
    lastTransitionTime: now,
  };
  const body = { status: { ...status, capacity: status?.allocatable, conditions: [condition] } };
  await client.patch(
    nodes,
    { key: { name: metadata.name ?? "" }, patch: { type: "strategic", body } },
    { signal, subresource: "status" },
  );
}

/** Undefined while the scheduler has not decided. */
async function readVerdict(namespace: string, name: string): Promise<boolean | undefined> {
  const { spec, status } = await client.get(pods, { namespace, name }, { signal });
  if (spec?.nodeName) return true;
  const condition = status?.conditions?.find(({ type }) => type === "PodScheduled");
  return condition?.status === "False" && condition["reason"] === "Unschedulable" ? false : undefined;
}

test(`the fit check and the scheduler agree about ${trials} pods`, async () => {
  await using namespace = await cluster.newNamespace();
  const all = Array.from({ length: trials }, (_, index) => randomTrial(index));
  await Promise.all(all.map(({ node }) => createNode(node)));
  await eventually(
    async () => {
      const { items } = await client.list(nodes, { signal });
      const notReady = items.filter(({ spec }) =>
        spec?.taints?.some(({ key }) => key === "node.kubernetes.io/not-ready"),
      );
      assert.deepEqual(
        notReady.map(({ metadata }) => metadata.name),
        [],
      );
    },
    { timeoutMs: 60_000 },
  );
  const create = (name: string, spec: PodSpec) =>
    client.create(
      pods,
      { apiVersion: "v1", kind: "Pod", metadata: { namespace: namespace.name, name }, spec },
      { signal },
    );
  await Promise.all(
    all.flatMap(({ node, placed }, index) =>
      placed.map((spec, each) =>
        create(`placed-${index}-${each}`, { ...spec, nodeName: node.metadata.name ?? "" }),
      ),
    ),
  );
  await Promise.all(
    all.map(({ node, wanted }, index) =>
      create(`wanted-${index}`, {
        ...wanted,
        nodeSelector: { ...wanted.nodeSelector, trial: node.metadata.name ?? "" },
      }),
    ),
  );
  const agreed = { fits: 0, misfits: 0 };
  for (const [index, trial] of all.entries()) {
    const verdict = await eventually(
      async () => {
        const found = await readVerdict(namespace.name, `wanted-${index}`);
        assert.notEqual(found, undefined);
        return found;
      },
      { timeoutMs: 60_000 },
    );
    assert.equal(predict(trial), verdict, JSON.stringify(trial));
    agreed[verdict ? "fits" : "misfits"] += 1;
  }
  assert.ok(agreed.fits >= trials / 10 && agreed.misfits >= trials / 10, JSON.stringify(agreed));
});
