/** Runs the pods of one namespace without hosts: each is bound to a node and reported ready, and ends when it is deleted. */
import { isFault, sleep } from "@cocoon/core";
import { pods, type KubeConnection, type Pod } from "@cocoon/kube";
import { startFakeNodes } from "../operator/fake-nodes.ts";

const nodeName = "fake-node";

export async function runPods(connection: KubeConnection, namespace: string): Promise<AsyncDisposable> {
  const stack = new AsyncDisposableStack();
  const ending = new AbortController();
  const { signal } = ending;
  stack.use(
    await startFakeNodes({ connection, pool: "none", nodeNames: [nodeName], withoutControllers: false }),
  );
  const running = (async () => {
    while (await sleep(200, { signal })) {
      const { items } = await connection.list(pods, { namespace, signal });
      for (const pod of items) await ignoreRaces(run(connection, pod, signal));
    }
  })().catch((error: unknown) => {
    if (!signal.aborted) throw error;
  });
  stack.defer(async () => {
    ending.abort();
    await running;
  });
  return stack;
}

async function run(connection: KubeConnection, pod: Pod, signal: AbortSignal): Promise<void> {
  const { namespace = "", name = "", uid = "", deletionTimestamp } = pod.metadata;
  const key = { namespace, name };
  if (deletionTimestamp)
    await connection.delete(pods, key, { signal, gracePeriodSeconds: 0, preconditions: { uid } });
  else if (!pod.spec?.nodeName) {
    const body = {
      apiVersion: "v1",
      kind: "Binding",
      metadata: { name },
      target: { kind: "Node", name: nodeName },
    };
    const path = `/api/v1/namespaces/${namespace}/pods/${name}/binding`;
    await connection.raw({ method: "POST", path, body, signal });
  } else if (pod.status?.phase !== "Running") {
    const conditions = ["Ready", "ContainersReady"].map((type) => ({ type, status: "True" }));
    const patch = { type: "merge", body: { status: { phase: "Running", conditions } } } as const;
    await connection.patch(pods, { key, patch }, { signal, subresource: "status" });
  }
}

async function ignoreRaces(work: Promise<void>): Promise<void> {
  try {
    await work;
  } catch (error) {
    if (!isFault(error, "conflict") && !isFault(error, "notFound")) throw error;
  }
}
