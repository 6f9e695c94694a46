import assert from "node:assert/strict";
import { test } from "node:test";
import { cgroupSettings, type CgroupRequest } from "./cgroup.ts";

const request: CgroupRequest = {
  parent: "cocoon.slice",
  vmId: "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
  pid: 1,
  cpus: 2,
  memoryBytes: 2 ** 30,
  accelerator: "kvm",
  policy: {},
};
const values = (version: 1 | 2, changes: Partial<CgroupRequest> = {}) =>
  Object.fromEntries(
    cgroupSettings(version, { ...request, ...changes }).map(({ file, value }) => [file, value]),
  );

test("without a policy a VM may use as many CPUs as it has", () => {
  assert.deepEqual(values(2), {
    "cpu.weight": "100",
    "cpu.max": "200000 100000",
    "memory.max": String(2 ** 30 + 512 * 2 ** 20),
    "pids.max": "1024",
  });
});

test("a policy says otherwise, in both versions", () => {
  const policy = { weight: 10_000, quotaMicros: 50_000, periodMicros: 20_000 };
  assert.equal(values(2, { policy })["cpu.max"], "50000 20000");
  const one = values(1, { policy });
  assert.deepEqual(
    [one["cpu.shares"], one["cpu.cfs_quota_us"], one["cpu.cfs_period_us"]],
    ["262144", "50000", "20000"],
  );
});

test("emulation needs room for translated code", () => {
  assert.equal(values(1, { accelerator: "tcg" })["memory.limit_in_bytes"], String(2 ** 30 + 1536 * 2 ** 20));
});
