/** What is known of builds: a ConfigMap each in the gateway's namespace, so that any replica answers for it. */
import { randomUUID } from "node:crypto";
import { gatewayKey, systemNamespace } from "@cocoon/contract";
import { ignoreFault, tryParseJson, type Abortable } from "@cocoon/core";
import { configMaps, type KubeClient } from "@cocoon/kube";
import * as z from "zod";
import { ApiError } from "../http/answer.ts";
import { makeSandboxId } from "../sandboxes/ids.ts";
import type { Tenant } from "../tenants/tenant.ts";

const entrySchema = z.object({
  timestamp: z.string(),
  level: z.enum(["debug", "info", "warn", "error"]),
  message: z.string(),
  step: z.string().optional(),
});
export type BuildLogEntry = z.output<typeof entrySchema>;

const recordSchema = z.object({
  namespace: z.string(),
  templateId: z.string(),
  buildId: z.string(),
  alias: z.string(),
  tags: z.array(z.string()).default(["default"]),
  cpus: z.int().optional(),
  memoryMiB: z.int().optional(),
  status: z.enum(["waiting", "building", "ready", "error"]),
  reason: z.object({ message: z.string(), step: z.string().optional() }).optional(),
  logs: z.array(entrySchema),
  /** When the replica that builds it wrote last. */
  writtenAt: z.string(),
});
export type BuildRecord = z.output<typeof recordSchema>;

export type NewBuild = Pick<BuildRecord, "alias" | "tags" | "cpus" | "memoryMiB">;

/** A build whose replica is silent for so long ended with it. */
const silentMs = 60_000;
const field = "build";

export class BuildRecords {
  readonly #client: KubeClient;

  constructor(client: KubeClient) {
    this.#client = client;
  }

  async create({ namespace }: Tenant, build: NewBuild, options: Abortable): Promise<BuildRecord> {
    const record: BuildRecord = {
      ...build,
      namespace,
      templateId: `t${makeSandboxId().slice(1)}`,
      buildId: randomUUID(),
      status: "waiting",
      logs: [],
      writtenAt: new Date().toISOString(),
    };
    const metadata = { ...locate(record.buildId), labels: { [gatewayKey.build]: "true" } };
    await this.#client.create(configMaps, { metadata, data: { [field]: JSON.stringify(record) } }, options);
    return record;
  }

  /** The tenant's own, or 404. */
  async require(
    { namespace }: Tenant,
    { templateId, buildId }: Pick<BuildRecord, "templateId" | "buildId">,
    options: Abortable,
  ): Promise<BuildRecord> {
    const isId = /^[0-9a-f-]{36}$/.test(buildId);
    const found = isId
      ? await ignoreFault("notFound", this.#client.get(configMaps, locate(buildId), options))
      : undefined;
    const record = recordSchema.safeParse(tryParseJson(found?.data?.[field] ?? "")).data;
    if (record?.namespace !== namespace || record.templateId !== templateId)
      throw new ApiError(404, `build ${buildId} of template ${templateId} not found`);
    return record.status === "building" && Date.now() - Date.parse(record.writtenAt) > silentMs
      ? { ...record, status: "error", reason: { message: "the gateway that built it ended; build it again" } }
      : record;
  }

  async write(record: BuildRecord, options: Abortable): Promise<void> {
    const body = { data: { [field]: JSON.stringify({ ...record, writtenAt: new Date().toISOString() }) } };
    const patch = { type: "merge", body } as const;
    await this.#client.patch(configMaps, { key: locate(record.buildId), patch }, options);
  }
}

function locate(buildId: string): { readonly namespace: string; readonly name: string } {
  return { namespace: systemNamespace, name: `cocoon-build-${buildId}` };
}
