/** What named histories share: a machine with tokens, and checks of what became of it. */
import assert from "node:assert/strict";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { sleep } from "@cocoon/core";
import { killProcess, listMachineProcesses, listStoredMachines } from "../machines.ts";
import { computeVmName, newModel, type Model } from "../model.ts";
import { nodeNames, partOfNode, signalPart, type NodeName } from "../parts.ts";
import { writeTokens, runStep } from "../run-step.ts";
import { describeStep, type Operation, type PlacedFault, type Step } from "../steps.ts";
import type { Platform } from "../platform.ts";

export const set = "alpha";
export const pod = "alpha-0";
export const vmName = computeVmName(pod);

const settleMs = 150_000;

export function step(operation: Operation, ...faults: PlacedFault[]): Step {
  return { operations: [operation], faults };
}

/** Runs the steps; the first broken promise is thrown. */
export async function play(platform: Platform, model: Model, ...steps: Step[]): Promise<void> {
  for (const each of steps) {
    platform.log(`  ${describeStep(each)}`);
    const { violations } = await runStep(platform, model, { step: each, settleMs, copy: undefined });
    assert.deepEqual(violations, []);
  }
}

/** Waits until the machines are as requested, and checks that they hold what was written into them before. */
export async function expectMemories(platform: Platform, model: Model): Promise<void> {
  const options = { step: { operations: [], faults: [] }, settleMs, copy: undefined, writesTokens: false };
  assert.deepEqual((await runStep(platform, model, options)).violations, []);
}

/** A set with one machine, or more, that have a token on disk and in memory. */
export async function startMachine(platform: Platform, replicas = 0): Promise<Model> {
  const model = newModel();
  await play(platform, model, step({ kind: "create", set, replicas }));
  await writeTokens(platform, model);
  return model;
}

/** A machine that sleeps, with the digest it sleeps in. */
export async function startSleeping(
  platform: Platform,
): Promise<{ readonly model: Model; readonly digest: string }> {
  const model = await startMachine(platform);
  await play(platform, model, step({ kind: "suspend", set }));
  const { digest } = await platform.registry.lookup(`/v2/${vmName}/manifests/hibernate`);
  assert.match(digest, /^sha256:/);
  return { model, digest };
}

/** Whether any tag of the machine still names that snapshot. */
export async function isSnapshotKept(platform: Platform, digest: string): Promise<boolean> {
  const { status, body } = await platform.registry.lookup(`/v2/${vmName}/tags/list`);
  if (status !== 200) return false;
  const { tags } = JSON.parse(body) as { tags: readonly string[] | null };
  for (const tag of tags ?? []) {
    const found = await platform.registry.lookup(`/v2/${vmName}/manifests/${tag}`);
    if (found.status === 200 && found.digest === digest) return true;
  }
  return false;
}

export async function listTags(platform: Platform): Promise<string[]> {
  const { status, body } = await platform.registry.lookup(`/v2/${vmName}/tags/list`);
  return status === 200 ? [...((JSON.parse(body) as { tags: string[] | null }).tags ?? [])] : [];
}

/** Holds for all of that time, checked several times a second. */
export async function holds(
  platform: Platform,
  forMs: number,
  check: () => void | Promise<void>,
): Promise<void> {
  const until = performance.now() + forMs;
  do {
    await check();
    await sleep(400, { signal: platform.signal });
  } while (performance.now() < until);
}

export async function findNode(platform: Platform, name = pod): Promise<NodeName> {
  const text = await platform.kubectl(["get", `pod/${name}`, "-o", "jsonpath={.spec.nodeName}"]);
  const node = nodeNames.find((each) => each === text);
  assert.ok(node, `${name} has no node`);
  return node;
}

export function findStored(platform: Platform, name = vmName): string[] {
  return listStoredMachines(platform.home)
    .filter((each) => each.vmName === name)
    .map(({ vmId }) => vmId);
}

export function assertNoDuplicates(platform: Platform): void {
  assert.deepEqual(platform.duplicates.take(), []);
}

/**
 * The host was replaced: its processes and its store are gone, the node's name stays. Its kubelet starts with the
 * next `up`.
 */
export async function reimageNode(platform: Platform, node: NodeName): Promise<void> {
  await signalPart(platform.home, "supervisor", "SIGSTOP");
  await signalPart(platform.home, partOfNode(node), "SIGKILL");
  for (const machine of listMachineProcesses(platform.home))
    if (machine.node === node) killProcess(machine.pid, "SIGKILL");
  await sleep(300, { signal: platform.signal });
  await rm(nodeDirectory(platform, node), { recursive: true, force: true });
}

/** Machines and snapshots of a node. */
export function nodeDirectory({ home }: Platform, node: NodeName): string {
  return join(home, "parts", node === "cocoon-1" ? "node-1" : "node-2");
}

/** Waits until the machine has a process, and returns its node. */
export async function waitForProcess(platform: Platform, name = vmName): Promise<NodeName> {
  const until = performance.now() + 90_000;
  for (;;) {
    const found = listMachineProcesses(platform.home).find((each) => each.vmName === name);
    if (found) return found.node;
    assert.ok(performance.now() < until, `${name} has no process`);
    await sleep(10, { signal: platform.signal });
  }
}
