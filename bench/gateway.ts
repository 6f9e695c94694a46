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
 */
import { performance } from "node:perf_hooks";
import { parseArgs } from "node:util";
import { ownControlPlane } from "@cocoon/testkit";
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
  },
});

await using cluster = await ownControlPlane({ controllers: true });
await using world = await openGatewayWorld(cluster);
const scene = { cluster, world };
const began = performance.now();
const creates = await measureCreates(scene, Number(values.creates));
console.log(JSON.stringify({ creates }));
const commands = await measureCommands(scene, Number(values.commands));
console.log(JSON.stringify({ commands }));
const files = await measureFiles(scene, Number(values.megabytes));
console.log(JSON.stringify({ files }));
const proxy = await measureProxy(scene, Number(values.requests));
console.log(JSON.stringify({ proxy }));
const held = await measureHeld(scene, Number(values.held));
console.log(JSON.stringify({ held }));
const memory = await measureMemory(scene, {
  sandboxes: Number(values.sandboxes),
  streams: Number(values.streams),
});
console.log(JSON.stringify({ memory }));

printReport({
  bench: "gateway",
  figures: { creates, commands, files, proxy, held, memory, tookS: (performance.now() - began) / 1000 },
  targets: [
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
    {
      name: "commands.run(true), p50, share of kubectl exec",
      value: commands.sdk.p50 / commands.kubectl.p50,
      want: "<= 1",
    },
    { name: "upload, times kubectl cp", value: files.up.sdk / files.up.kubectl, want: ">= 3" },
    { name: "download, times kubectl cp", value: files.down.sdk / files.down.kubectl, want: ">= 3" },
    { name: "proxied HTTP, share of direct", value: proxy.through / proxy.direct, want: ">= 0.7" },
    {
      name: "requests held for one machine that were answered",
      value: held.answered / held.requests,
      want: ">= 1",
    },
    { name: "wakes for them", value: held.wakes, want: "<= 1" },
    { name: "memory of the gateway, MB", value: memory.memoryMB, want: "<= 150" },
  ],
});
