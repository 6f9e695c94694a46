/** VM hosts without a host: Node objects that stay ready, whose pods run at once and go when they are told to. */
import assert from "node:assert/strict";
import { hostTaint, nodeLabel } from "@cocoon/contract";
import { isFault, sleep } from "@cocoon/core";
import { nodes, openCaches, pods, type KubeConnection, type Node, type Pod } from "@cocoon/kube";
import { eventually } from "@cocoon/testkit";
import { testLog } from "./log.ts";

export interface TestNodes extends AsyncDisposable {
  /** Ends the heartbeat of a node and says that it is not ready. */
  lose(name: string): Promise<void>;
}

export interface TestNodesOptions {
  readonly client: KubeConnection;
  readonly names: readonly string[];
  readonly pool?: string;
  readonly capacity?: Readonly<Record<string, string>>;
  /** Whether terminating pods are let go; true unless said otherwise. */
  readonly finishDeletions?: boolean;
}

const signal = new AbortController().signal;
const heartbeatMs = 10_000;
const patient = { timeoutMs: 90_000, intervalMs: 100 };

export async function startTestNodes(options: TestNodesOptions): Promise<TestNodes> {
  const { client, names, pool = "default" } = options;
  const capacity = { cpu: "1000", memory: "4Ti", pods: "5000", ...options.capacity };
  const lost = new Set<string>();
  const stop = new AbortController();
  for (const name of names) {
    const labels = { [nodeLabel.pool]: pool, [nodeLabel.role]: "", "kubernetes.io/hostname": name };
    const spec = { taints: [{ ...hostTaint }] };
    await client.create<Node>(nodes, { metadata: { name, labels }, spec }, { signal });
    await report(client, name, { ready: true, capacity });
  }
  // New nodes count as not ready until the controllers have seen their status.
  await eventually(async () => {
    for (const name of names) {
      const { spec } = await client.get(nodes, { name }, { signal });
      assert.deepEqual(
        spec?.taints?.map(({ key }) => key),
        [hostTaint.key],
      );
    }
  }, patient);
  let reporting = Promise.resolve();
  /** One at a time: what is said last is what counts. */
  const say = (name: string, ready: boolean): Promise<void> => {
    const said = reporting.then(() =>
      ready && lost.has(name) ? undefined : report(client, name, { ready, capacity }),
    );
    reporting = said.catch(() => undefined);
    return said;
  };
  const beating = (async () => {
    while (await sleep(heartbeatMs, { signal: stop.signal }))
      for (const name of names) await say(name, true).catch(() => undefined);
  })();
  const caches = openCaches({ client, log: testLog });
  const cache = caches.open(pods, {});
  const mine = new Set(names);
  const seen = cache.subscribe((event) => {
    if (event.kind === "deleted" || !mine.has(event.object.spec?.nodeName ?? "")) return;
    const lives = () => live(client, event.object, options.finishDeletions ?? true);
    void eventually(lives, { ...patient, signal: stop.signal }).catch(() => undefined);
  });
  return {
    async lose(name) {
      lost.add(name);
      await say(name, false);
    },
    async [Symbol.asyncDispose]() {
      stop.abort();
      seen[Symbol.dispose]();
      await caches[Symbol.asyncDispose]();
      await beating;
    },
  };
}

interface Report {
  readonly ready: boolean;
  readonly capacity: Readonly<Record<string, string>>;
}

async function report(client: KubeConnection, name: string, { ready, capacity }: Report): Promise<void> {
  const now = new Date().toISOString();
  const condition = {
    type: "Ready",
    status: ready ? "True" : "False",
    reason: "Test",
    lastHeartbeatTime: now,
    lastTransitionTime: now,
  };
  const body = { status: { conditions: [condition], capacity, allocatable: capacity } };
  const patch = { type: "strategic", body } as const;
  await client.patch(nodes, { key: { name }, patch }, { signal, subresource: "status" });
}

/** What a kubelet tells of a pod: it runs, or it is gone. */
async function live(client: KubeConnection, pod: Pod, finishes: boolean): Promise<void> {
  const { namespace, name = "", uid } = pod.metadata;
  const key = { namespace, name };
  if (pod.metadata.deletionTimestamp !== undefined) {
    if (!finishes) return;
    const preconditions = uid === undefined ? {} : { uid };
    return unlessGone(() => client.delete(pods, key, { signal, gracePeriodSeconds: 0, preconditions }));
  }
  if (pod.status?.phase === "Running") return;
  const conditions = ["Initialized", "PodScheduled", "ContainersReady", "Ready"].map((type) => ({
    type,
    status: "True",
    lastTransitionTime: "2026-01-01T00:00:00Z",
  }));
  const body = { status: { phase: "Running", startTime: "2026-01-01T00:00:00Z", conditions } };
  await unlessGone(() =>
    client.patch(pods, { key, patch: { type: "strategic", body } }, { signal, subresource: "status" }),
  );
}

/** Another pod of the same name is none of this one's business either. */
async function unlessGone(act: () => Promise<unknown>): Promise<void> {
  try {
    await act();
  } catch (error) {
    if (!isFault(error, "notFound") && !isFault(error, "conflict")) throw error;
  }
}
