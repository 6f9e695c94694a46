/** The host's own copy of a snapshot. */
import { isFault, type Abortable } from "@cocoon/core";
import { findSnapshot } from "../snapshots.ts";
import type { StepContext } from "./step-context.ts";

export async function dropLocal(context: StepContext, name: string, options: Abortable): Promise<void> {
  const local = await findSnapshot(context.runtime, name, options);
  if (!local) return;
  try {
    await context.runtime.snapshots.remove(local.id, options);
  } catch (error) {
    if (!isFault(error, "notFound")) throw error;
  }
}
