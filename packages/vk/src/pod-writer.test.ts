import assert from "node:assert/strict";
import { test } from "node:test";
import { Fault } from "@cocoon/core";
import type { KubeClient } from "@cocoon/kube";
import type { Pod } from "@cocoon/kubelet";
import { PodWriter } from "./pod-writer.ts";

const options = { signal: new AbortController().signal };
const state = "vm.cocoonstack.io/lifecycle-state";

function createWriter(annotations: Record<string, string>, answers: (() => string)[]) {
  const bodies: object[] = [];
  const client = {
    patch: (_type: unknown, { patch }: { patch: { body: object } }) => {
      bodies.push(patch.body);
      const version = answers.shift()?.() ?? "9";
      return Promise.resolve({ metadata: { resourceVersion: version } });
    },
  } as unknown as KubeClient;
  const metadata = { name: "p", namespace: "n", uid: "u", resourceVersion: "1", annotations };
  const pod = { metadata, spec: { containers: [] } } as unknown as Pod;
  return { writer: new PodWriter(client, pod), bodies };
}

test("only what differs is written, guarded by the uid, and the next look sees it with its version", async () => {
  const { writer, bodies } = createWriter({ a: "1", b: "2" }, [() => "7"]);
  await writer.write({ a: "1", b: null, c: "3" }, options);
  assert.deepEqual(bodies, [{ metadata: { annotations: { b: null, c: "3" }, uid: "u" } }]);
  assert.deepEqual(writer.pod.metadata.annotations, { a: "1", c: "3" });
  assert.equal(writer.pod.metadata.resourceVersion, "7");
  await writer.write({ a: "1", c: "3" }, options);
  assert.equal(bodies.length, 1, "nothing differs: no write");
});

test("a write that fails is tried again; a pod that is gone is no failure", async () => {
  const { writer, bodies } = createWriter({}, [
    () => {
      throw new Fault("unavailable", "away");
    },
    () => "8",
  ]);
  await writer.write({ a: "1" }, options);
  assert.equal(bodies.length, 2);
  const gone = createWriter({}, [
    () => {
      throw new Fault("notFound", "gone");
    },
  ]);
  await gone.writer.write({ a: "1" }, options);
  assert.equal(gone.writer.pod.metadata.resourceVersion, "1");
  const causes = [{ field: "metadata.uid", message: "field is immutable" }];
  const replaced = createWriter({}, [
    () => {
      throw new Fault("invalid", "another pod has its name", { causes });
    },
  ]);
  await replaced.writer.write({ a: "1" }, options);
  assert.equal(replaced.writer.pod.metadata.annotations?.["a"], "1");
});

test("a failure sticks within its generation, until a new attempt", async () => {
  const { writer } = createWriter({}, []);
  assert.equal(await writer.announce({ state: "failed", message: "no" }, options), true);
  assert.equal(await writer.announce({ state: "ready" }, options), false);
  assert.equal(writer.pod.metadata.annotations?.[state], "failed");
  assert.equal(await writer.announce({ state: "creating" }, options), true);
  assert.deepEqual(writer.changesOf(writer.lifecycleTexts({ state: "ready" }) ?? {}), { [state]: "ready" });
});

test("readers of the older API find id and address under their keys, on pods that carry them", () => {
  const vm = { vmId: "VM1", ip: "10.0.0.9" };
  const legacy = createWriter({ "cocoon.cis/vm-name": "vk-lab-demo" }, []).writer;
  const older = { "cocoon.cis/vm-id": "VM1", "cocoon.cis/ip": "10.0.0.9" };
  const newer = { "vm.cocoonstack.io/id": "VM1", "vm.cocoonstack.io/ip": "10.0.0.9" };
  assert.deepEqual(legacy.vmTexts(vm), { ...older, ...newer });
  assert.deepEqual(legacy.vmTexts({ ...vm, ip: "" })["cocoon.cis/ip"], null);
  assert.deepEqual(createWriter({}, []).writer.vmTexts(vm), newer);
});
