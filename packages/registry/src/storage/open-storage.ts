/** From settings to a storage. */
import { openFilesystemStorage } from "./filesystem.ts";
import type { Storage } from "./storage.ts";

export interface S3Options {
  readonly endpoint: string;
  readonly bucket: string;
  readonly region: string;
  /** Put before every key; empty or ending with "/". */
  readonly prefix: string;
  readonly accessKey: string;
  readonly secretKey: string;
}

export type StorageOptions =
  | { readonly kind: "filesystem"; readonly root: string }
  | ({ readonly kind: "s3" } & S3Options)
  /** One that is open already; it is closed with the registry. */
  | { readonly kind: "given"; readonly storage: Storage };

export async function openStorage(options: StorageOptions): Promise<Storage> {
  if (options.kind === "given") return options.storage;
  if (options.kind === "filesystem") return openFilesystemStorage(options.root);
  // Loaded only when it is used: the client library is large.
  const { openS3Storage } = await import("./s3.ts");
  return openS3Storage(options);
}
