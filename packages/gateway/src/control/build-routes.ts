/** Building templates, as the SDK's builder calls it. */
import * as z from "zod";
import { ApiError, sendEmpty, sendJson } from "../http/answer.ts";
import type { BuildFiles } from "../templates/build-files.ts";
import type { BuildRecord, BuildRecords } from "../templates/build-records.ts";
import { buildBody } from "../templates/build-steps.ts";
import type { TemplateBuilder } from "../templates/template-builder.ts";
import type { Call, Routes } from "./router.ts";
import { defaultTag } from "../sandboxes/read-snapshot.ts";
import { tagsSchema } from "./tag-routes.ts";
import { parseBody } from "./shapes.ts";

export interface BuildRoutesOptions {
  readonly records: BuildRecords;
  readonly files: BuildFiles;
  readonly builder: TemplateBuilder;
}

const newTemplate = z.object({
  name: z.string().max(200).nullish(),
  alias: z.string().max(200).nullish(),
  tags: tagsSchema.nullish(),
  cpuCount: z.int().min(1).max(64).nullish(),
  memoryMB: z.int().min(64).max(1_048_576).nullish(),
});
const mostEntries = 100;

export function buildBuildRoutes({ records, files, builder }: BuildRoutesOptions): Routes {
  const requireBuild = (call: Call) =>
    records.require(
      call.tenant,
      { templateId: call.parameter("id"), buildId: call.parameter("build") },
      call,
    );
  return {
    "POST /v3/templates": async (call) => {
      const body = parseBody(newTemplate, call.body);
      const { alias, tags } = parseName(call, body);
      const { cpuCount: cpus, memoryMB: memoryMiB } = body;
      const record = await records.create(
        call.tenant,
        { alias, tags, ...(cpus ? { cpus } : {}), ...(memoryMiB ? { memoryMiB } : {}) },
        call,
      );
      sendJson(call.response, 202, formatNew(record));
    },
    "GET /templates/{id}/files/{hash}": async (call) => {
      const name = { namespace: call.tenant.namespace, hash: call.parameter("hash") };
      if (!/^[0-9a-f]{64}$/.test(name.hash)) throw new ApiError(400, "hash: 64 hex digits");
      const present = await files.has(name, call);
      const url = `${readOrigin(call)}${files.sign(name)}`;
      sendJson(call.response, 201, { present, url });
    },
    "POST /v2/templates/{id}/builds/{build}": async (call) => {
      const body = parseBody(buildBody, call.body);
      if (body.fromImageRegistry)
        throw new ApiError(400, "fromImageRegistry: not offered; give the nodes access to the registry");
      const record = await requireBuild(call);
      if (record.status !== "waiting") throw new ApiError(409, `build ${record.buildId} has begun already`);
      builder.start(call.tenant, record, body);
      await records.write({ ...record, status: "building" }, call);
      sendEmpty(call.response, 202);
    },
    "GET /templates/{id}/builds/{build}/status": async (call) => {
      const record = await requireBuild(call);
      const offset = Math.max(0, Number(call.query.get("logsOffset") ?? 0) || 0);
      sendJson(call.response, 200, formatStatus(record, offset));
    },
  };
}

const namePattern = /^(?:([a-z0-9-]+)\/)?([a-z0-9]([a-z0-9_-]{0,58}[a-z0-9])?)(?::([a-z0-9._-]+))?$/;

/** Tags come with the name, beside it, or are `default`. */
function parseName(
  { tenant }: Call,
  { name, alias: older, tags: more }: z.output<typeof newTemplate>,
): Pick<BuildRecord, "alias" | "tags"> {
  const [, owner, alias, , tag] = namePattern.exec((name ?? older ?? "").toLowerCase()) ?? [];
  if (alias === undefined) throw new ApiError(400, "name: letters, digits, - and _, at most 60");
  if (owner !== undefined && owner !== tenant.namespace)
    throw new ApiError(400, `name: the namespace is ${tenant.namespace}`);
  const tags = [...(tag === undefined ? [] : [tag]), ...(more ?? [])];
  return { alias, tags: tags.length === 0 ? [defaultTag] : [...new Set(tags)] };
}

function readOrigin({ request }: Call): string {
  const forwarded = request.headers["x-forwarded-proto"];
  const isTls = forwarded === "https" || "encrypted" in request.socket;
  return `${isTls ? "https" : "http"}://${request.headers.host ?? ""}`;
}

function formatNew({ namespace, templateId, buildId, alias, tags }: BuildRecord): unknown {
  return {
    templateID: templateId,
    buildID: buildId,
    names: [`${namespace}/${alias}`],
    tags,
    aliases: [alias],
    public: false,
  };
}

function formatStatus({ templateId, buildId, status, logs, reason }: BuildRecord, offset: number): unknown {
  return {
    templateID: templateId,
    buildID: buildId,
    status,
    logs: [],
    logEntries: logs.slice(offset, offset + mostEntries),
    ...(reason ? { reason } : {}),
  };
}
