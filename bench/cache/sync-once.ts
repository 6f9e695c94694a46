/**
 * Our side of the comparison, in a process of its own: opens a cache of all pods and says what that took.
 *
 *   sync-once.ts KUBECONFIG EXPECTED-PODS [trimmed]
 */
import { readFileSync } from "node:fs";
import { setTimeout } from "node:timers/promises";
import { silentLogger } from "@cocoon/core";
import { openCaches, openKubeClient, pods, type Pod } from "@cocoon/kube";
import type { SyncReport } from "./programs.ts";

const [kubeconfig, expect, form] = process.argv.slice(2);
const settleMs = 2_000;
const { signal } = new AbortController();
const began = performance.now();
await using client = await openKubeClient({ kubeconfig, signal });
await using caches = openCaches({ client, log: silentLogger });
await using cache = caches.open(pods, form === "trimmed" ? { transform: trim } : {});
await cache.synced({ signal });
const syncedMs = performance.now() - began;
const syncedAt = Date.now();
const { user, system } = process.cpuUsage();
if (cache.size < Number(expect)) throw new Error(`synced ${cache.size} pods, expected ${expect}`);
await setTimeout(settleMs);
const report: SyncReport = {
  objects: cache.size,
  syncedMs,
  syncedAt,
  residentKiB: memoryKiB("VmRSS"),
  peakKiB: memoryKiB("VmHWM"),
  cpuMs: (user + system) / 1000,
};
console.log(JSON.stringify(report));

/** What a program keeps that only asks where pods run, how they are, and what they want of their node. */
function trim({ apiVersion, kind, metadata, spec, status }: Pod): Pod {
  const { name, namespace, uid, resourceVersion, labels, ownerReferences, deletionTimestamp } = metadata;
  const containers = (spec?.containers ?? []).map((each) => ({
    name: each.name,
    resources: each.resources ?? {},
  }));
  return {
    ...(apiVersion && { apiVersion }),
    ...(kind && { kind }),
    metadata: {
      ...(name && { name }),
      ...(namespace && { namespace }),
      ...(uid && { uid }),
      ...(resourceVersion && { resourceVersion }),
      ...(labels && { labels }),
      ...(ownerReferences && { ownerReferences }),
      ...(deletionTimestamp && { deletionTimestamp }),
    },
    spec: { containers, ...(spec?.nodeName && { nodeName: spec.nodeName }) },
    status: { ...(status?.phase && { phase: status.phase }), ...(status?.podIP && { podIP: status.podIP }) },
  };
}

function memoryKiB(field: string): number {
  const match = new RegExp(`^${field}:\\s+(\\d+) kB`, "m").exec(readFileSync("/proc/self/status", "latin1"));
  return Number(match?.[1]);
}
