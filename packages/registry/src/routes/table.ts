/** Every route and what answers it. */
import type { Methods } from "../http/handler.ts";
import type { RouteKind } from "../http/route.ts";
import { apiGcRoute, apiTokenRoute, apiTokensRoute } from "./api-admin.ts";
import {
  apiRepositoriesRoute,
  apiRepositoryRoute,
  apiStatsRoute,
  apiSyncRoute,
  apiTagRoute,
  apiTagsRoute,
} from "./api-repositories.ts";
import { blobRoute } from "./blobs.ts";
import { catalogRoute, pingRoute, referrersRoute, tagsRoute } from "./discovery.ts";
import { downloadRoute } from "./download.ts";
import { healthRoute, readyRoute } from "./health.ts";
import { homeRoute, loginCallbackRoute, loginRoute, logoutRoute, meRoute } from "./login.ts";
import { manifestRoute } from "./manifests.ts";
import { tokenRoute } from "./token.ts";
import { uploadRoute, uploadsRoute } from "./uploads.ts";

export const routeTable: { readonly [K in RouteKind]: Methods<K> } = {
  ping: pingRoute,
  catalog: catalogRoute,
  token: tokenRoute,
  manifest: manifestRoute,
  blob: blobRoute,
  uploads: uploadsRoute,
  upload: uploadRoute,
  tags: tagsRoute,
  referrers: referrersRoute,
  apiStats: apiStatsRoute,
  apiRepositories: apiRepositoriesRoute,
  apiRepository: apiRepositoryRoute,
  apiTags: apiTagsRoute,
  apiTag: apiTagRoute,
  apiSync: apiSyncRoute,
  apiTokens: apiTokensRoute,
  apiToken: apiTokenRoute,
  apiGc: apiGcRoute,
  download: downloadRoute,
  login: loginRoute,
  loginCallback: loginCallbackRoute,
  logout: logoutRoute,
  me: meRoute,
  home: homeRoute,
  health: healthRoute,
  ready: readyRoute,
};
