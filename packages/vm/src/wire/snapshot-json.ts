/**
 * Snapshots as the `cocoon` command and its archives write them: snake case, empty fields left out. Our own extra keys
 * are additive; other readers ignore them.
 */
import { Fault, tryParseJson } from "@cocoon/core";
import * as z from "zod";
import type { Snapshot } from "../snapshot.ts";
import { configJsonSchema, readConfigJson, writeConfigJson } from "./vm-json.ts";

export const snapshotJsonSchema = configJsonSchema.extend({
  id: z.string(),
  name: z.string().default(""),
  description: z.string().optional(),
  image_blob_ids: z.record(z.string(), z.unknown()).optional(),
  hypervisor: z.string().optional(),
  nics: z.int().nonnegative().optional(),
  created_at: z.string().optional(),
});

export type SnapshotJson = z.input<typeof snapshotJsonSchema>;

/** Without the time, as an archive carries it, when `archived`. */
export function writeSnapshotJson(snapshot: Snapshot, { archived = false } = {}): SnapshotJson {
  const blobs = snapshot.imageBlobIds.map((id) => [id, {}] as const);
  return {
    ...writeConfigJson(snapshot.config),
    id: snapshot.id,
    name: snapshot.name,
    ...(snapshot.description ? { description: snapshot.description } : {}),
    ...(blobs.length > 0 ? { image_blob_ids: Object.fromEntries(blobs) } : {}),
    hypervisor: snapshot.hypervisor,
    ...(snapshot.nics > 0 ? { nics: snapshot.nics } : {}),
    ...(archived ? {} : { created_at: snapshot.createdAt }),
  };
}

export function readSnapshotJson(json: z.output<typeof snapshotJsonSchema>): Snapshot {
  return {
    id: json.id,
    name: json.name,
    ...(json.description ? { description: json.description } : {}),
    hypervisor: readHypervisor(json.hypervisor),
    config: readConfigJson(json),
    nics: json.nics ?? 0,
    imageBlobIds: Object.keys(json.image_blob_ids ?? {}),
    createdAt: json.created_at ?? new Date(0).toISOString(),
    sizeBytes: 0,
  };
}

export function readHypervisor(text: string | undefined): Snapshot["hypervisor"] {
  return text === "qemu" || text === "firecracker" ? text : "cloud-hypervisor";
}

const archiveVersion = 1;
const envelopeSchema = z.object({ version: z.int(), config: z.unknown() });

/** What `snapshot.json` of an archive holds. */
export function writeEnvelope(snapshot: Snapshot): Readonly<Record<string, unknown>> {
  return { config: writeSnapshotJson(snapshot, { archived: true }), version: archiveVersion };
}

export function readEnvelope(text: string): Snapshot {
  const head = envelopeSchema.safeParse(tryParseJson(text));
  if (!head.success) throw new Fault("invalid", "invalid snapshot archive: snapshot.json is malformed");
  if (head.data.version !== archiveVersion)
    throw new Fault("preconditionFailed", `unsupported snapshot archive version ${head.data.version}`);
  const config = snapshotJsonSchema.safeParse(head.data.config);
  if (!config.success)
    throw new Fault("invalid", "invalid snapshot archive: snapshot.json is malformed", {
      cause: config.error,
    });
  return readSnapshotJson(config.data);
}
