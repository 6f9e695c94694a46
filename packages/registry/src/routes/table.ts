/** Every route and what answers it. */
import type { RouteTable } from "../http/handler.ts";
import { adminRoutes } from "./api-admin.ts";
import { repositoryRoutes } from "./api-repositories.ts";
import { blobRoutes } from "./blobs.ts";
import { discoveryRoutes } from "./discovery.ts";
import { downloadRoutes } from "./download.ts";
import { healthRoutes } from "./health.ts";
import { loginRoutes } from "./login.ts";
import { manifestRoutes } from "./manifests.ts";
import { tokenRoutes } from "./token.ts";
import { uploadRoutes } from "./uploads.ts";

export const routeTable: RouteTable = {
  ...discoveryRoutes,
  ...tokenRoutes,
  ...manifestRoutes,
  ...blobRoutes,
  ...uploadRoutes,
  ...repositoryRoutes,
  ...adminRoutes,
  ...downloadRoutes,
  ...loginRoutes,
  ...healthRoutes,
};
