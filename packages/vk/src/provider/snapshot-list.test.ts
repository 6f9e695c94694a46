/** The list of hibernated machines never keeps one from hibernating, and does not grow without bound. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Fault, silentLogger } from "@cocoon/core";
import type { Pod } from "@cocoon/kubelet";
import { listHibernated } from "./snapshot-list.ts";
import type { StepContext } from "./step-context.ts";

const annotations = { "vm.cocoonstack.io/name": "vk-lab-demo" };
const pod = { metadata: { namespace: "lab", name: "demo", annotations }, spec: { containers: [] } };

/** What one listing does to a ConfigMap with this data, beside these pods. */
async function list(data: Record<string, string>, { pods = [] as readonly string[], broken = false } = {}) {
  const events: string[] = [];
  const client = {
    get: () => Promise.resolve({ data }),
    pages: () => [
      { items: pods.map((name) => ({ metadata: { annotations: { "vm.cocoonstack.io/name": name } } })) },
    ],
    patch: (_type: unknown, { patch }: { patch: { body: { data: Record<string, string | null> } } }) => {
      if (broken) return Promise.reject(new Fault("tooLarge", "ConfigMap is too large"));
      for (const [key, value] of Object.entries(patch.body.data))
        if (value === null) delete data[key];
        else data[key] = value;
      return Promise.resolve({});
    },
  };
  const context = {
    client,
    tracked: { writer: { pod: pod as unknown as Pod, isLegacy: false } },
    snapshots: { formatReference: (vmName: string) => `registry.example/${vmName}:hibernate` },
    snapshotConfigMap: "all",
    log: silentLogger,
    emit: ({ reason }: { reason: string }) => void events.push(reason),
  } as unknown as StepContext;
  await listHibernated(context, { signal: new AbortController().signal });
  return { data, events };
}

const reference = "registry.example/vk-lab-demo:hibernate";

const many = (count: number) =>
  Object.fromEntries(Array.from({ length: count }, (_each, index) => [`vk-lab-m${index}`, "sha256:b"]));

test("an entry is added", async () => {
  assert.deepEqual((await list(many(1))).data, { "vk-lab-m0": "sha256:b", "vk-lab-demo": reference });
});

test("a full list loses the entries of machines that are gone", async () => {
  const { data } = await list(many(2_000), { pods: ["vk-lab-m7", "vk-lab-demo"] });
  assert.deepEqual(Object.keys(data), ["vk-lab-m7", "vk-lab-demo"]);
});

test("a full list of machines that exist still takes the new one", async () => {
  const all = many(2_000);
  const { data } = await list(all, { pods: Object.keys(all) });
  assert.equal(Object.keys(data).length, 2_000);
  assert.equal(data["vk-lab-demo"], reference);
});

test("a list that cannot be written is reported, and the machine hibernates", async () => {
  assert.deepEqual((await list({}, { broken: true })).events, ["SnapshotListFailed"]);
});
