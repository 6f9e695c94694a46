import assert from "node:assert/strict";
import { test } from "node:test";
import type { HealthData, MachineRow, NodeRow } from "../../../src/shared/rows.ts";
import { listFindings } from "./findings.ts";

const part = (name: string, up: boolean, version = "1") => ({ name, up, version, error: "" });
const series = (name: string, value: number) => ({
  part: "p",
  name,
  title: "",
  unit: "count",
  times: [1],
  values: [value],
});

function judge(health: HealthData, { ready = true, state = "ready" } = {}): Record<string, string> {
  const nodes = [
    {
      name: "n",
      pool: "default",
      ready,
      pressure: ready ? [] : ["DiskPressure"],
      frozen: 0,
    } as unknown as NodeRow,
  ];
  const machines = [{ name: "m", state } as MachineRow];
  return Object.fromEntries(
    listFindings({ health, nodes, machines }).map(({ title, tone }) => [title, tone]),
  );
}

test("a sound platform has nothing but good findings", () => {
  const health = {
    parts: [part("a", true), part("b", true)],
    series: [
      series("serving_certificate_days_to_expiry", 90),
      series("controller_failing_objects", 0),
      series("vk_cocoon_node_storage_available_bytes", 1e12),
    ],
  };
  const tones = judge(health);
  assert.deepEqual(new Set(Object.values(tones)), new Set(["good"]));
  assert.equal(Object.keys(tones).length, 8);
});

test("each thing that is wrong is found where it is", () => {
  const health = {
    parts: [part("a", true, "1"), part("b", false, "2")],
    series: [
      series("serving_certificate_days_to_expiry", 3),
      series("controller_failing_objects", 2),
      series("vk_cocoon_node_storage_available_bytes", 1e6),
    ],
  };
  assert.deepEqual(Object.values(judge(health, { ready: false, state: "failed" })), [
    "bad",
    "warn",
    "bad",
    "bad",
    "warn",
    "warn",
    "warn",
    "warn",
  ]);
});
