/** One look over all reservations: binds, marks and releases. What frees a name is confirmed by the API server first. */
import { annotation } from "@cocoon/contract";
import { getErrorMessage, type Abortable } from "@cocoon/core";
import type { Model } from "../model.ts";
import { lookAtPods } from "../pods/live-look.ts";
import { getOccupancy } from "../pods/occupancy.ts";
import type { Entry } from "../store/entry.ts";
import type { Held } from "../store/reservation-index.ts";
import { planChange, type EntryChange, type Graces } from "./changes.ts";
import type { ReaperOptions } from "./reaper.ts";

type SweepOptions = Pick<ReaperOptions, "client" | "reservations" | "releaseSnapshot" | "released" | "log"> &
  Pick<Model, "reserved" | "pods"> &
  Graces & {
    /** Throws when this process may no longer act. */
    readonly assertLeading: () => void;
    /** Whether names are freed this time; it costs a call per namespace. */
    readonly releases: boolean;
  };

export async function sweep(options: SweepOptions, { signal }: Abortable): Promise<void> {
  const { reserved, pods } = options;
  const now = new Date();
  const doubtful = new Map<string, Held[]>();
  const writes: Promise<unknown>[] = [];
  for (const shard of reserved.shards())
    for (const held of shard.held.values()) {
      const change = planChange(held.entry, getOccupancy(held, pods), { ...options, now });
      if (change.kind === "write") writes.push(write(held, options, { signal }));
      else if (change.kind !== "none" && options.releases) {
        const { namespace } = held.entry;
        doubtful.set(namespace, [...(doubtful.get(namespace) ?? []), held]);
      }
    }
  await Promise.all(writes);
  for (const [namespace, all] of doubtful) await release(namespace, all, { ...options, signal });
}

async function write(held: Held, options: SweepOptions, { signal }: Abortable): Promise<void> {
  const { reservations, log } = options;
  try {
    await reservations.edit(held, (now) => toWrite(decideAgain(now, options)), { signal });
  } catch (error) {
    if (!signal.aborted)
      log.warn({ vm: held.entry.vmName, error: getErrorMessage(error) }, "reservation not updated");
  }
}

function decideAgain(held: Held, options: SweepOptions): EntryChange {
  options.assertLeading();
  return planChange(held.entry, getOccupancy(held, options.pods), { ...options, now: new Date() });
}

function toWrite(change: EntryChange): { readonly entry: Entry } | undefined {
  return change.kind === "write" ? { entry: change.entry } : undefined;
}

/** "Could not ask" is not "is not there": an error leaves everything as it is until the next sweep. */
async function release(
  namespace: string,
  all: readonly Held[],
  options: SweepOptions & Abortable,
): Promise<void> {
  const { client, log, signal } = options;
  try {
    const { pods } = await lookAtPods(client, namespace, { signal });
    const names = new Set(pods.map(({ annotations }) => annotations[annotation.vmName] ?? ""));
    const free = all.filter(({ entry }) => !names.has(entry.vmName));
    await Promise.all(free.map((held) => releaseOne(held, options)));
  } catch (error) {
    if (!signal.aborted) log.warn({ namespace, error: getErrorMessage(error) }, "reservations not released");
  }
}

async function releaseOne(held: Held, options: SweepOptions & Abortable): Promise<void> {
  const { reservations, log, signal } = options;
  const { claim, goneSince, vmName } = held.entry;
  let isReleased = false;
  const planned = decideAgain(held, options);
  if (planned.kind === "release" && planned.why === "gone")
    await options.releaseSnapshot(held.entry, { signal });
  await reservations.edit(
    held,
    (now) => {
      const change = decideAgain(now, options);
      // Taken again meanwhile: it is not the entry that was decided about.
      if (now.entry.claim !== claim || now.entry.goneSince !== goneSince) return undefined;
      isReleased = change.kind === "release";
      if (change.kind === "fallBack") return { entry: change.entry };
      return isReleased ? { entry: undefined } : undefined;
    },
    { signal },
  );
  if (!isReleased) return;
  options.released(held.entry);
  log.info({ vm: vmName, node: held.entry.node }, "reservation released");
}
