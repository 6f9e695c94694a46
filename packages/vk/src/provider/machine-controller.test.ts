/** The loop of a machine, on a runtime that fails. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { createRegistry, Fault, silentLogger, sleep } from "@cocoon/core";
import type { Pod } from "@cocoon/kubelet";
import { createVkMetrics } from "../metrics.ts";
import { MachineController, type ControllerParts } from "./machine-controller.ts";

const vmName = "vk-lab-demo";
const pod = {
  metadata: {
    namespace: "lab",
    name: "demo",
    uid: "u1",
    annotations: { "vm.cocoonstack.io/name": vmName, "cocoonset.cocoonstack.io/managed": "true" },
  },
  spec: { containers: [{ name: "agent" }] },
} as unknown as Pod;

test("however often a VM changes, one retry loop runs for its machine", async ({ signal }) => {
  let lookups = 0;
  const stop = new AbortController();
  const runtime = {
    inspect: () => {
      lookups += 1;
      return Promise.reject(new Fault("unavailable", "the runtime does not answer"));
    },
  };
  const controller = new MachineController({
    client: { patch: () => Promise.resolve({ metadata: {} }) },
    runtime,
    snapshots: undefined,
    events: { record: () => undefined },
    metrics: createVkMetrics(createRegistry("test")),
    ping: undefined,
    log: { ...silentLogger, child: () => silentLogger },
    signal: stop.signal,
    settings: { node: "here", cpuClass: "", canSavePaused: true },
  } as unknown as ControllerParts);
  await assert.rejects(controller.bring(pod, { signal }), /does not answer/);
  const before = lookups;
  for (let count = 0; count < 200; count += 1) controller.requeueVm(vmName);
  await sleep(200, { signal });
  stop.abort();
  assert.equal(lookups - before, 1, "the first attempt; the next one waits for the back-off");
});
