/** The pod controller while the watch lags behind what was written. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { silentLogger } from "@cocoon/core";
import type { KubeClient, PodStatus } from "@cocoon/kube";
import type { EventRecorder } from "@cocoon/kube/controller";
import { FakeSource } from "@cocoon/kube/controller/testing";
import { eventually } from "@cocoon/testkit";
import type { Pod, PodProvider, ReportPod } from "../provider.ts";
import { PodController } from "./pod-controller.ts";

const key = { namespace: "n", name: "p" };

interface Stage extends AsyncDisposable {
  readonly source: FakeSource<Pod>;
  readonly calls: string[];
  readonly patches: object[];
  /** The pod as the server has it; writing goes past the controller. */
  write(annotations: Record<string, string>): void;
  report(status: PodStatus): Promise<void>;
  touch(): void;
}

async function openStage(): Promise<Stage> {
  const life = new AbortController();
  const source = new FakeSource<Pod>();
  const [calls, patches]: [string[], object[]] = [[], []];
  let server = {
    metadata: { ...key, uid: "u", annotations: {} },
    spec: { containers: [{ name: "c" }] },
  } as unknown as Pod;
  let tracked: Pod | undefined;
  let report: ReportPod = () => Promise.resolve();
  const store = (pod: Pod) => (server = source.set(pod));
  const client = {
    patch: (_type: unknown, { patch }: { patch: { body: { status?: PodStatus } } }) => {
      patches.push(patch.body);
      return Promise.resolve(store({ ...server, status: { ...server.status, ...patch.body.status } }));
    },
  } as unknown as KubeClient;
  const provider: PodProvider = {
    createPod: (pod) => {
      calls.push("create");
      tracked = pod;
      return Promise.resolve();
    },
    updatePod: (pod) => {
      calls.push(`update ${JSON.stringify(pod.metadata.annotations)}`);
      tracked = pod;
      return Promise.resolve();
    },
    deletePod: () => Promise.resolve(),
    podDisappeared: () => Promise.resolve(),
    getPod: () => Promise.resolve(tracked),
    getPods: () => Promise.resolve(tracked ? [tracked] : []),
    onPodStatus: (callback) => {
      report = callback;
    },
  };
  store(server);
  const controller = new PodController({
    client,
    source,
    provider,
    resolve: (pod) => Promise.resolve({ pod, notices: [] }),
    allocatable: () => ({ pods: "10" }),
    hostIp: () => undefined,
    isCutOff: () => Promise.resolve(false),
    events: { record: () => undefined } as unknown as EventRecorder,
    log: silentLogger,
    signal: life.signal,
  });
  await controller.ready;
  await eventually(() => assert.deepEqual(calls, ["create"]));
  return {
    source,
    calls,
    patches,
    write: (annotations) => {
      tracked = store({ ...server, metadata: { ...server.metadata, annotations } });
    },
    report: (status) => report(key, "u", { status }),
    touch: () => controller.touch(key),
    [Symbol.asyncDispose]: async () => {
      life.abort();
      await controller[Symbol.asyncDispose]();
    },
  };
}

test("a provider is never handed a pod from before its own write, and hears of others' changes all the same", async () => {
  await using stage = await openStage();
  stage.source.hold();
  stage.write({ mine: "1" });
  stage.touch();
  await new Promise((resolve) => setTimeout(resolve, 120));
  assert.deepEqual(stage.calls, ["create"], "the old pod would undo what was written");
  stage.source.release();
  const newest = stage.source.get(key);
  assert.ok(newest);
  stage.source.set({
    ...newest,
    metadata: { ...newest.metadata, annotations: { mine: "1", theirs: "2" } },
  });
  await eventually(() => assert.deepEqual(stage.calls, ["create", 'update {"mine":"1","theirs":"2"}']));
});

test("a status that goes back to what the cache still shows is written", async () => {
  await using stage = await openStage();
  await stage.report({ phase: "Running" });
  stage.source.hold();
  await stage.report({ phase: "Running", message: "not well" });
  await stage.report({ phase: "Running" });
  assert.deepEqual(
    stage.patches.map((body) => (body as { status: PodStatus }).status),
    [{ phase: "Running" }, { message: "not well" }, { message: null }],
  );
  stage.source.release();
});

test("a pod that the node controller marked as not ready while the node was silent is shown as it is again", async () => {
  await using stage = await openStage();
  const showsReady = () =>
    stage.source.get(key)?.status?.conditions?.find(({ type }) => type === "Ready")?.status;
  await stage.report({ phase: "Running", conditions: [{ type: "Ready", status: "True" }] });
  assert.equal(showsReady(), "True");
  const marked = stage.source.get(key);
  assert.ok(marked);
  const conditions = [{ type: "Ready", status: "False" as const }];
  stage.source.set({ ...marked, status: { ...marked.status, conditions } });
  await eventually(() => assert.equal(showsReady(), "True"), { timeoutMs: 2_000 });
  assert.equal(stage.patches.length, 2, "once, and not for our own writes");
});
