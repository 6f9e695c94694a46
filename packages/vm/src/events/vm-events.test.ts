import assert from "node:assert/strict";
import { test } from "node:test";
import type { Vm } from "../vm.ts";
import { eventsBetween } from "./vm-events.ts";

const vm: Vm = {
  id: "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
  name: "web",
  state: "running",
  hypervisor: "qemu",
  config: { cpus: 1, memoryBytes: 1, storageBytes: 1, os: "linux", labels: {} },
  origin: { kind: "image", image: "demo" },
  nics: [],
  disks: [],
  snapshotIds: [],
  guest: "booting",
  epoch: "one",
  firstBooted: true,
  createdAt: "",
  updatedAt: "",
};
const kinds = (before: Vm | undefined, now: Vm | undefined) =>
  eventsBetween(before, now).map((event) => event.kind);

test("each change has its events", () => {
  assert.deepEqual(kinds(undefined, { ...vm, state: "creating" }), ["added"]);
  assert.deepEqual(kinds(undefined, { ...vm, guest: "ready" }), ["added", "started", "ready"]);
  assert.deepEqual(kinds({ ...vm, state: "creating" }, vm), ["started"]);
  assert.deepEqual(kinds(vm, { ...vm, guest: "ready" }), ["ready"]);
  assert.deepEqual(kinds(vm, { ...vm, state: "paused" }), ["paused"]);
  assert.deepEqual(kinds({ ...vm, state: "paused" }, vm), ["started"]);
  assert.deepEqual(kinds(vm, { ...vm, state: "stopped" }), ["exited"]);
  assert.deepEqual(kinds({ ...vm, state: "paused" }, { ...vm, state: "error" }), ["exited"]);
  assert.deepEqual(kinds(vm, { ...vm, snapshotIds: ["x"] }), ["changed"]);
  assert.deepEqual(kinds(vm, vm), []);
  assert.deepEqual(kinds(vm, undefined), ["removed"]);
  assert.deepEqual(kinds(undefined, undefined), []);
});

test("a guest that was started anew between two looks is told of, and is not ready", () => {
  const before: Vm = { ...vm, guest: "ready" };
  assert.deepEqual(kinds(before, { ...before, epoch: "two", guest: "booting" }), ["started"]);
  assert.deepEqual(kinds(before, { ...before, epoch: "two" }), ["started", "ready"]);
});
