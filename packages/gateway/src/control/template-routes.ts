/** Templates: which there are. Building them is not offered. */
import { ApiError, sendJson } from "../http/answer.ts";
import type { Template, Templates } from "../sandboxes/templates.ts";
import type { Call, Routes } from "./router.ts";
import { envdVersion } from "./shapes.ts";

export function buildTemplateRoutes({ templates }: { readonly templates: Templates }): Routes {
  const list = async ({ response }: Call) => sendJson(response, 200, templates.list().map(formatTemplate));
  return {
    "GET /templates": list,
    "GET /v2/templates": list,
    "GET /templates/{id}": async ({ response, parameter }) => {
      const template = templates.require(parameter("id"));
      sendJson(response, 200, { ...formatTemplate(template), builds: [] });
    },
    "GET /templates/aliases/{alias}": async ({ response, parameter }) => {
      const template = templates.tryGet(parameter("alias"));
      if (!template) throw new ApiError(404, `template "${parameter("alias")}" not found`);
      sendJson(response, 200, { templateID: template.name, public: true });
    },
  };
}

/** Templates come with the gateway: they have no build of their own. */
function formatTemplate({ name, cpus, memoryMiB, storageMiB }: Template): Record<string, unknown> {
  const never = new Date(0).toISOString();
  return {
    templateID: name,
    buildID: "00000000-0000-0000-0000-000000000000",
    cpuCount: cpus,
    memoryMB: memoryMiB,
    diskSizeMB: storageMiB,
    public: true,
    aliases: [name],
    names: [name],
    createdAt: never,
    updatedAt: never,
    createdBy: null,
    lastSpawnedAt: null,
    spawnCount: 0,
    buildCount: 1,
    envdVersion,
    buildStatus: "ready",
  };
}
