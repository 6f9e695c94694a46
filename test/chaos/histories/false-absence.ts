/** One false "absent" must not boot a blank machine, and a blank machine must never delete the real one. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { openImageLibrary } from "@cocoon/images";
import { openQemuRuntime, openUserNetwork } from "@cocoon/qemu";
import { sleep } from "@cocoon/core";
import { signalPart } from "../parts.ts";
import { setKind, type Platform } from "../platform.ts";
import type { NamedHistory } from "./history.ts";
import {
  findNode,
  holds,
  isSnapshotKept,
  play,
  pod,
  reimageNode,
  set,
  startMachine,
  startSleeping,
  step,
  vmName,
} from "./scenario.ts";

const brokenMs = 25_000;
const watchMs = 40_000;

/** A proxy answers 404 for part of the registry while the machine is to wake. */
async function wakeWhileAbsent(
  platform: Platform,
  matches: (method: string, path: string) => boolean,
): Promise<void> {
  const { model, digest } = await startSleeping(platform);
  const fault = platform.registry.inject("notFound", matches);
  await platform.kubectl(["patch", `${setKind}/${set}`, "--type=merge", "-p", '{"spec":{"suspend":false}}']);
  await sleep(brokenMs, { signal: platform.signal });
  fault[Symbol.dispose]();
  assert.ok(platform.registry.counts.notFound > 0, "no request reached the registry");
  const asleep = await isSnapshotKept(platform, digest);
  platform.log(`  the snapshot is ${asleep ? "still there" : "no longer there"}`);
  await play(platform, model, step({ kind: "resume", set }));
}

/** A kubelet restarted on a replaced host: the pod's annotations are all that is left of the last sleep. */
async function wakeFreshKubelet(platform: Platform): Promise<void> {
  const { model, digest } = await startSleeping(platform);
  const node = await findNode(platform);
  await reimageNode(platform, node);
  const fault = platform.registry.inject("notFound", (_method, path) => path.includes(vmName));
  await platform.kubectl(["patch", `${setKind}/${set}`, "--type=merge", "-p", '{"spec":{"suspend":false}}']);
  await platform.up();
  await sleep(brokenMs, { signal: platform.signal });
  fault[Symbol.dispose]();
  assert.ok(await isSnapshotKept(platform, digest), "the snapshot of the sleeping machine is gone");
  await play(platform, model, step({ kind: "resume", set }));
}

/** Another kubelet, one that does not know how to restore, booted a blank VM under the name of a sleeping machine. */
async function adoptBlankMachine(platform: Platform): Promise<void> {
  const { digest } = await startSleeping(platform);
  const node = await findNode(platform);
  const part = node === "cocoon-1" ? "vk-node-1" : "vk-node-2";
  await signalPart(platform.home, "supervisor", "SIGSTOP"); // until the next up
  await signalPart(platform.home, part, "SIGKILL");
  await bootBlank(platform, join(platform.home, "parts", node === "cocoon-1" ? "node-1" : "node-2"));
  await platform.kubectl(["patch", `${setKind}/${set}`, "--type=merge", "-p", '{"spec":{"suspend":false}}']);
  await platform.up();
  await holds(platform, 60_000, async () => {
    assert.ok(
      await isSnapshotKept(platform, digest),
      "a VM that did not come from the snapshot let it be dropped",
    );
  });
}

async function bootBlank(platform: Platform, rootDirectory: string): Promise<void> {
  const { signal } = platform;
  const network = await openUserNetwork({ directory: join(rootDirectory, "net") });
  await using runtime = await openQemuRuntime({
    rootDirectory,
    images: openImageLibrary({ directory: join(platform.home, "parts", "images") }),
    networks: new Map([["user", network]]),
    path: process.env["PATH"] ?? "",
    recover: false,
    signal,
  });
  const mebibyte = 1024 * 1024;
  await runtime.run(
    {
      name: vmName,
      image: "cocoon-demo",
      cpus: 1,
      memoryBytes: 128 * mebibyte,
      storageBytes: 256 * mebibyte,
      labels: { "cocoon.pod": `default/${pod}` },
    },
    { signal },
  );
}

/** The host was replaced while its machine was awake, and the set is suspended before the kubelet is back. */
async function suspendGoneMachine(platform: Platform): Promise<void> {
  await startMachine(platform);
  const node = await findNode(platform);
  await reimageNode(platform, node);
  await platform.kubectl(["patch", `${setKind}/${set}`, "--type=merge", "-p", '{"spec":{"suspend":true}}']);
  await sleep(2_000, { signal: platform.signal });
  await platform.up();
  await holds(platform, watchMs, async () => {
    const { status } = await platform.registry.lookup(`/v2/${vmName}/manifests/hibernate`);
    assert.equal(status, 404, "an empty machine was booted, saved and published as the sleeping one");
  });
}

/** A sub-agent sleeps; at its wake the registry answers 404 for long enough that the operator replaces its pod. */
async function rebuildSleepingAgent(platform: Platform): Promise<void> {
  const model = await startMachine(platform, 1);
  const agent = `${set}-1`;
  await play(platform, model, step({ kind: "hibernate", pod: agent }));
  const fault = platform.registry.inject("notFound", (_method, path) => path.includes(`vk-default-${agent}`));
  await platform.kubectl(["delete", `pod/${agent}`, "--force", "--grace-period=0"]);
  await sleep(brokenMs, { signal: platform.signal });
  fault[Symbol.dispose]();
  await play(platform, model, step({ kind: "wake", pod: agent }));
}

export const falseAbsence: readonly NamedHistory[] = [
  {
    name: "manifest-404-at-wake",
    finding: "A2",
    title: "a proxy answers 404 for manifests while the machine wakes",
    run: (platform) => wakeWhileAbsent(platform, (_method, path) => path.includes("/manifests/")),
  },
  {
    name: "blob-404-at-wake",
    finding: "A2",
    title: "blobs of an existing manifest answer 404 while the machine wakes",
    run: (platform) =>
      wakeWhileAbsent(platform, (method, path) => method !== "PUT" && path.includes("/blobs/")),
  },
  {
    name: "404-after-host-replaced",
    finding: "A2",
    title: "the host is replaced and the registry answers 404 at the wake",
    run: wakeFreshKubelet,
  },
  {
    name: "blank-machine-adopted",
    finding: "25",
    title: "another kubelet boots a blank VM under the name of a sleeping machine",
    run: adoptBlankMachine,
  },
  {
    name: "suspend-after-host-replaced",
    finding: "A3",
    title: "the host is replaced and the set is suspended before its kubelet is back",
    run: suspendGoneMachine,
  },
  {
    name: "sleeping-agent-rebuilt",
    finding: "A4",
    title: "the pod of a sleeping sub-agent is lost while the registry answers 404",
    run: rebuildSleepingAgent,
  },
];
