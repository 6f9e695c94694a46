/** Templates: which there are, those of the gateway and those that the tenant built. */
import { ApiError, sendJson } from "../http/answer.ts";
import type { MachineSources } from "../sandboxes/choose-machine.ts";
import type { Snapshot } from "../sandboxes/read-snapshot.ts";
import type { Template } from "../sandboxes/templates.ts";
import type { Call, Routes } from "./router.ts";
import { envdVersion } from "./shapes.ts";

export const noBuild = "00000000-0000-0000-0000-000000000000";

export function buildTemplateRoutes({ templates, snapshots }: MachineSources): Routes {
  const list = async ({ response, tenant }: Call) => {
    const built = snapshots.list(tenant.namespace).filter(({ source }) => source === "");
    sendJson(response, 200, [...templates.list().map(formatTemplate), ...built.map(formatBuilt)]);
  };
  return {
    "GET /templates": list,
    "GET /v2/templates": list,
    "GET /templates/{id}": async ({ response, tenant, parameter }) => {
      const built = snapshots.tryFind(tenant.namespace, parameter("id"));
      if (built) return sendJson(response, 200, { ...formatBuilt(built), builds: [] });
      const template = templates.require(parameter("id"));
      sendJson(response, 200, { ...formatTemplate(template), builds: [] });
    },
    "GET /templates/aliases/{alias}": async ({ response, tenant, parameter }) => {
      const [built] = snapshots.listBuilds(tenant.namespace, parameter("alias"));
      if (built) return sendJson(response, 200, { templateID: built.name, public: false });
      const template = templates.tryGet(parameter("alias"));
      if (!template) throw new ApiError(404, `template "${parameter("alias")}" not found`);
      sendJson(response, 200, { templateID: template.name, public: true });
    },
  };
}

function formatBuilt(built: Snapshot): Record<string, unknown> {
  const { name, namespace, alias, template, createdAt, build } = built;
  return {
    ...formatTemplate({ ...template, name }),
    buildID: build ?? noBuild,
    public: false,
    aliases: alias === "" ? [] : [alias],
    names: alias === "" ? [] : [`${namespace}/${alias}`],
    createdAt,
    updatedAt: createdAt,
  };
}

/** Templates come with the gateway: they have no build of their own. */
function formatTemplate({ name, cpus, memoryMiB, storageMiB }: Template): Record<string, unknown> {
  const never = new Date(0).toISOString();
  return {
    templateID: name,
    buildID: noBuild,
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
