import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { podName, podVmName, getSlotRole, findSlot, tryParseSlot, vmName } from "./vm-name.ts";

const demo = { namespace: "prod", set: "demo" };

test("names are what they have always been, byte for byte", () => {
  assert.equal(podName("demo", 0), "demo-0");
  assert.equal(podName("demo", "shell"), "demo-shell");
  assert.equal(vmName(demo, 0), "vk-prod-demo-0");
  assert.equal(vmName(demo, 12), "vk-prod-demo-12");
  assert.equal(vmName(demo, "shell"), "vk-prod-demo-shell");
  assert.equal(podVmName("prod", "web-abc"), "vk-prod-web-abc");
});

test("slots are read strictly", () => {
  const table: readonly (readonly [string, number | undefined])[] = [
    ["vk-prod-demo-0", 0],
    ["vk-prod-demo-12", 12],
    ["vk-prod-demo-2147483647", 2_147_483_647],
    ["vk-prod-demo-2147483648", undefined],
    ["vk-prod-demo-db-2", undefined],
    ["vk-prod-demo-shell", undefined],
    ["vk-prod-other-0", undefined],
    ["vk-stage-demo-0", undefined],
    ["prod-demo-0", undefined],
    ["vk-prod-demo-007", undefined],
    ["vk-prod-demo-+3", undefined],
    ["vk-prod-demo--3", undefined],
    ["vk-prod-demo-", undefined],
    ["vk-prod-demo-1 ", undefined],
  ];
  for (const [name, slot] of table) assert.equal(findSlot(demo, name), slot, name);
});

test("slot 0 is main, others are sub-agents, no slot is a toolbox", () => {
  assert.equal(getSlotRole(0), "main");
  assert.equal(getSlotRole(1), "sub-agent");
  assert.equal(getSlotRole(undefined), "toolbox");
});

test("a slot survives being part of a name", () => {
  fc.assert(
    fc.property(fc.nat(2 ** 31 - 1), (slot) => {
      assert.equal(findSlot(demo, vmName(demo, slot)), slot);
      assert.equal(tryParseSlot(String(slot)), slot);
    }),
  );
});
