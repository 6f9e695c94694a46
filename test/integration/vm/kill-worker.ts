/**
 * Does things to VMs until it is killed; says what it is about to do and what it has done, one JSON line each. Started
 * by the kill-cycle test, which reads those lines and the store afterwards.
 *
 *   node kill-worker.ts ROOT SEED SNAPSHOT
 */
import { writeSync } from "node:fs";
import { seededRandom } from "@cocoon/testkit";
import type { VmRuntime } from "@cocoon/vm";
import { openQemuRuntimeIn } from "./qemu-harness.ts";

const [root = "", seed = "0", golden = ""] = process.argv.slice(2);
const random = seededRandom(Number(seed));
const { signal } = new AbortController();
const maxVms = 2;

/** Written at once: a line that waits in a buffer when we are killed would be a lie. */
function say(line: Record<string, unknown>): void {
  writeSync(1, `${JSON.stringify(line)}\n`);
}

function pick<T>(from: readonly T[]): T | undefined {
  return from[Math.floor(random() * from.length)];
}

interface Known {
  readonly vms: Map<string, string>;
  readonly snapshots: { readonly id: string; readonly vm: string }[];
}

type Step = (runtime: VmRuntime, known: Known) => Promise<void>;

let count = 0;
function newName(kind: string): string {
  count += 1;
  return `${kind}-${seed}-${count}`;
}

async function act<T>(
  what: { readonly op: string; readonly vm?: string },
  work: () => Promise<T>,
): Promise<T> {
  say({ begin: what });
  const result = await work();
  say({ done: what });
  return result;
}

const steps: Readonly<Record<string, Step>> = {
  clone: async (runtime, { vms }) => {
    if (vms.size >= maxVms) return;
    const name = newName("clone");
    const vm = await act({ op: "clone", vm: name }, () =>
      runtime.clone({ name, snapshot: golden }, { signal }),
    );
    vms.set(name, vm.id);
  },
  fork: async (runtime, { vms }) => {
    const source = pick([...vms.keys()]);
    if (!source || vms.size >= maxVms) return;
    const name = newName("fork");
    say({ begin: { op: "save", vm: source } });
    const vm = await act({ op: "fork", vm: name }, () => runtime.fork({ name, source }, { signal }));
    say({ done: { op: "save", vm: source } });
    vms.set(name, vm.id);
  },
  save: async (runtime, { vms, snapshots }) => {
    const vm = pick([...vms.keys()]);
    if (!vm) return;
    const name = newName("snapshot");
    const report = await act({ op: "save", vm }, () => runtime.snapshots.save(vm, { name, signal }));
    snapshots.push({ id: report.snapshot.id, vm });
  },
  restore: async (runtime, { vms, snapshots }) => {
    const snapshot = pick(snapshots.filter(({ vm }) => vms.has(vm)));
    if (!snapshot) return;
    await act({ op: "restore", vm: snapshot.vm }, () =>
      runtime.restore(snapshot.vm, snapshot.id, { signal }),
    );
  },
  removeSnapshot: async (runtime, { snapshots }) => {
    const snapshot = snapshots.shift();
    if (snapshot)
      await act({ op: "removeSnapshot" }, () => runtime.snapshots.remove(snapshot.id, { signal }));
  },
  pause: async (runtime, { vms }) => {
    const vm = pick([...vms.keys()]);
    if (!vm) return;
    await act({ op: "pause", vm }, () => runtime.pause(vm, { signal }));
    await act({ op: "resume", vm }, () => runtime.resume(vm, { signal }));
  },
  bounce: async (runtime, { vms }) => {
    const vm = pick([...vms.keys()]);
    if (!vm) return;
    await act({ op: "stop", vm }, () => runtime.stop(vm, { force: true, signal }));
    await act({ op: "start", vm }, () => runtime.start(vm, { signal }));
  },
  remove: async (runtime, { vms }) => {
    const vm = pick([...vms.keys()]);
    if (!vm) return;
    vms.delete(vm);
    await act({ op: "remove", vm }, () => runtime.remove(vm, { force: true, signal }));
  },
};

const runtime = await openQemuRuntimeIn(root, { signal });
const known: Known = { vms: new Map(), snapshots: [] };
say({ ready: true });
for (;;) {
  const step = pick([
    "clone",
    "clone",
    "fork",
    "save",
    "save",
    "restore",
    "removeSnapshot",
    "pause",
    "bounce",
    "remove",
  ]);
  await steps[step ?? "clone"]?.(runtime, known);
}
