/** Makes files survive a power cut before something relies on them. */
import { open, readdir } from "node:fs/promises";
import { join } from "node:path";
import { syncDirectory } from "@cocoon/core";

export async function syncFile(path: string): Promise<void> {
  await using file = await open(path, "r");
  await file.sync();
}

/** Every file in the directory, content and name. Those that are links to durable ones cost nothing. */
export async function syncFilesIn(directory: string): Promise<void> {
  for (const entry of await readdir(directory, { withFileTypes: true }))
    if (entry.isFile()) await syncFile(join(directory, entry.name));
  await syncDirectory(directory);
}
