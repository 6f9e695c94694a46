/** A snapshot is restored once, and is kept until the machine that came from it is safe. */
import assert from "node:assert/strict";
import { sleep } from "@cocoon/core";
import { listMachineProcesses } from "../machines.ts";
import { partOfNode, signalPart } from "../parts.ts";
import { setKind, type Platform } from "../platform.ts";
import type { NamedHistory } from "./history.ts";
import {
  assertNoDuplicates,
  findNode,
  holds,
  isSnapshotKept,
  play,
  pod,
  reimageNode,
  set,
  startSleeping,
  step,
  vmName,
  waitForProcess,
} from "./scenario.ts";

async function patchSet(platform: Platform, spec: unknown): Promise<void> {
  await platform.kubectl(["patch", `${setKind}/${set}`, "--type=merge", "-p", JSON.stringify({ spec })]);
}

/** The first node stands still in the middle of the wake; its pod is removed and made again for the second node. */
async function wakeOnTwoNodes(platform: Platform): Promise<void> {
  await startSleeping(platform);
  await patchSet(platform, { suspend: false });
  const node = await waitForProcess(platform);
  await signalPart(platform.home, partOfNode(node), "SIGSTOP");
  const other = node === "cocoon-1" ? "cocoon-2" : "cocoon-1";
  await patchSet(platform, { nodeName: other });
  await platform.kubectl(["delete", `pod/${pod}`, "--force", "--grace-period=0"]);
  try {
    await holds(platform, 45_000, () => assertNoDuplicates(platform));
  } finally {
    await signalPart(platform.home, partOfNode(node), "SIGCONT");
  }
  await holds(platform, 15_000, () => assertNoDuplicates(platform));
  assert.ok(listMachineProcesses(platform.home).filter((each) => each.vmName === vmName).length <= 1);
}

/** The machine woke, its snapshot could not be dropped yet; then its host and its pod are lost. */
async function loseAfterWake(platform: Platform): Promise<void> {
  const { model, digest } = await startSleeping(platform);
  const fault = platform.registry.inject("unavailable", (method) => method === "DELETE");
  await patchSet(platform, { suspend: false });
  await sleep(45_000, { signal: platform.signal });
  const node = await findNode(platform);
  await reimageNode(platform, node);
  await platform.kubectl(["delete", `pod/${pod}`, "--force", "--grace-period=0"]);
  fault[Symbol.dispose]();
  await platform.up();
  await holds(platform, 40_000, async () => {
    assert.ok(await isSnapshotKept(platform, digest), "the last copy of the machine was dropped");
  });
  assert.ok(model);
}

/** A user copies the file of a set under another name, with all its annotations, and deletes the copy. */
async function deleteCopiedSet(platform: Platform): Promise<void> {
  const { model, digest } = await startSleeping(platform);
  const copy = "copy";
  const manifest = {
    apiVersion: "cocoonset.cocoonstack.io/v1",
    kind: "CocoonSet",
    metadata: {
      name: copy,
      namespace: "default",
      annotations: {
        "cocoonset.cocoonstack.io/delete-vm-names": vmName,
        "cocoonset.cocoonstack.io/released-vm-names": vmName,
      },
    },
    spec: {
      suspend: true,
      agent: {
        image: "cocoon-demo",
        mode: "run",
        storage: "256Mi",
        resources: { requests: { cpu: "50m", memory: "128Mi" } },
      },
    },
  };
  await platform.kubectl(["apply", "-f", "-"], JSON.stringify(manifest));
  await sleep(5_000, { signal: platform.signal });
  await platform.kubectl(["delete", `${setKind}/${copy}`, "--wait=false"]);
  await holds(platform, 20_000, async () => {
    const { status } = await platform.registry.lookup(`/v2/${vmName}/manifests/hibernate`);
    const kept = await isSnapshotKept(platform, digest);
    assert.deepEqual(
      [status, kept],
      [200, true],
      "deleting a copy of the set touched the original's machine",
    );
  });
  await play(platform, model, step({ kind: "resume", set }));
}

/** A pod in another namespace carries the name of a sleeping machine. */
async function takeNameFromOtherNamespace(platform: Platform): Promise<void> {
  const { model } = await startSleeping(platform);
  await platform.kubectl(["create", "namespace", "other"]);
  const manifest = {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name: "thief",
      namespace: "other",
      annotations: {
        "vm.cocoonstack.io/name": vmName,
        "vm.cocoonstack.io/restore-from-hibernate": "true",
        "cocoonset.cocoonstack.io/managed": "true",
        "cocoonset.cocoonstack.io/image": "cocoon-demo",
        "cocoonset.cocoonstack.io/mode": "run",
      },
    },
    spec: {
      nodeName: "cocoon-1",
      automountServiceAccountToken: false,
      tolerations: [{ operator: "Exists" }],
      containers: [
        { name: "agent", image: "cocoon-demo", resources: { requests: { cpu: "50m", memory: "128Mi" } } },
      ],
    },
  };
  const ran = await platform.tryKubectl(["apply", "-f", "-"], JSON.stringify(manifest));
  platform.log(`  the pod is ${ran.code === 0 ? "admitted" : "refused"}`);
  await holds(platform, 40_000, () => {
    const running = listMachineProcesses(platform.home).filter((each) => each.vmName === vmName);
    assert.deepEqual(running, [], "a pod of another namespace woke the machine");
  });
  await platform.kubectl(["delete", "namespace", "other", "--wait=false"]);
  await play(platform, model, step({ kind: "resume", set }));
}

export const claims: readonly NamedHistory[] = [
  {
    name: "wake-on-two-nodes",
    finding: "A5",
    title: "a node goes silent while it wakes a machine, and the machine is wanted on another node",
    keepsVm: true,
    run: wakeOnTwoNodes,
  },
  {
    name: "lost-right-after-wake",
    finding: "A7",
    title: "pod and host are lost after a wake whose snapshot could not be dropped yet",
    run: loseAfterWake,
  },
  {
    name: "copied-set-deleted",
    finding: "A8",
    title: "a set is copied with its annotations and the copy is deleted",
    run: deleteCopiedSet,
  },
  {
    name: "name-taken-by-tenant",
    finding: "C20",
    title: "a pod of another namespace carries the name of a sleeping machine",
    run: takeNameFromOtherNamespace,
  },
];
