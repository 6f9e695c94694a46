import assert from "node:assert/strict";
import { test } from "node:test";
import { annotation } from "@cocoon/contract";
import { readMachine } from "../pod-machine.ts";
import { TagLookups } from "./tag-lookups.ts";

function machine(vmName: string, resourceVersion: string) {
  const annotations = { [annotation.vmName]: vmName };
  return readMachine({ metadata: { name: vmName, uid: "u", resourceVersion, annotations } });
}

const there = { kind: "there", digest: "sha256:1" } as const;

test("an answer counts while the machine's pod is as it was when the registry was asked", () => {
  const asked = new TagLookups();
  asked.note("vk-a-0", [machine("vk-a-0", "1"), machine("vk-a-1", "1")], there);
  assert.deepEqual(
    [...asked.forMachines([machine("vk-a-0", "1"), machine("vk-a-1", "2")])],
    [["vk-a-0", there]],
  );
  assert.deepEqual([...asked.forMachines([machine("vk-a-0", "2")])], [], "it changed");
  assert.deepEqual(
    [...asked.forMachines([])],
    [],
    "it is gone: what slept then may have been woken and ended",
  );
});

test("an answer about a machine without a pod counts until it has one", () => {
  const asked = new TagLookups();
  asked.note("vk-a-0", [], there);
  assert.deepEqual([...asked.forMachines([machine("vk-a-1", "1")])], [["vk-a-0", there]]);
  assert.deepEqual([...asked.forMachines([machine("vk-a-0", "1")])], []);
});
