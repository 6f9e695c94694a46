/**
 * What each machine has of its CNI network, one file per VM, written before anything is made and removed after everything
 * is gone: whatever a killed process leaves is found here again.
 *
 *   DIRECTORY/<vm id>.json
 */
import { mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { Fault, syncDirectory, systemCode, tryReadFile, writeFileAtomically } from "@cocoon/core";
import * as z from "zod";
import { conflistSchema } from "./conflist.ts";

const interfaceSchema = z.object({
  ifName: z.string(),
  tap: z.string().max(15),
  /** As the last plugin said it; absent until ADD has ended. */
  result: z.record(z.string(), z.unknown()).exactOptional(),
});

const attachmentSchema = z.object({
  version: z.literal(1),
  vmId: z.string().min(1),
  /** `changing`: it is being made or removed, or a process died over that; something of it may exist. */
  state: z.enum(["changing", "ready"]),
  netns: z.string(),
  /** Namespaces end with the boot that they were made in. */
  bootId: z.string(),
  /** The configuration that it was made with: it is removed by the same, whatever the directory has by then. */
  list: conflistSchema,
  /** The configuration's name, where the request chose one. */
  listName: z.string().exactOptional(),
  args: z.string(),
  runtimeConfig: z.record(z.string(), z.unknown()),
  dns: z.object({ servers: z.array(z.string()), searches: z.array(z.string()) }).exactOptional(),
  queueSize: z.int(),
  interfaces: z.array(interfaceSchema).min(1),
  /** Addresses of the first interface, once known. */
  ip: z.string().exactOptional(),
  mac: z.string().exactOptional(),
});

export type Attachment = Readonly<z.infer<typeof attachmentSchema>>;

export class AttachmentStore {
  readonly #directory: string;

  constructor(directory: string) {
    this.#directory = directory;
  }

  async list(): Promise<Attachment[]> {
    const files = await readdir(this.#directory).catch((error: unknown) => {
      if (systemCode(error) === "ENOENT") return [];
      throw error;
    });
    const ids = files.filter((file) => file.endsWith(".json")).map((file) => file.slice(0, -".json".length));
    const found = await Promise.all(ids.map((id) => this.tryRead(id)));
    return found.filter((each) => each !== undefined);
  }

  async tryRead(vmId: string): Promise<Attachment | undefined> {
    const path = this.#path(vmId);
    const text = await tryReadFile(path);
    if (text === undefined) return undefined;
    try {
      return attachmentSchema.parse(JSON.parse(text));
    } catch (error) {
      throw new Fault("damaged", `the network record ${path} is damaged: remove it if no VM uses it`, {
        cause: error,
      });
    }
  }

  async write(attachment: Attachment, { sync = true } = {}): Promise<void> {
    await mkdir(this.#directory, { recursive: true, mode: 0o700 });
    await writeFileAtomically(this.#path(attachment.vmId), JSON.stringify(attachment), { mode: 0o600, sync });
  }

  async remove(vmId: string): Promise<void> {
    await rm(this.#path(vmId), { force: true });
    await syncDirectory(this.#directory);
  }

  #path(vmId: string): string {
    return join(this.#directory, `${vmId}.json`);
  }
}
