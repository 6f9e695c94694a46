/**
 * Guests that hang at boot. A guest counts as hung when its agent never answered since it was started and its console has
 * shown nothing for a while. It is reported with its last console lines. A machine that boots our own kernel from its disk is
 * also reset, a bounded number of times; one that was restored from a snapshot never is, for its memory is the machine.
 */
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { Fault, getErrorMessage, sleep, type Abortable } from "@cocoon/core";
import type { QemuContext } from "../context.ts";
import { readConsoleHistory } from "../guest/console-log.ts";
import { vmFile } from "../store/layout.ts";
import type { VmRecord } from "../store/vm-record.ts";

const maxResets = 2;
const shownLines = 8;
const historyBytes = 4096;

export interface BootWatch extends Abortable {
  readonly record: VmRecord;
  readonly reset: (id: string) => Promise<unknown>;
}

/** Runs until the signal aborts (the guest is ready, or another one by now) or the guest was reported as hung. */
export async function watchBoot(context: QemuContext, { record, reset, signal }: BootWatch): Promise<void> {
  const directory = context.store.getDirectory(record.id);
  if (!(await awaitSilence(directory, { silenceMs: context.settings.bootSilenceMs, signal }))) return;
  const lines = await readLastLines(directory);
  const resets = record.bootResets ?? 0;
  const mayReset = record.startedFrom === "boot" && record.machine.kernel !== undefined && resets < maxResets;
  const problem = `the guest does not boot${mayReset ? "" : " and was left as it is"} (${resets} resets); last console lines: ${lines}`;
  context.log.warn({ vm: record.id, resets, console: lines }, "guest hangs at boot");
  try {
    await note(context, record, { problem, resets: mayReset ? resets + 1 : resets }, signal);
    if (mayReset) await reset(record.id);
  } catch (error) {
    if (!signal.aborted)
      context.log.warn({ vm: record.id, error: getErrorMessage(error) }, "hung guest not reset");
  }
}

/** True once the console has not changed for that long; false when aborted. */
async function awaitSilence(
  directory: string,
  { silenceMs, signal }: Abortable & { readonly silenceMs: number },
): Promise<boolean> {
  let known = -1;
  for (;;) {
    const size = await stat(join(directory, vmFile.consoleLog)).then(
      (status) => status.size,
      () => 0,
    );
    if (size === known) return true;
    known = size;
    if (!(await sleep(silenceMs, { signal }))) return false;
  }
}

async function readLastLines(directory: string): Promise<string> {
  const text = (await readConsoleHistory(directory, historyBytes)).toString("utf8");
  // oxlint-disable-next-line no-control-regex -- consoles move cursors and change colours
  const plain = text.replaceAll(/\u001b\[[\d;?]*[A-Za-z]/g, "").replaceAll(/[^\n\u0020-\u007e]/g, "");
  const lines = plain.split("\n").filter((line) => line.trim() !== "");
  return lines.slice(-shownLines).join(" | ") || "none";
}

// oxlint-disable-next-line max-params -- the VM and what is noted about it
async function note(
  context: QemuContext,
  record: VmRecord,
  { problem, resets }: { readonly problem: string; readonly resets: number },
  signal: AbortSignal,
): Promise<void> {
  using _lock = await context.store.lock(record.id, { signal });
  const now = await context.store.read(record.id);
  if (now.epoch !== record.epoch || now.guest === "ready")
    throw new Fault("conflict", `VM ${record.name} is another one by now`);
  await context.store.write({ ...now, problem, bootResets: resets });
}
