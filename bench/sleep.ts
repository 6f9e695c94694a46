/**
 * Hibernating and waking real guests through a registry over TLS, behind a link of 50 MB/s and 5 ms. The peers are our own
 * full push and full pull in format v2, in the same run. A guest's memory is filled with content that does not compress.
 *
 *   npm run bench -- sleep [--sizes 512,1024,2048] [--parts sleep,migrate,wake] [--fill 0.7] [--minutes 30]
 *
 *   sleep     full push, first and second hibernation, hibernation after a change; each is cancelled at its end
 *   migrate   from the last sign of life on one node to the first answer on another
 *   wake      lazily and by a full pull on nodes that have nothing, lazily where it is local
 *
 * A part of a size has so many minutes; what fails or runs out of time is told in `problems`, its targets are unmet, and the
 * rest is measured. The targets are those of 1024 MiB, or of the largest size that was measured.
 */
import { join } from "node:path";
import { parseArgs } from "node:util";
import { getErrorMessage, type Abortable } from "@cocoon/core";
import { temporaryDirectory } from "@cocoon/testkit";
import type { Vm } from "@cocoon/vm";
import { printReport } from "./report.ts";
import { linkSpeed, openLab, type Lab, type Node } from "./sleep/lab.ts";
import {
  bootFilled,
  measureChangedSleep,
  measureDeparture,
  measureFullPush,
  measureSleep,
} from "./sleep/measure-sleep.ts";
import { measureWake, type Wake } from "./sleep/measure-wake.ts";
import { allParts, findTargets, type Figures } from "./sleep/targets.ts";

const { values } = parseArgs({
  options: {
    sizes: { type: "string", default: "512,1024,2048" },
    parts: { type: "string", default: allParts.join(",") },
    fill: { type: "string", default: "0.7" },
    minutes: { type: "string", default: "30" },
  },
});
const parts = allParts.filter((part) => values.parts.split(",").includes(part));
if (parts.length === 0) throw new Error(`--parts ${values.parts}: give one or more of ${allParts.join(",")}`);
const partMs = Number(values.minutes) * 60_000;
const stop = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"] as const)
  process.once(signal, () => stop.abort(new Error(`ended by ${signal}`)));
const problems: string[] = [];

/** Undefined when it fails: the next part is measured all the same. */
async function attempt<T>(name: string, work: (options: Abortable) => Promise<T>): Promise<T | undefined> {
  if (stop.signal.aborted) return undefined;
  console.error(name);
  const signal = AbortSignal.any([stop.signal, AbortSignal.timeout(partMs)]);
  try {
    return await work({ signal });
  } catch (error) {
    const why = signal.aborted ? getErrorMessage(signal.reason) : getErrorMessage(error);
    problems.push(`${name}: ${why}`);
    console.error(`${name}: ${why}`);
    return undefined;
  }
}

/** A machine on its first node. What is measured is added to the figures as it comes. */
interface Sleeper {
  readonly lab: Lab;
  readonly node: Node;
  readonly vm: Vm;
  readonly sizeMib: number;
  readonly figures: Figures;
}

async function measureSleeps({ node, vm, sizeMib, figures }: Sleeper, options: Abortable): Promise<void> {
  figures.fullPush ??= await measureFullPush(node, vm, options);
  figures.first = await measureSleep(node, vm, options);
  figures.second = await measureSleep(node, vm, options);
  figures.changed = await measureChangedSleep(node, vm, { sizeMib, ...options });
}

/** Where it was woken, lazily. */
interface Woken {
  readonly node: Node;
  readonly id: string;
}

/** To a node that has nothing, where its working set is recorded. */
async function migrate({ lab, node, vm, figures }: Sleeper, options: Abortable): Promise<Woken> {
  const other = await lab.newNode();
  const { slept, lastTickAt } = await measureDeparture(node, vm, options);
  const { digest } = slept;
  const woken = await measureWake(other, () => other.wakeLazily("lazy", digest, options), options);
  figures.migration = {
    freezeMs: woken.answeredAt - lastTickAt,
    bytes: slept.restBytes + woken.wake.answerBytes,
  };
  return { node: other, id: woken.id };
}

async function measureWakes({ lab, figures }: Sleeper, woken: Woken, options: Abortable): Promise<void> {
  const { digest } = await woken.node.sleep(woken.id, { format: "packed", ...options });
  await woken.node.runtime.remove(woken.id, { force: true, ...options });
  const node = await lab.newNode();
  const remove = (id: string) => node.runtime.remove(id, { force: true, ...options });
  const lazy = await measureWake(node, () => node.wakeLazily("lazy", digest, options), options);
  figures.lazy = lazy.wake;
  await remove(lazy.id);
  const same = await measureWake(node, () => node.wakeLazily("same", digest, options), options);
  figures.sameNode = same.wake;
  await remove(same.id);
}

async function measureFullPull(lab: Lab, digest: string, options: Abortable): Promise<Wake> {
  const node = await lab.newNode();
  const { id, wake } = await measureWake(node, () => node.wakeWhole("whole", digest, options), options);
  await node.runtime.remove(id, { force: true, ...options });
  return wake;
}

async function measureSize(lab: Lab, sizeMib: number, figures: Figures): Promise<void> {
  const name = (part: string) => `${sizeMib} MiB, ${part}`;
  const node = await lab.newNode();
  const fill = Number(values.fill);
  const vm = await attempt(name("boot"), (options) => bootFilled(node, { sizeMib, fill, ...options }));
  if (!vm) return;
  const sleeper = { lab, node, vm, sizeMib, figures };
  if (parts.includes("wake"))
    await attempt(name("full push"), async (options) => {
      figures.fullPush = await measureFullPush(node, vm, options);
    });
  if (parts.includes("sleep")) await attempt(name("sleep"), (options) => measureSleeps(sleeper, options));
  if (!parts.includes("migrate") && !parts.includes("wake")) return;
  const woken = await attempt(name("migrate"), (options) => migrate(sleeper, options));
  if (!parts.includes("wake")) return;
  const whole = figures.fullPush?.digest;
  if (whole !== undefined)
    await attempt(name("full pull"), async (options) => {
      figures.fullPull = await measureFullPull(lab, whole, options);
    });
  if (woken) await attempt(name("wake"), (options) => measureWakes(sleeper, woken, options));
}

const figures = new Map<number, Figures>();
try {
  await using directory = await temporaryDirectory();
  await using lab = await openLab(join(directory.path, "lab"));
  for (const sizeMib of values.sizes.split(",").map(Number)) {
    const measured: Figures = {};
    figures.set(sizeMib, measured);
    await measureSize(lab, sizeMib, measured);
  }
} catch (error) {
  problems.push(getErrorMessage(error));
}
printReport({
  bench: "sleep",
  env: { link: linkSpeed, fill: Number(values.fill), parts, problems },
  figures: Object.fromEntries(figures),
  targets: findTargets(figures, parts),
});
