/**
 * Hibernating and waking real guests through a registry over TLS, behind a link of 50 MB/s and 5 ms. The peers are our own
 * full push and full pull in format v2, in the same run. A guest's memory is filled with content that does not compress.
 *
 *   npm run bench -- sleep [--sizes 512,1024,2048] [--fill 0.7]
 *
 * The targets of waking are those of 1024 MiB, or of the largest size that was measured.
 */
import { join } from "node:path";
import { parseArgs } from "node:util";
import { setTimeout as pause } from "node:timers/promises";
import { temporaryDirectory } from "@cocoon/testkit";
import type { VmRuntime } from "@cocoon/vm";
import { printReport, type Target } from "./report.ts";
import { linkSpeed, openLab, type Lab, type Node } from "./sleep/lab.ts";
import { machine, runIn } from "./vm/measure.ts";

const { values } = parseArgs({
  options: {
    sizes: { type: "string", default: "512,1024,2048" },
    fill: { type: "string", default: "0.7" },
  },
});
const sizes = values.sizes.split(",").map(Number);
const { signal } = new AbortController();
const mebibyte = 1024 * 1024;
const say = (text: string) => console.error(text);

interface Sleeps {
  readonly wholeBytes: number;
  readonly wholeMs: number;
  readonly firstBytes: number;
  readonly firstMs: number;
  readonly secondBytes: number;
  readonly secondMs: number;
  readonly changedBytes: number;
  readonly afterChangeBytes: number;
}

interface Wake {
  readonly answerMs: number;
  readonly answerBytes: number;
  readonly localMs: number;
  readonly localBytes: number;
}

interface Figures {
  readonly sleep: Sleeps;
  readonly whole: Wake;
  readonly lazyFirst: Wake;
  readonly lazy: Wake;
  readonly sameNode: Wake;
}

/** Pieces of a prime length of random bytes: no two chunks are equal, and none compresses. */
function fillScript(file: string, mib: number): string {
  const seed = "dd if=/dev/urandom of=/run/seed bs=1000003 count=1 2>/dev/null";
  const mount = "mkdir -p /dev/shm; mountpoint -q /dev/shm || mount -t tmpfs -o size=95% none /dev/shm";
  return `${mount}; ${seed}; i=0; while [ $i -lt ${mib} ]; do cat /run/seed; i=$((i+1)); done > /dev/shm/${file}`;
}

async function resume(runtime: VmRuntime, id: string): Promise<void> {
  await runtime.resume(id, { signal });
  await pause(3_000);
}

async function measureSleeps(
  node: Node,
  size: number,
): Promise<Sleeps & { readonly packed: string; readonly whole: string }> {
  const { runtime } = node;
  const { id } = await runtime.run({ ...machine(size), name: "sleeper" }, { signal });
  const vm = await runtime.waitReady(id, { signal });
  await runIn(runtime, vm, fillScript("content", Math.floor(size * Number(values.fill))));
  say(`${size} MiB: full push`);
  const whole = await node.sleep(id, "v2");
  say(`${size} MiB: first, second and third hibernation`);
  const first = await node.sleep(id, "packed");
  await resume(runtime, id);
  const second = await node.sleep(id, "packed");
  await resume(runtime, id);
  const changedMib = Math.max(1, Math.floor(size * 0.05));
  await runIn(runtime, vm, fillScript("change", changedMib));
  const third = await node.sleep(id, "packed");
  await runtime.remove(id, { force: true, signal });
  return {
    wholeBytes: whole.bytesSent,
    wholeMs: whole.ms,
    firstBytes: first.bytesSent,
    firstMs: first.ms,
    secondBytes: second.bytesSent,
    secondMs: second.ms,
    changedBytes: changedMib * mebibyte,
    afterChangeBytes: third.bytesSent,
    packed: third.digest,
    whole: whole.digest,
  };
}

