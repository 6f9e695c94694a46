/** Snapshots of a deleted Sandbox are settled once, and never those of a machine that another Sandbox has. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { sandboxFinalizer, sandboxMachineAnnotation, sandboxVmName } from "@cocoon/contract";
import { silentLogger } from "@cocoon/core";
import type { KubeClient, KubeObject } from "@cocoon/kube";
import { sandboxes, settleSandbox } from "./settle.ts";

const { signal } = new AbortController();
const deletedUid = "00000000-0000-0000-0000-000000000001";
const otherUid = "00000000-0000-0000-0000-000000000002";
const otherMachine = sandboxVmName("lab", otherUid);
const deleted: KubeObject["metadata"] = {
  namespace: "lab",
  name: "s1",
  uid: deletedUid,
  deletionTimestamp: "2026-01-01T00:00:00Z",
  finalizers: [sandboxFinalizer],
};
const recorded = { ...deleted, annotations: { [sandboxMachineAnnotation]: `${deletedUid}/${otherMachine}` } };
const other: KubeObject["metadata"] = { namespace: "lab", name: "s2", uid: otherUid };

/** Names of the machines whose snapshots were settled, and how often the finalizer was removed. */
async function settle(sandbox: KubeObject["metadata"], ...rest: KubeObject["metadata"][]) {
  const machines: string[] = [];
  let writes = 0;
  const items = [sandbox, ...rest].map((metadata) => ({ metadata }));
  const write = () => {
    writes += 1;
    return Promise.resolve({ metadata: sandbox });
  };
  const client = {
    get: () => Promise.resolve({ metadata: sandbox }),
    // oxlint-disable-next-line typescript/require-await -- a page that is there already
    pages: async function* (type: unknown) {
      yield { items: type === sandboxes ? items : [] };
    },
    patch: write,
    update: write,
  } as unknown as KubeClient;
  const snapshots = {
    settle: (vmName: string) => {
      machines.push(vmName);
      return Promise.resolve();
    },
  } as unknown as Parameters<typeof settleSandbox>[0]["snapshots"];
  await settleSandbox({ client, snapshots, log: silentLogger }, { namespace: "lab", name: "s1" }, { signal });
  return { machines, writes };
}

test("the machine that is named after the Sandbox is settled, and so is one that it took over", async () => {
  assert.deepEqual(await settle(deleted, other), {
    machines: [sandboxVmName("lab", deletedUid)],
    writes: 1,
  });
  assert.deepEqual(await settle(recorded), { machines: [otherMachine], writes: 1 });
});

test("a record of a take-over that is not true leaves the machine of another Sandbox alone", async () => {
  assert.deepEqual(await settle(recorded, other), { machines: [], writes: 1 });
});
