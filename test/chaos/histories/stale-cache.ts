/** A controller whose cache is behind must not delete what the API server knows better. */
import assert from "node:assert/strict";
import { eventually } from "@cocoon/testkit";
import { startApiProxy } from "../api-proxy.ts";
import { listMachineProcesses } from "../machines.ts";
import { setKind, type Platform } from "../platform.ts";
import type { NamedHistory } from "./history.ts";
import { expectMemories, findNode, holds, pod, startMachine, set, vmName } from "./scenario.ts";

/** A migration is given back after this time when the machine has not arrived. */
const timeoutSeconds = 20;

/**
 * The machine has arrived on its new node, the operator's cache still shows a pod without VM, and the time of the
 * migration is over.
 */
async function giveBackOnStaleCache(platform: Platform): Promise<void> {
  const model = await startMachine(platform);
  const node = await findNode(platform);
  const target = node === "cocoon-1" ? "cocoon-2" : "cocoon-1";
  await using proxy = await startApiProxy(platform, "operator", "cocoon-operator");
  const spec = { nodeName: target, migration: { timeout: `${timeoutSeconds}s` } };
  await platform.kubectl(["patch", `${setKind}/${set}`, "--type=merge", "-p", JSON.stringify({ spec })]);
  const find = async () => (await platform.listPods()).find(({ metadata }) => metadata.name === pod);
  await eventually(async () => assert.equal((await find())?.spec.nodeName, target), {
    timeoutMs: 90_000,
    intervalMs: 20,
    signal: platform.signal,
  });
  proxy.holdWatches("/pods");
  const arrived = await eventually(
    async () => {
      const found = await find();
      assert.equal(found?.metadata.annotations?.["vm.cocoonstack.io/lifecycle-state"], "ready");
      return found;
    },
    { timeoutMs: 90_000, signal: platform.signal },
  );
  const [running] = listMachineProcesses(platform.home).filter((each) => each.vmName === vmName);
  assert.ok(running && arrived);
  await holds(platform, (timeoutSeconds + 15) * 1000, async () => {
    const now = listMachineProcesses(platform.home).filter((each) => each.vmName === vmName);
    assert.deepEqual(now, [running], "the machine that had arrived was ended");
    const { metadata } = (await find()) ?? {};
    assert.deepEqual([metadata?.uid, metadata?.deletionTimestamp], [arrived.metadata.uid, undefined]);
  });
  proxy.releaseWatches();
  const main = model.sets[set];
  if (main) main.node = target;
  await expectMemories(platform, model);
}

export const staleCache: readonly NamedHistory[] = [
  {
    name: "migration-on-stale-cache",
    finding: "A6",
    title:
      "the time of a migration is over, the machine has arrived, and the operator's cache does not show it",
    run: giveBackOnStaleCache,
  },
];
