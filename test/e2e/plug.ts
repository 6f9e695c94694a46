/**
 * The whole machine dies while its machines go to sleep: every process at once, at a random moment. After `up` everything
 * converges and nothing is lost: what was on disk is there, what was in memory is there once the snapshot was recorded,
 * and there is one copy of each machine.
 */
import assert from "node:assert/strict";
import { markedProcesses } from "@cocoon/controlplane";
import { sleep } from "@cocoon/core";
import { npm } from "./home.ts";
import { knownMachines, machineProcesses, pullThePlug, type Platform } from "./platform.ts";

const pods = ["demo-0", "demo-1"] as const;
const snapshotDigest = "vm.cocoonstack.io/snapshot-digest";

export interface PlugOptions {
  /** A text that tells this round's traces from others. */
  readonly round: string;
  /**
   * How long after the request to hibernate the plug is pulled; `recorded`: when the snapshot of the first machine has just been
   * written down, and its VM is still there.
   */
  readonly after: number | "recorded";
}

/** Returns which machines kept their memory. The set runs before and afterwards. */
export async function pullThePlugWhileFallingAsleep(
  platform: Platform,
  { round, after }: PlugOptions,
): Promise<string[]> {
  const { home, inGuest } = platform;
  for (const pod of pods)
    await inGuest(pod, `echo ${round} > /root/disk-note; sync; echo ${round} > /run/memory-note`);
  using watch = platform.watchPod("demo-0", snapshotDigest);
  await platform.suspend(true);
  if (after === "recorded") await watch.seen(/^sha256:/m);
  else await sleep(after, { signal: new AbortController().signal });
  const recorded = after === "recorded" ? ["demo-0"] : await podsWithRecordedSnapshot(platform);
  await pullThePlug(home);
  assert.deepEqual([markedProcesses(home), machineProcesses(home)], [[], []]);

  const up = await npm(home, "up");
  assert.equal(up.code, 0, up.stderr + up.stdout);
  await platform.reaches("Suspended");
  assert.deepEqual(await machinesOfDemo(home), [], "a machine that sleeps is in the registry alone");

  await platform.suspend(false);
  await platform.reaches("Running");
  const kept: string[] = [];
  for (const pod of pods) {
    assert.equal(await inGuest(pod, "cat /root/disk-note"), `${round}\n`, `the disk of ${pod}`);
    const memory = await inGuest(pod, "cat /run/memory-note 2>/dev/null || true");
    if (memory === `${round}\n`) kept.push(pod);
    else assert.ok(!recorded.includes(pod), `${pod} lost its memory after its snapshot was recorded`);
  }
  assert.deepEqual(
    await machinesOfDemo(home),
    pods.map((pod) => `vk-default-${pod} running`),
    "one copy of each machine",
  );
  assert.equal(machineProcesses(home).length, (await knownMachines(home)).length, "one process for each");
  return kept;
}

async function machinesOfDemo(home: string): Promise<string[]> {
  const machines = await knownMachines(home);
  return machines
    .filter(({ name }) => name.startsWith("vk-default-demo-"))
    .map(({ name, state }) => `${name} ${state}`)
    .toSorted();
}

async function podsWithRecordedSnapshot({ kubectl }: Platform): Promise<string[]> {
  const text = await kubectl("get", "pods", ...pods, "-o", "json");
  const { items } = JSON.parse(text) as {
    items: { metadata: { name: string; annotations: Record<string, string> } }[];
  };
  return items
    .filter(({ metadata }) => metadata.annotations[snapshotDigest] !== undefined)
    .map(({ metadata }) => metadata.name);
}
