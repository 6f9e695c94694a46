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
  /** The first hibernation, cancelled when all was pushed: how long the guest stood still, and what was sent meanwhile. */
  readonly freezeMs: number;
  readonly freezeBytes: number;
}

/** From the last sign of life on one node to the first answer on another that has nothing. */
interface Migration {
  readonly freezeMs: number;
  readonly bytes: number;
}

interface Wake {
  readonly answerMs: number;
  readonly answerBytes: number;
  readonly localMs: number;
  readonly localBytes: number;
}

interface Figures {
  readonly sleep: Sleeps;
  readonly migration: Migration;
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

/** A guest that gives a sign of life all the time. */
async function startTicking(runtime: VmRuntime, id: string): Promise<Ticking> {
  const argv = ["sh", "-c", "while :; do echo; sleep 0.02; done"];
  const program = await runtime.exec(id, { argv }, { signal });
  // It ends with its VM.
  program.exited.catch(() => undefined);
  program.stdout.on("error", () => undefined);
  let [lastAt, longestMs] = [performance.now(), 0];
  let next = Promise.withResolvers<void>();
  program.stdout.on("data", () => {
    const now = performance.now();
    longestMs = Math.max(longestMs, now - lastAt);
    lastAt = now;
    next.resolve();
    next = Promise.withResolvers();
  });
  await next.promise;
  longestMs = 0;
  return {
    getLastAt: () => lastAt,
    getLongestMs: () => longestMs,
    nextTick: () => next.promise,
    [Symbol.asyncDispose]: () => program[Symbol.asyncDispose](),
  };
}

interface Ticking extends AsyncDisposable {
  getLastAt(): number;
  getLongestMs(): number;
  nextTick(): Promise<void>;
}

interface SleptMachine extends Sleeps {
  readonly packed: string;
  readonly whole: string;
  /** Of the last hibernation, after which it does not run any more. */
  readonly lastTickAt: number;
  readonly restBytes: number;
}

async function measureSleeps(node: Node, size: number): Promise<SleptMachine> {
  const { runtime } = node;
  const { id } = await runtime.run({ ...machine(size), name: "sleeper" }, { signal });
  const vm = await runtime.waitReady(id, { signal });
  await runIn(runtime, vm, fillScript("content", Math.floor(size * Number(values.fill))));
  say(`${size} MiB: full push`);
  const whole = await node.sleep(id, "v2");
  await resume(runtime, id);
  say(`${size} MiB: first, second and third hibernation`);
  const freeze = await startTicking(runtime, id);
  const first = await node.sleep(id, "packed");
  await runtime.resume(id, { signal });
  await freeze.nextTick();
  const freezeMs = freeze.getLongestMs();
  await freeze[Symbol.asyncDispose]();
  await pause(3_000);
  const second = await node.sleep(id, "packed");
  await resume(runtime, id);
  const changedMib = Math.max(1, Math.floor(size * 0.05));
  await runIn(runtime, vm, fillScript("change", changedMib));
  const ticking = await startTicking(runtime, id);
  const third = await node.sleep(id, "packed");
  const lastTickAt = ticking.getLastAt();
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
    freezeMs,
    freezeBytes: first.restBytes,
    packed: third.digest,
    whole: whole.digest,
    lastTickAt,
    restBytes: third.restBytes,
  };
}

/** From the request to the first answer of a command, and until everything is on the node. */
async function measureWake(
  node: Node,
  start: () => Promise<string>,
): Promise<Wake & { readonly id: string; readonly answeredAt: number }> {
  const [began, before] = [performance.now(), node.link.received];
  const id = await start();
  const vm = await node.runtime.inspect(id, { signal });
  await runIn(node.runtime, vm, "cat /etc/hostname");
  const answeredAt = performance.now();
  const answerMs = answeredAt - began;
  const answerBytes = node.link.received - before;
  while ((await node.runtime.inspect(id, { signal })).loading) await pause(20);
  return {
    id,
    answeredAt,
    answerMs,
    answerBytes,
    localMs: performance.now() - began,
    localBytes: node.link.received - before,
  };
}

async function measureSize(lab: Lab, size: number): Promise<Figures> {
  const [home, other, peer] = [await lab.newNode(), await lab.newNode(), await lab.newNode()];
  const { packed, whole: wholeDigest, lastTickAt, restBytes, ...sleep } = await measureSleeps(home, size);
  say(`${size} MiB: lazy wake without a recorded working set`);
  const { id, answeredAt, ...lazyFirst } = await measureWake(other, () => other.wakeLazily("lazy", packed));
  const migration = { freezeMs: answeredAt - lastTickAt, bytes: restBytes + lazyFirst.answerBytes };
  say(`${size} MiB: full pull`);
  const pulled = await measureWake(peer, () => peer.wakeWhole("whole", wholeDigest));
  const { id: whole, answeredAt: _pulled, ...wholeWake } = pulled;
  await peer.runtime.remove(whole, { force: true, signal });
  say(`${size} MiB: lazy wake with a recorded working set`);
  const again = await other.sleep(id, "packed");
  await other.runtime.remove(id, { force: true, signal });
  const third = await lab.newNode();
  const woken = await measureWake(third, () => third.wakeLazily("lazy", again.digest));
  const { id: recorded, answeredAt: _woken, ...lazy } = woken;
  await third.runtime.remove(recorded, { force: true, signal });
  const atHome = await measureWake(third, () => third.wakeLazily("same", again.digest));
  const { id: same, answeredAt: _atHome, ...sameNode } = atHome;
  await third.runtime.remove(same, { force: true, signal });
  return { sleep, migration, whole: wholeWake, lazyFirst, lazy, sameNode };
}

function findTargets(figures: ReadonlyMap<number, Figures>): Target[] {
  const main = figures.get(1024) ?? [...figures.values()].at(-1);
  if (!main) return [];
  const { sleep, migration, whole, lazy, sameNode } = main;
  const linkMs = (bytes: number) => (1000 * bytes) / linkSpeed.bytesPerSecond;
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
      name: "freeze of a hibernation that is cancelled, ms beyond the link's time",
      value: sleep.freezeMs - linkMs(sleep.freezeBytes),
      want: "<= 1000",
    },
    {
      name: "freeze of a migration, ms beyond the link's time",
      value: migration.freezeMs - linkMs(migration.bytes),
      want: "<= 1000",
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
