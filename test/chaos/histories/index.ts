/** The findings as histories: each is a list of events that once lost, doubled or gave away a machine. */
import { claims } from "./claims.ts";
import { falseAbsence } from "./false-absence.ts";
import type { NamedHistory } from "./history.ts";
import { hosts } from "./hosts.ts";
import { missingPods } from "./missing-pods.ts";
import { platformParts } from "./platform-parts.ts";
import { registryReplicas } from "./registry-replicas.ts";
import { staleCache } from "./stale-cache.ts";

export const histories: readonly NamedHistory[] = [
  ...missingPods,
  ...falseAbsence,
  ...claims,
  ...staleCache,
  ...hosts,
  ...registryReplicas,
  ...platformParts,
];