/** From the request to the first answer of a command, and until everything is on the node. */
async function measureWake(
  node: Node,
  start: () => Promise<string>,
): Promise<Wake & { readonly id: string }> {
  const [began, before] = [performance.now(), node.link.received];
  const id = await start();
  const vm = await node.runtime.inspect(id, { signal });
  await runIn(node.runtime, vm, "cat /etc/hostname");
  const answerMs = performance.now() - began;
  const answerBytes = node.link.received - before;
  while ((await node.runtime.inspect(id, { signal })).loading) await pause(20);
  return {
    id,
    answerMs,
    answerBytes,
    localMs: performance.now() - began,
    localBytes: node.link.received - before,
  };
}

async function measureSize(lab: Lab, size: number): Promise<Figures> {
  const home = await lab.newNode();
  const { packed, whole: wholeDigest, ...sleep } = await measureSleeps(home, size);
  const peer = await lab.newNode();
  say(`${size} MiB: full pull`);
  const { id: whole, ...wholeWake } = await measureWake(peer, () => peer.wakeWhole("whole", wholeDigest));
  await peer.runtime.remove(whole, { force: true, signal });
  say(`${size} MiB: lazy wake without and with a recorded working set`);
  const other = await lab.newNode();
  const { id, ...lazyFirst } = await measureWake(other, () => other.wakeLazily("lazy", packed));
  await pause(3_000); // the working set is written
  const again = await other.sleep(id, "packed");
  await other.runtime.remove(id, { force: true, signal });
  const third = await lab.newNode();
  const { id: recorded, ...lazy } = await measureWake(third, () => third.wakeLazily("lazy", again.digest));
  await third.runtime.remove(recorded, { force: true, signal });
  const { id: same, ...sameNode } = await measureWake(third, () => third.wakeLazily("same", again.digest));
  await third.runtime.remove(same, { force: true, signal });
  return { sleep, whole: wholeWake, lazyFirst, lazy, sameNode };
}

function findTargets(figures: ReadonlyMap<number, Figures>): Target[] {
  const main = figures.get(1024) ?? [...figures.values()].at(-1);
  if (!main) return [];
  const { sleep, whole, lazy, sameNode } = main;
  const [small, large] = [figures.get(512), figures.get(2048)];
  return [
    {
      name: "second sleep, part of the first one's bytes",
      value: sleep.secondBytes / sleep.firstBytes,
      want: "<= 0.05",
    },
    {
      name: "second sleep, part of the first one's time",
      value: sleep.secondMs / sleep.firstMs,
      want: "<= 0.3",
    },
    {
      name: "sleep after a change, bytes per changed byte",
      value: sleep.afterChangeBytes / sleep.changedBytes,
      want: "<= 1.3",
    },
    {
      name: "first answer of a lazy wake, part of the full pull's bytes",
      value: lazy.answerBytes / whole.answerBytes,
      want: "<= 0.05",
    },
    {
      name: "first answer of a lazy wake, part of the full pull's time",
      value: lazy.answerMs / whole.answerMs,
      want: "<= 0.15",
    },
    { name: "all local, part of the full pull's time", value: lazy.localMs / whole.localMs, want: "<= 1.3" },
    {
      name: "wake on the node it slept on, bytes per byte of a full pull",
      value: sameNode.localBytes / whole.localBytes,
      want: "<= 0.01",
    },
    ...(small && large
      ? [
          {
            name: "first answer at 2048 MiB against 512 MiB",
            value: large.lazy.answerMs / small.lazy.answerMs,
            want: "<= 1.2",
          },
        ]
      : []),
  ];
}

await using directory = await temporaryDirectory();
await using lab = await openLab(join(directory.path, "lab"));
const figures = new Map<number, Figures>();
for (const size of sizes) figures.set(size, await measureSize(lab, size));
printReport({
  bench: "sleep",
  env: { link: linkSpeed, fill: Number(values.fill) },
  figures: Object.fromEntries(figures),
  targets: findTargets(figures),
});
