import assert from "node:assert/strict";
import { test } from "node:test";
import type { HealthData, MachineRow, NodeRow } from "../../../src/shared/rows.ts";
import { buildMap } from "./installation.ts";

const node = (name: string, more: Partial<NodeRow> = {}) =>
  ({
    kind: "node",
    name,
    ready: true,
    message: "",
    unschedulable: false,
    pool: "default",
    version: "1.0",
    runtime: "qemu://7.2",
    pressure: [],
    frozen: 0,
    ...more,
  }) as unknown as NodeRow;

const health: HealthData = {
  parts: [
    { name: "webhook", up: true, version: "1.0", error: "" },
    { name: "gateway", up: false, version: "", error: "refused" },
    { name: "vk-node-1", up: true, version: "1.0", error: "" },
    { name: "registry", up: true, version: "1.0", error: "" },
  ],
  series: [
    {
      part: "webhook",
      name: "serving_certificate_days_to_expiry",
      title: "",
      unit: "days",
      times: [1],
      values: [9.5],
    },
  ],
};

test("every part stands in its area, with what is wrong with it", () => {
  const machines = [{ node: "one" } as MachineRow];
  const nodes = [node("one", { pressure: ["DiskPressure"] }), node("two", { ready: false, message: "gone" })];
  const [entrances, control, hosts, registry] = buildMap({ health, nodes, machines, kubernetes: "v1.36.3" });
  const read = (area: typeof entrances) =>
    area?.items.map(({ name, tone, facts }) => [name, tone, facts.join("; ")]);
  assert.deepEqual(read(entrances), [["gateway", "bad", "does not answer; refused"]]);
  assert.deepEqual(read(control), [
    ["API server", "good", "version v1.36.3"],
    ["webhook", "warn", "version 1.0; certificate: 9 days"],
  ]);
  assert.deepEqual(read(hosts), [
    ["one", "warn", "DiskPressure; 1 machine; qemu://7.2; version 1.0"],
    ["two", "bad", "not ready; gone"],
    ["vk-node-1", "good", "version 1.0"],
  ]);
  assert.deepEqual(read(registry), [["registry", "good", "version 1.0"]]);
});
