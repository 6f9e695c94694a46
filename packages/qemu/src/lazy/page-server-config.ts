/** What a page server is given through a pipe: it may hold a token, so it is neither an argument nor a file. */
import * as z from "zod";

const text = z.string().min(1);
const count = z.int().nonnegative();

/** How the registry is reached. */
const registrySchema = z.object({
  address: text,
  token: z.string().exactOptional(),
  dockerConfig: z.string(),
  google: z.object({ file: z.string().optional(), metadataHost: z.string().optional() }).exactOptional(),
  caFile: z.string().exactOptional(),
});

/** What is needed once everything is here; given as an argument. */
export const localFilesSchema = z.object({
  /** Where the local files fill up. */
  directory: text,
  /** Files that are served before they are here; all others are fetched first. */
  lazy: z.array(text).max(1000),
  /** User that QEMU runs as. */
  owner: z.object({ uid: count, gid: count }),
  /** How the page server is started. */
  program: z.array(text).max(10),
});

export const pageServerSchema = localFilesSchema.extend({
  registry: registrySchema,
  repository: text,
  digest: text,
  /** The node's chunk store. */
  store: z.object({ directory: text, limitBytes: count }),
  /** Directory of the VM: status, gate. */
  vmDirectory: text,
  /** An earlier server had the descriptor. */
  resumed: z.boolean(),
});

export type PageServerConfig = Readonly<z.infer<typeof pageServerSchema>>;
export type LocalFiles = Readonly<z.infer<typeof localFilesSchema>>;
export type LazyRegistry = Readonly<z.infer<typeof registrySchema>>;
