/**
 * What is about to be done to a VM, written down before it is begun and removed when it is done. A process that gets the
 * VM's lock and finds an intent knows that its writer died in the middle, and how to make things whole again.
 */
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { Fault, syncDirectory, systemCode, tryReadFile, writeFileAtomically } from "@cocoon/core";
import * as z from "zod";
import { vmFile } from "./layout.ts";
import { diskSchema } from "./vm-record.ts";

const intentSchema = z.discriminatedUnion("kind", [
  /** The guest is frozen for a moment, and its disks get a new layer. */
  z.object({
    kind: z.literal("save"),
    wasRunning: z.boolean(),
    /** Absent in intents of older versions. */
    disksBefore: z.array(diskSchema).exactOptional(),
    disksAfter: z.array(diskSchema),
  }),
  /** A process is being started for a VM that has none. */
  z.object({ kind: z.literal("start") }),
  z.object({ kind: z.literal("remove") }),
  /** The VM goes back to a snapshot. */
  z.object({
    kind: z.literal("restore"),
    snapshotId: z.string(),
    /** The VM's epoch before and after: any other one means that the restore is long done. */
    epochs: z.tuple([z.string(), z.string()]).exactOptional(),
  }),
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
 * Does the work between writing the intent and removing it; a failure removes it as well, for it has been cleaned up
 * after. Both survive a power cut where they matter: an intent that came back later would undo what happened since, so it
 * also names the state that it was written in.
 */
export async function withIntent<T>(directory: string, intent: Intent, work: () => Promise<T>): Promise<T> {
  await writeFileAtomically(join(directory, vmFile.intent), JSON.stringify(intent), {
    mode: 0o600,
    sync: isDurable(intent),
  });
  try {
    return await work();
  } finally {
    await clearIntent(directory, intent);
  }
}

/** A start that is lost with the host was none. */
function isDurable({ kind }: Intent): boolean {
  return kind !== "start";
}

export async function clearIntent(directory: string, intent: Intent): Promise<void> {
  try {
    await rm(join(directory, vmFile.intent), { force: true });
    if (isDurable(intent)) await syncDirectory(directory);
  } catch (error) {
    if (systemCode(error) !== "ENOENT") throw error; // removed together with its VM
  }
}
