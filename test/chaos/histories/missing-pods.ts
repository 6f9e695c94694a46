/** A pod that is missing is not a pod that was deleted. */
import assert from "node:assert/strict";
import { copyEtcd, loseNode, putEtcdBack } from "../faults.ts";
import { newModel } from "../model.ts";
import { requestOperation } from "../operations.ts";
import { writeTokens } from "../run-step.ts";
import { setKind, type Platform } from "../platform.ts";
import type { NamedHistory } from "./history.ts";
import {
  expectMemories,
  findNode,
  findStored,
  holds,
  listTags,
  play,
  pod,
  set,
  startMachine,
  step,
} from "./scenario.ts";

/** Longer than relists, resyncs and the first retries take. */
const watchMs = 40_000;

async function restoreOlderEtcd(platform: Platform): Promise<void> {
  const copy = await copyEtcd(platform, newModel());
  const model = await startMachine(platform);
  const before = findStored(platform);
  await putEtcdBack(platform, copy);
  const kept = () =>
    assert.deepEqual(findStored(platform), before, "the VM of a pod that etcd forgot is gone");
  await holds(platform, watchMs, kept);
  // What a user does who finds the set missing: the same file again.
  await requestOperation(platform, model, { kind: "create", set, replicas: 0 });
  await expectMemories(platform, model);
}

/** The copy names the node that the machine has left. What it has done since then is on the other one. */
async function restoreEtcdBeforeMove(platform: Platform): Promise<void> {
  const model = await startMachine(platform);
  const copy = await copyEtcd(platform, newModel());
  const node = (await findNode(platform)) === "cocoon-1" ? "cocoon-2" : "cocoon-1";
  await play(platform, model, step({ kind: "migrate", set, node }));
  await writeTokens(platform, model);
  const before = findStored(platform);
  await putEtcdBack(platform, copy);
  const kept = () => assert.deepEqual(findStored(platform), before, "the VM that had moved is gone");
  await holds(platform, watchMs, kept);
  // What a user does who finds the pod failed: VMGone.
  await platform.kubectl(["delete", `pod/${pod}`]);
  const restored = model.sets[set];
  if (restored) restored.node = undefined;
  await expectMemories(platform, model);
}

async function loseAndReturnNode(platform: Platform): Promise<void> {
  const model = await startMachine(platform);
  const before = findStored(platform);
  const node = await findNode(platform);
  for (const machine of Object.values(model.sets[set]?.machines ?? {})) machine.memoryMayBeLost = true;
  await loseNode(platform, node);
  await holds(platform, watchMs, () => {
    assert.ok(
      before.every((vmId) => findStored(platform).includes(vmId)),
      "the returned node destroyed its VM",
    );
  });
  await expectMemories(platform, model);
}

async function deleteByForce(platform: Platform): Promise<void> {
  const model = await startMachine(platform);
  await platform.kubectl([
    "patch",
    `${setKind}/${set}`,
    "--type=merge",
    "-p",
    '{"spec":{"snapshotPolicy":"never"}}',
  ]);
  await writeTokens(platform, model);
  const before = findStored(platform);
  await platform.kubectl(["delete", `pod/${pod}`, "--force", "--grace-period=0"]);
  await holds(platform, watchMs, async () => {
    const kept = before.every((vmId) => findStored(platform).includes(vmId));
    const tags = kept ? [] : await listTags(platform);
    assert.ok(kept || tags.length > 0, "the VM is gone and the registry has no snapshot of it");
  });
}

export const missingPods: readonly NamedHistory[] = [
  {
    name: "etcd-restored",
    finding: "A1",
    title: "etcd is restored from a copy that does not know the machine",
    run: restoreOlderEtcd,
  },
  {
    name: "etcd-restored-before-move",
    finding: "A1",
    title: "etcd is restored from a copy that names the node which the machine has left",
    run: restoreEtcdBeforeMove,
  },
  {
    name: "node-fenced-returns",
    finding: "A1",
    title: "a node is cut off and fenced, its pods are removed by force, and it returns",
    run: loseAndReturnNode,
  },
  {
    name: "pod-force-deleted",
    finding: "A1",
    title: "a user deletes a pod by force although the policy keeps no snapshot",
    run: deleteByForce,
  },
];
