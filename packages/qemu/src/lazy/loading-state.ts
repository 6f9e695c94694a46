/** How far a machine's files are, as its page server writes it down for every process to read. */
import { join } from "node:path";
import { processIdentitySchema, tryParseJson, tryReadFile, writeFileAtomically } from "@cocoon/core";
import * as z from "zod";
import { vmFile } from "../store/layout.ts";

const count = z.number().nonnegative();

const schema = z.object({
  /** `starting`: QEMU cannot start yet. `serving`: it can. `local`: every byte is checked and on disk. */
  state: z.enum(["starting", "serving", "local"]),
  server: processIdentitySchema.exactOptional(),
  doneBytes: count,
  totalBytes: count,
  /** Over the network. */
  fetchedBytes: count,
  waits: count,
  longestWaitMs: count,
  /** Why content does not arrive; empty when it does. */
  problem: z.string(),
});

export type LoadingState = Readonly<z.infer<typeof schema>>;

export const nothingLoaded: LoadingState = {
  state: "starting",
  doneBytes: 0,
  totalBytes: 0,
  fetchedBytes: 0,
  waits: 0,
  longestWaitMs: 0,
  problem: "",
};

export async function tryReadLoading(vmDirectory: string): Promise<LoadingState | undefined> {
  const text = await tryReadFile(join(vmDirectory, vmFile.loading));
  return schema.safeParse(tryParseJson(text ?? "")).data;
}

/** `local` survives a power cut: what it says is relied on. */
export async function writeLoading(vmDirectory: string, state: LoadingState): Promise<void> {
  const sync = state.state === "local";
  await writeFileAtomically(join(vmDirectory, vmFile.loading), JSON.stringify(state), { mode: 0o600, sync });
}
