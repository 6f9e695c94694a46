/** The keys of the gateway, for the table of all keys. */
import { gatewayKey } from "@cocoon/contract";
import type { Row } from "./key-table.ts";

const setLabels: readonly Row[] = [
  [gatewayKey.sandbox, "gateway", "gateway", "ours: `true` on a set that is a sandbox"],
  [gatewayKey.template, "gateway", "gateway", "ours: name of the snapshot that the set keeps"],
  [gatewayKey.pool, "gateway", "gateway", "ours: template of a machine that waits to become a sandbox"],
];

const setAnnotations: readonly Row[] = [
  [gatewayKey.sandboxSpec, "gateway", "gateway", "ours: what the client of the sandbox asked for, JSON"],
  [gatewayKey.templateTags, "gateway", "gateway", "ours: tags that name this build of a template"],
  [gatewayKey.poolReady, "gateway", "gateway", "ours: `true` once a machine of the pool is prepared"],
  [
    gatewayKey.wakeOnTraffic,
    "users",
    "gateway",
    "ours: `true`: a request for one of the set's machines wakes it",
  ],
  [
    gatewayKey.publicPorts,
    "users",
    "gateway",
    "ours: ports of the set's machines that need no token, as `80,8080`",
  ],
];

const secretLabels: readonly Row[] = [
  [gatewayKey.apiKey, "cocoonctl", "gateway", "ours: `true` on the hash of an API key"],
  [gatewayKey.apiKeyHash, "cocoonctl", "gateway", "ours: first 40 digits of that hash"],
];

const configMapLabels: readonly Row[] = [
  [gatewayKey.build, "gateway", "gateway", "ours: `true` where it says how far the build of a template is"],
];

export const gatewayRows = { setLabels, setAnnotations, secretLabels, configMapLabels };
