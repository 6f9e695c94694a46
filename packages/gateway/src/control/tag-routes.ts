/** Tags of templates: several builds of one name, each found by its tags. */
import * as z from "zod";
import { ApiError, sendEmpty, sendJson } from "../http/answer.ts";
import type { Snapshot } from "../sandboxes/read-snapshot.ts";
import type { Snapshots } from "../sandboxes/snapshots.ts";
import type { Call, Routes } from "./router.ts";
import { parseBody } from "./shapes.ts";
import { noBuild } from "./template-routes.ts";

export const tagsSchema = z
  .array(z.string().regex(/^[a-z0-9._-]{1,60}$/, "letters, digits, ., - and _"))
  .max(20);
const assignBody = z.object({ target: z.string().max(200), tags: tagsSchema.min(1) });
const removeBody = z.object({ name: z.string().max(200), tags: tagsSchema.min(1) });

export function buildTagRoutes({ snapshots }: { readonly snapshots: Snapshots }): Routes {
  const requireBuilds = ({ tenant }: Call, name: string): readonly Snapshot[] => {
    const builds = snapshots.listBuilds(tenant.namespace, name);
    if (builds.length === 0) throw new ApiError(404, `template "${name}" not found`);
    return builds;
  };
  return {
    "GET /templates/{id}/tags": async (call) => {
      const tags = requireBuilds(call, call.parameter("id")).flatMap((built) =>
        built.tags.map((tag) => ({ tag, buildID: built.build ?? noBuild, createdAt: built.createdAt })),
      );
      sendJson(call.response, 200, tags);
    },
    "POST /templates/tags": async (call) => {
      const { target, tags } = parseBody(assignBody, call.body);
      const snapshot = snapshots.tryFind(call.tenant.namespace, target);
      if (!snapshot) throw new ApiError(404, `template "${target}" not found`);
      if (snapshot.alias === "") throw new ApiError(400, "target: a snapshot without a name has no tags");
      await snapshots.assignTags(call.tenant, { snapshot, tags }, call);
      sendJson(call.response, 201, { buildID: snapshot.build ?? noBuild, tags });
    },
    /** The build stays, and can be deleted by its id. */
    "DELETE /templates/tags": async (call) => {
      const { name, tags } = parseBody(removeBody, call.body);
      await snapshots.removeTags(call.tenant, { builds: requireBuilds(call, name), tags }, call);
      sendEmpty(call.response, 204);
    },
  };
}
