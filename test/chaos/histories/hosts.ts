/** Hosts of nodes: two with one name, and one whose disk loses what was not flushed. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { cp, readFile, rename } from "node:fs/promises";
import { join } from "node:path";
import { findRunning } from "@cocoon/controlplane";
import { sleep } from "@cocoon/core";
import { freePort, runCommand } from "@cocoon/testkit";
import { openLossyDisk } from "../../integration/vm/lossy-disk.ts";
import { killProcess, listMachineProcesses } from "../machines.ts";
import { listMachines } from "../model.ts";
import { partOfNode, signalPart, type NodeName } from "../parts.ts";
import type { Platform } from "../platform.ts";
import { writeTokens } from "../run-step.ts";
import type { NamedHistory } from "./history.ts";
import {
  assertNoDuplicates,
  expectMemories,
  findNode,
  findStored,
  nodeDirectory,
  play,
  set,
  startMachine,
  step,
} from "./scenario.ts";

/** Longer than a lease lasts. */
const refusalMs = 90_000;

/** What the kubelet of a node was started with. */
async function readProgram(platform: Platform, node: NodeName) {
  const identity = await findRunning(platform.home, partOfNode(node));
  assert.ok(identity, `the kubelet of ${node} does not run`);
  const read = async (name: string) =>
    (await readFile(`/proc/${identity.pid}/${name}`, "utf8")).split("\0").filter((text) => text !== "");
  const [command = "", ...args] = await read("cmdline");
  const env = Object.fromEntries(
    (await read("environ")).map((text) => [
      text.slice(0, text.indexOf("=")),
      text.slice(text.indexOf("=") + 1),
    ]),
  );
  return { command, args, env };
}

/** A second host is given the name of the first, whose kubelet is silent for a while just then. */
async function startHostWithSameName(platform: Platform): Promise<void> {
  const model = await startMachine(platform);
  const node = await findNode(platform);
  const before = findStored(platform);
  const { command, args, env } = await readProgram(platform, node);
  await signalPart(platform.home, partOfNode(node), "SIGSTOP");
  const second = spawn(command, args, {
    env: {
      ...env,
      COCOON_COMPONENT: join(platform.home, "second-host"),
      COCOON_ROOT_DIR: join(platform.home, "..", "second-host"),
      VK_USER_SUBNET: "127.109.0.0/16",
      VK_KUBELET_PORT: String(await freePort()),
      VK_METRICS_ADDR: `127.0.0.1:${await freePort()}`,
    },
    stdio: ["ignore", "pipe", "pipe"],
    signal: AbortSignal.any([platform.signal, AbortSignal.timeout(refusalMs)]),
    killSignal: "SIGKILL",
  });
  let output = "";
  for (const stream of [second.stdout, second.stderr])
    stream.setEncoding("utf8").on("data", (text: string) => (output += text));
  const ended = once(second, "exit").catch((error: unknown) => [String(error)]);
  await sleep(12_000, { signal: platform.signal });
  await signalPart(platform.home, partOfNode(node), "SIGCONT");
  const [code] = (await ended) as [number | string | null];
  assert.ok(
    typeof code === "number" && code !== 0,
    `the second host goes on (${code}): ${output.slice(-800)}`,
  );
  assert.match(output, /node name cocoon-\d is in use by host/);
  assertNoDuplicates(platform);
  assert.deepEqual(findStored(platform), before);
  await expectMemories(platform, model);
}

const diskBytes = 2 * 1024 * 1024 * 1024;

/** As it was before the power cut for long: nothing of it is lost. */
async function copyFlushed(from: string, to: string): Promise<void> {
  for (const command of [
    ["cp", "--archive", "--sparse=always", `${from}/.`, to],
    ["sync", "--file-system", to],
  ] as const) {
    const [program, ...args] = command;
    const ran = await runCommand(program, args);
    assert.equal(ran.code, 0, ran.stderr);
  }
}

/** Puts other content in the place of a node's directory while its kubelet and machines do not run. */
async function mountNode(platform: Platform, node: NodeName, source: string): Promise<AsyncDisposable> {
  const directory = nodeDirectory(platform, node);
  const mounted = await runCommand("mount", ["--bind", source, directory]);
  assert.equal(mounted.code, 0, mounted.stderr);
  return {
    [Symbol.asyncDispose]: async () => {
      await runCommand("umount", ["--lazy", directory]);
    },
  };
}

async function stopNode(platform: Platform, node: NodeName): Promise<void> {
  await signalPart(platform.home, "supervisor", "SIGSTOP"); // until the next up
  await signalPart(platform.home, partOfNode(node), "SIGKILL");
  for (const machine of listMachineProcesses(platform.home))
    if (machine.node === node) killProcess(machine.pid, "SIGKILL");
  await sleep(300, { signal: platform.signal });
}

/** The host loses power; of what was not flushed half of the blocks are lost. */
async function loseUnflushedWrites(platform: Platform): Promise<void> {
  const model = await startMachine(platform);
  const node = await findNode(platform);
  const directory = nodeDirectory(platform, node);
  await play(platform, model, step({ kind: "suspend", set }));
  await using disk = await openLossyDisk(diskBytes);
  await stopNode(platform, node);
  await copyFlushed(directory, disk.path);
  await rename(directory, `${directory}.before`);
  await cp(`${directory}.before`, directory, { recursive: true });
  await using _lossy = await mountNode(platform, node, disk.path);
  await platform.up();
  await play(
    platform,
    model,
    step({ kind: "migrate", set, node }),
    step({ kind: "resume", set }),
    step({ kind: "suspend", set }),
    step({ kind: "resume", set }),
  );
  await writeTokens(platform, model);
  const cut = await disk.cut({ keep: 0.5, seed: 7 });
  await stopNode(platform, node);
  for (const { machine } of listMachines(model)) machine.memoryMayBeLost = true;
  platform.log(`  ${cut.unflushed} blocks were not flushed`);
  await using after = await cut.mount();
  await using _after = await mountNode(platform, node, after.path);
  await platform.up();
  await expectMemories(platform, model);
  await play(platform, model, step({ kind: "suspend", set }), step({ kind: "delete", set }));
  await stopNode(platform, node);
  await _after[Symbol.asyncDispose]();
  await _lossy[Symbol.asyncDispose]();
  await platform.up();
}

export const hosts: readonly NamedHistory[] = [
  {
    name: "two-hosts-one-name",
    finding: "A9",
    title: "a second host is started with the name of a node whose kubelet is silent for a moment",
    run: startHostWithSameName,
  },
  {
    name: "unflushed-writes-lost",
    finding: "24",
    title: "a host loses power and its disk loses what was not flushed",
    run: loseUnflushedWrites,
  },
];
