/**
 * What is about to be done to a VM, written down before it is begun and removed when it is done. Whoever gets the
 * VM's lock and finds an intent knows that its writer died in the middle, and how to make things whole again.
 */
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { Fault, tryReadFile, writeFileAtomically } from "@cocoon/core";
import * as z from "zod";
import { vmFile } from "./layout.ts";
import { diskSchema } from "./vm-record.ts";

const intentSchema = z.discriminatedUnion("kind", [
  /** The guest is frozen for a moment, and its disks get a new layer. */
  z.object({ kind: z.literal("save"), wasRunning: z.boolean(), disksAfter: z.array(diskSchema) }),
  /** A process is being started for a VM that has none. */
  z.object({ kind: z.literal("start") }),
  z.object({ kind: z.literal("remove") }),
  /** The VM goes back to a snapshot. */
  z.object({ kind: z.literal("restore"), snapshotId: z.string() }),
]);

export type Intent = Readonly<z.infer<typeof intentSchema>>;

export async function readIntent(directory: string): Promise<Intent | undefined> {
  const text = await tryReadFile(join(directory, vmFile.intent));
  if (text === undefined) return undefined;
  try {
    return intentSchema.parse(JSON.parse(text));
  } catch (error) {
    throw new Fault("internal", `${join(directory, vmFile.intent)} is damaged`, { cause: error });
  }
}

/**
 * Does the work between writing the intent down and striking it out; a failure strikes it out as well, for it has been
 * cleaned up after.
 */
export async function withIntent<T>(directory: string, intent: Intent, work: () => Promise<T>): Promise<T> {
  await writeFileAtomically(join(directory, vmFile.intent), JSON.stringify(intent), {
    mode: 0o600,
    sync: false,
  });
  try {
    return await work();
  } finally {
    await clearIntent(directory);
  }
}

export async function clearIntent(directory: string): Promise<void> {
  await rm(join(directory, vmFile.intent), { force: true });
}
