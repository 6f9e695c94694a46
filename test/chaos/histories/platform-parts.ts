/** Parts of a platform on one machine. */
import assert from "node:assert/strict";
import { watch } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { findRunning } from "@cocoon/controlplane";
import { sleep } from "@cocoon/core";
import { killProcess } from "../machines.ts";
import { findDeadParts, partOfNode, signalPart } from "../parts.ts";
import { setKind, type Platform } from "../platform.ts";
import type { NamedHistory } from "./history.ts";
import { findNode, findStored, play, pod, set, startMachine, step } from "./scenario.ts";

/** Longer than a lease lasts. */
const breakMs = 25_000;
const restartMs = 60_000;

async function breakApiServer(platform: Platform): Promise<void> {
  const model = await startMachine(platform);
  await signalPart(platform.home, "kube-apiserver", "SIGSTOP");
  await sleep(breakMs, { signal: platform.signal });
  await signalPart(platform.home, "kube-apiserver", "SIGCONT");
  const until = performance.now() + restartMs;
  // Nothing is started from outside here.
  await sleep(15_000, { signal: platform.signal });
  while ((await findDeadParts(platform.home)).length > 0 && performance.now() < until)
    await sleep(500, { signal: platform.signal });
  assert.deepEqual(await findDeadParts(platform.home), [], "parts that ended and stayed away");
  await play(platform, model, step({ kind: "suspend", set }));
}

async function changePath(platform: Platform): Promise<void> {
  await startMachine(platform);
  const parts = ["vk-node-1", "vk-node-2", "operator", "registry"];
  const identify = () =>
    Promise.all(parts.map(async (part) => (await findRunning(platform.home, part))?.pid));
  const before = await identify();
  await platform.up({ PATH: `/opt/added:${process.env["PATH"] ?? ""}` });
  assert.deepEqual(await identify(), before, "up with another PATH restarted healthy parts");
}

/** Every sleep adds a disk layer; beyond eight they are merged while the guest runs. */
const mergedAfter = 10;

async function killAfterMerge(platform: Platform): Promise<void> {
  const model = await startMachine(platform);
  const log = async () =>
    (
      await Promise.all(
        ["vk-node-1", "vk-node-2"].map((part) =>
          readFile(join(platform.home, "logs", `${part}.log`), "utf8"),
        ),
      )
    ).join("");
  for (let cycle = 1; cycle <= mergedAfter + 4; cycle += 1) {
    const random = `head -c 3000000 /dev/urandom > /root/layer-${cycle}; sync`;
    await platform.kubectl(["exec", pod, "--", "sh", "-c", random]);
    await play(platform, model, step({ kind: "suspend", set }), step({ kind: "resume", set }));
    if (/thinning out|merging disk layers|merg/.test(await log())) break;
  }
  assert.match(await log(), /thinning out|merg/, "layers were never merged");
  await sleep(1_500, { signal: platform.signal });
  await play(platform, model, { operations: [], faults: [{ kind: "killGuest", pod, afterMs: 0 }] });
  await platform.kubectl(["get", `${setKind}/${set}`]);
}

/** The kubelet dies in the middle of a save, when the new disk layer was made and is not in use yet. */
async function killWhileSaving(platform: Platform): Promise<void> {
  const model = await startMachine(platform);
  const node = await findNode(platform);
  const [vmId = ""] = findStored(platform);
  const directory = join(platform.home, "parts", node === "cocoon-1" ? "node-1" : "node-2");
  const kubelet = await findRunning(platform.home, partOfNode(node));
  assert.ok(kubelet);
  const files = join(directory, "qemu", "vms", vmId, "files-1");
  const watcher = watch(files, (_event, name) => {
    if (!/^root-\d+\.qcow2$/.test(name ?? "") || name === "root-1.qcow2") return;
    watcher.close();
    killProcess(kubelet.pid, "SIGKILL");
  });
  try {
    await play(platform, model, step({ kind: "suspend", set }), step({ kind: "resume", set }));
  } finally {
    watcher.close();
  }
}

export const platformParts: readonly NamedHistory[] = [
  {
    name: "killed-while-saving",
    finding: "I3",
    title: "the kubelet is killed when a save has just made a new disk layer",
    run: killWhileSaving,
  },
  {
    name: "api-server-break",
    finding: "26",
    title: "the API server stands still for longer than a lease lasts",
    run: breakApiServer,
  },
  {
    name: "up-with-other-path",
    finding: "28",
    title: "up is repeated by a shell with another PATH",
    run: changePath,
  },
  {
    name: "killed-after-merge",
    finding: "24",
    title: "QEMU is killed right after disk layers were merged",
    run: killAfterMerge,
  },
];
