/** From settings to a storage. */
import { openFilesystemStorage } from "./filesystem.ts";
import { openMemoryStorage } from "./memory.ts";
import type { Storage } from "./storage.ts";

export type StorageOptions =
  | { readonly kind: "memory" }
  | { readonly kind: "filesystem"; readonly root: string };

export async function openStorage(options: StorageOptions): Promise<Storage> {
  return options.kind === "memory" ? openMemoryStorage() : openFilesystemStorage(options.root);
}
