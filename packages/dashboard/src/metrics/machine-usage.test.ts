import assert from "node:assert/strict";
import { test } from "node:test";
import type { UsageRow } from "../shared/rows.ts";
import { MachineUsage } from "./machine-usage.ts";

const measure = (memory: number, received: number) => `
vk_cocoon_vm_memory_rss_bytes{vm="vk-a-m-0",pod="m-0",namespace="a"} ${memory}
vk_cocoon_vm_disk_cow_bytes{vm="vk-a-m-0",pod="m-0",namespace="a"} 7
vk_cocoon_vm_network_rx_bytes_total{vm="vk-a-m-0",pod="m-0",namespace="a"} ${received}
`;

test("usage is that of the newest measurement, traffic the last one that was more than quiet", () => {
  const usage = new MachineUsage();
  const heard: string[] = [];
  using _listening = usage.subscribe((changed, gone) => {
    heard.push(`${changed.map(describe).join(" ")}|${gone.map(({ name }) => name).join(" ")}`);
  });
  usage.update("node", measure(100, 1_000), new Date(1_000));
  usage.update("node", measure(100, 1_100), new Date(2_000));
  usage.update("node", measure(100, 1_000_000), new Date(3_000));
  usage.update("other", "", new Date(4_000));
  usage.update("node", measure(200, 1_000_000), new Date(5_000));
  assert.deepEqual(usage.rows().map(describe), ["m-0 200 7 1970-01-01T00:00:03.000Z"]);
  usage.update("node", "", new Date(6_000));
  assert.deepEqual(usage.rows(), []);
  assert.deepEqual(heard, [
    "m-0 100 7 |",
    "m-0 100 7 1970-01-01T00:00:03.000Z|",
    "m-0 200 7 1970-01-01T00:00:03.000Z|",
    "|m-0",
  ]);
});

function describe({ name, memoryBytes, diskBytes, trafficAt }: UsageRow): string {
  return `${name} ${memoryBytes} ${diskBytes} ${trafficAt}`;
}
