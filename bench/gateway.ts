/**
 * The gateway against what kubectl does with the same machines in the same run, in alternating order: real parts, real guests.
 *
 *   --creates N    sandboxes made each way (5)
 *   --commands N   commands run each way (30)
 *   --megabytes N  of a file that goes up and down (64)
 *   --requests N   proxied HTTP requests (300)
 *   --held N       requests that wait for one sleeping machine (1000)
 *   --sandboxes N  sandboxes that are listed while memory is measured (1000)
 *   --streams N    streams that are open then (200)
 *   --parts A,B    of creates, commands, files, proxy, held, memory; default all
 */
import { performance } from "node:perf_hooks";
import { parseArgs } from "node:util";
import { ownControlPlane } from "@cocoon/testkit";
import { startGatewayProcess } from "../test/integration/gateway/gateway-process.ts";
import { openGatewayWorld } from "../test/integration/gateway/world.ts";
import { measureCommands, measureCreates, measureFiles } from "./gateway/compare.ts";
import { measureMemory } from "./gateway/memory.ts";
import { measureHeld, measureProxy } from "./gateway/traffic.ts";
import { printReport } from "./report.ts";

const { values } = parseArgs({
  options: {
    creates: { type: "string", default: "5" },
    commands: { type: "string", default: "30" },
    megabytes: { type: "string", default: "64" },
    requests: { type: "string", default: "300" },
    held: { type: "string", default: "1000" },
    sandboxes: { type: "string", default: "1000" },
    streams: { type: "string", default: "200" },
    parts: { type: "string", default: "creates,commands,files,proxy,held,memory" },
  },
});

await using cluster = await ownControlPlane({ controllers: true });
await using own = await openGatewayWorld(cluster);
// A process of its own, as installed: gateway, kubelet and clients in one thread would wait for each other.
await using gateway = await startGatewayProcess(own, { GATEWAY_REQUESTS_PER_SECOND: "1000" });
const world = { ...own, url: gateway.url, connection: gateway.connection };
const scene = { cluster, world };
const began = performance.now();
const parts = new Set(values.parts.split(","));

/** Each figure is printed when it is there: a run that is broken off has shown the ones before. */
async function measure<T>(part: string, work: () => Promise<T>): Promise<T | undefined> {
  if (!parts.has(part)) return undefined;
  const figures = await work();
  console.log(JSON.stringify({ [part]: figures }));
  return figures;
}

const creates = await measure("creates", () => measureCreates(scene, Number(values.creates)));
const commands = await measure("commands", () => measureCommands(scene, Number(values.commands)));
const files = await measure("files", () => measureFiles(scene, Number(values.megabytes)));
const proxy = await measure("proxy", () => measureProxy(scene, Number(values.requests)));
const held = await measure("held", () => measureHeld(scene, Number(values.held)));
const memory = await measure("memory", () =>
  measureMemory(scene, { sandboxes: Number(values.sandboxes), streams: Number(values.streams) }),
);

printReport({
  bench: "gateway",
  figures: { creates, commands, files, proxy, held, memory, tookS: (performance.now() - began) / 1000 },
  targets: [
    creates && [
      {
        name: "create to first command, p50, share of kubectl",
        value: creates.sdk.p50 / creates.kubectl.p50,
        want: "<= 0.5",
      },
      {
        name: "create to first command, p99, share of kubectl",
        value: creates.sdk.p99 / creates.kubectl.p99,
        want: "<= 0.5",
      },
    ],
    commands && [
      {
        name: "commands.run(true), p50, share of kubectl exec",
        value: commands.sdk.p50 / commands.kubectl.p50,
        want: "<= 1",
      },
    ],
    files && [
      { name: "upload, times kubectl cp", value: files.up.sdk / files.up.kubectl, want: ">= 3" },
      { name: "download, times kubectl cp", value: files.down.sdk / files.down.kubectl, want: ">= 3" },
    ],
    proxy && [{ name: "proxied HTTP, share of direct", value: proxy.through / proxy.direct, want: ">= 0.7" }],
    held && [
      {
        name: "requests held for one machine that were answered",
        value: held.answered / held.requests,
        want: ">= 1",
      },
      { name: "wakes for them", value: held.wakes, want: "<= 1" },
    ],
    memory && [{ name: "memory of the gateway, MB", value: memory.memoryMB, want: "<= 150" }],
  ]
    .flat()
    .filter((target) => target !== undefined),
});
