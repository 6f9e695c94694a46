/**
 * `snapshot.json` of a snapshot archive; the config blob in the registry carries the same under other names, with the members
 * that the Go systems drop under names that their readers ignore.
 */
import * as z from "zod";
import { parseWith } from "./schema.ts";

const configSchema = z.looseObject({
  id: z.string().optional(),
  name: z.string(),
  description: z.string().optional(),
  cpu: z.int().min(0).optional(),
  memory: z.int().min(0).optional(),
  storage: z.int().min(0).optional(),
  queue_size: z.int().min(0).optional(),
  disk_queue_size: z.int().min(0).optional(),
  image: z.string().optional(),
  image_digest: z.string().optional(),
  image_type: z.string().optional(),
  network: z.string().optional(),
  no_direct_io: z.boolean().optional(),
  windows: z.boolean().optional(),
  image_blob_ids: z.record(z.string(), z.looseObject({})).nullish(),
  hypervisor: z.string().optional(),
  nics: z.int().min(0).optional(),
});

const envelopeSchema = z.looseObject({ config: configSchema, version: z.literal(1) });

export type SnapshotEnvelope = z.output<typeof envelopeSchema>;

export function readSnapshotEnvelope(value: unknown): SnapshotEnvelope {
  return parseWith(envelopeSchema, value, "snapshot.json");
}

export function formatSnapshotEnvelope(envelope: SnapshotEnvelope): string {
  return `${JSON.stringify(envelope, null, 2)}\n`;
}

/** Envelope name and config name of every member that has both. */
const names = {
  description: "description",
  image: "image",
  image_digest: "imageDigest",
  image_type: "imageType",
  image_blob_ids: "imageBlobIds",
  hypervisor: "hypervisor",
  cpu: "cpu",
  memory: "memory",
  storage: "storage",
  nics: "nics",
  network: "network",
  windows: "windows",
  queue_size: "queueSize",
  disk_queue_size: "diskQueueSize",
  no_direct_io: "noDirectIo",
} as const;

/** Members of an envelope that have no name in a config travel together under this one. */
const restName = "envelopeRest";

/** What a config says about the machine; the rest of it is about the artifact. */
type ConfigFacts = { readonly snapshotId: string } & Readonly<Record<string, unknown>>;

/** Empty members are left out, as the Go systems leave them out. */
export function configFromEnvelope({ config }: SnapshotEnvelope): ConfigFacts {
  const { id, name: _local, ...members } = config;
  const facts: Record<string, unknown> = {};
  const rest: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(members)) {
    if (isEmpty(value)) continue;
    if (isNamed(key)) facts[names[key]] = value;
    else rest[key] = value;
  }
  return {
    snapshotId: id ?? "",
    ...facts,
    ...(Object.keys(rest).length > 0 ? { [restName]: rest } : {}),
  };
}

/** The name is the local one: it does not travel. */
export function envelopeFromConfig(config: ConfigFacts, name: string): SnapshotEnvelope {
  const members: Record<string, unknown> = {};
  for (const [key, configKey] of Object.entries(names))
    if (!isEmpty(config[configKey])) members[key] = config[configKey];
  const rest = z.record(z.string(), z.unknown()).safeParse(config[restName]);
  return readSnapshotEnvelope({
    config: { ...(rest.success ? rest.data : {}), id: config.snapshotId, name, ...members },
    version: 1,
  });
}

function isNamed(key: string): key is keyof typeof names {
  return Object.hasOwn(names, key);
}

function isEmpty(value: unknown): boolean {
  return value === undefined || value === null || value === "" || value === 0 || value === false;
}
