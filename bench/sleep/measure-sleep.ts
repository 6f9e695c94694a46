/** A guest with content that hibernates: what is sent, how long it takes, how long the guest stands still. */
import { setTimeout as pause } from "node:timers/promises";
import type { Abortable } from "@cocoon/core";
import type { Vm } from "@cocoon/vm";
import { machine, runIn } from "../vm/measure.ts";
import type { Node, Slept } from "./lab.ts";
import { startTicking } from "./ticking.ts";

const changedPart = 0.05;
/** Between two hibernations the guest idles. */
const idleMs = 3_000;

/** Pieces of a prime length of random bytes: no two chunks are equal, and none compresses. */
function fillScript(file: string, mib: number): string {
  const seed = "dd if=/dev/urandom of=/run/seed bs=1000003 count=1 2>/dev/null";
  const mount = "mkdir -p /dev/shm; mountpoint -q /dev/shm || mount -t tmpfs -o size=95% none /dev/shm";
  return `${mount}; ${seed}; i=0; while [ $i -lt ${mib} ]; do cat /run/seed; i=$((i+1)); done > /dev/shm/${file}`;
}

/** A running machine whose memory is filled. */
export async function bootFilled(
  { runtime }: Node,
  { sizeMib, fill, signal }: Abortable & { readonly sizeMib: number; readonly fill: number },
): Promise<Vm> {
  const { id } = await runtime.run({ ...machine(sizeMib), name: "sleeper" }, { signal });
  const vm = await runtime.waitReady(id, { signal });
  await runIn(runtime, vm, fillScript("content", Math.floor(sizeMib * fill)));
  return vm;
}

async function resume({ runtime }: Node, id: string, { signal }: Abortable): Promise<void> {
  await runtime.resume(id, { signal });
  await pause(idleMs, undefined, { signal });
}

/** The peer: everything, in one piece, while the guest stands still. */
export async function measureFullPush(node: Node, { id }: Vm, options: Abortable): Promise<Slept> {
  const slept = await node.sleep(id, { format: "v2", ...options });
  await resume(node, id, options);
  return slept;
}

export interface CancelledSleep extends Slept {
  /** It was cancelled when all was pushed: for how long the guest stood still. */
  readonly freezeMs: number;
}

export async function measureSleep(node: Node, { id }: Vm, options: Abortable): Promise<CancelledSleep> {
  const ticking = await startTicking(node.runtime, { id, ...options });
  const slept = await node.sleep(id, { format: "packed", ...options });
  const next = ticking.nextTick();
  await node.runtime.resume(id, options);
  await next;
  const freezeMs = ticking.longestMs;
  await ticking[Symbol.asyncDispose]();
  await pause(idleMs, undefined, options);
  return { ...slept, freezeMs };
}

/** After the guest wrote a part of its memory anew. */
export async function measureChangedSleep(
  node: Node,
  vm: Vm,
  options: Abortable & { readonly sizeMib: number },
): Promise<CancelledSleep & { readonly changedBytes: number }> {
  const changedMib = Math.max(1, Math.floor(options.sizeMib * changedPart));
  await runIn(node.runtime, vm, fillScript("change", changedMib));
  const slept = await measureSleep(node, vm, options);
  return { ...slept, changedBytes: changedMib * 1_000_003 };
}

export interface Departure {
  readonly slept: Slept;
  readonly lastTickAt: number;
}

/** Hibernates for good; the VM is gone afterwards. */
export async function measureDeparture(node: Node, { id }: Vm, options: Abortable): Promise<Departure> {
  const ticking = await startTicking(node.runtime, { id, ...options });
  const slept = await node.sleep(id, { format: "packed", ...options });
  const { lastAt: lastTickAt } = ticking;
  await node.runtime.remove(id, { force: true, ...options });
  return { slept, lastTickAt };
}
