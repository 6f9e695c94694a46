/** A machine that wakes on a node: until it answers, and until everything is there. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import type { Abortable } from "@cocoon/core";
import { residentMiB, runIn } from "../vm/measure.ts";
import type { Node } from "./lab.ts";

export interface Wake {
  readonly answerMs: number;
  readonly answerBytes: number;
  readonly localMs: number;
  readonly localBytes: number;
  /** Memory of the process that serves its pages, the most of it while it loads, and when all is local. */
  readonly serverMiB?: { readonly loading: number; readonly local: number };
}

export interface WokenMachine {
  readonly id: string;
  readonly answeredAt: number;
  readonly wake: Wake;
}

const pollMs = 20;
/** Until the page server has given back what it does not need any more. */
const settleMs = 3_000;

export async function measureWake(
  node: Node,
  start: () => Promise<string>,
  { signal }: Abortable,
): Promise<WokenMachine> {
  const [began, before] = [performance.now(), node.link.received];
  const id = await start();
  const vm = await node.runtime.inspect(id, { signal });
  await runIn(node.runtime, vm, "cat /etc/hostname");
  const answeredAt = performance.now();
  const answerBytes = node.link.received - before;
  let loading = 0;
  while ((await node.runtime.inspect(id, { signal })).loading) {
    loading = Math.max(loading, (await measureServer(node, id)) ?? 0);
    await pause(pollMs, undefined, { signal });
  }
  const [localMs, localBytes] = [performance.now() - began, node.link.received - before];
  await pause(settleMs, undefined, { signal });
  const local = await measureServer(node, id);
  const wake = { answerMs: answeredAt - began, answerBytes, localMs, localBytes };
  return {
    id,
    answeredAt,
    wake: local === undefined ? wake : { ...wake, serverMiB: { loading, local } },
  };
}

/** Undefined when no process serves its pages. */
async function measureServer({ root }: Node, id: string): Promise<number | undefined> {
  try {
    const text = await readFile(join(root, "qemu", "vms", id, "loading.json"), "utf8");
    const { server } = JSON.parse(text) as { readonly server?: { readonly pid: number } };
    return server && (await residentMiB(server.pid));
  } catch {
    return undefined;
  }
}
