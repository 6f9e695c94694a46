/** A process of its own that keeps a cache: for each line of its input it prints whether that is the truth. */
import { createInterface } from "node:readline";
import { configMaps, openCaches, openKubeClient } from "@cocoon/kube";
import { testLog } from "./access.ts";
import { Witness } from "./witness.ts";

const [kubeconfig, namespace, idleTimeoutMs] = process.argv.slice(2);
const { signal } = new AbortController();
await using client = await openKubeClient({ kubeconfig, signal });
await using caches = openCaches({ client, log: testLog, tuning: { idleTimeoutMs: Number(idleTimeoutMs) } });
await using cache = caches.open(configMaps, { namespace });
await cache.synced({ signal });
using witness = new Witness(cache);
console.log("synced");
for await (const _line of createInterface({ input: process.stdin })) console.log(await verdict());

async function verdict(): Promise<string> {
  try {
    await witness.agreesWith(client, namespace ?? "");
    return `agrees ${witness.size}`;
  } catch (error) {
    return `differs ${String(error)}`.replaceAll("\n", " ");
  }
}
