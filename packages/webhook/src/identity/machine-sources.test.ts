import assert from "node:assert/strict";
import { test } from "node:test";
import type { NameKeepers } from "../store/collisions.ts";
import { findMachineOfImage } from "./machine-sources.ts";
import { findOwnerNamespaces } from "./machine-owners.ts";

test("images that are snapshots of a machine, however they are written", () => {
  const digest = `sha256:${"0".repeat(64)}`;
  const machine = "vk-bob-demo-0";
  const images = [
    machine,
    `${machine}:hibernate`,
    `${machine}@${digest}`,
    `registry.example:5000/${machine}:latest`,
    `registry.example/team/${machine}:latest@${digest}`,
    `team/${machine}:released-20260101`,
    `https://epoch.example/dl/${machine}`,
    `https://epoch.example/dl/${machine}/disk.qcow2`,
    `https://epoch.example/v2/${machine}/manifests/latest`,
  ];
  for (const image of images) assert.equal(findMachineOfImage(image), machine, image);
});

test("other images are not", () => {
  for (const image of [
    "",
    "team/base:v7",
    "vk-tools:1",
    "ghcr.io/org/vk-tools",
    "cocoon-demo",
    "https://x/y.img",
  ])
    assert.equal(findMachineOfImage(image), undefined, image);
});

test("a machine belongs to the longest namespace that its name begins with", () => {
  const keepers = {
    reserved: { holding: () => [] },
    sets: { findNameOwner: () => undefined, findPrefixOwner: () => undefined },
    pods: { withVmName: () => [] },
  } as unknown as NameKeepers;
  const existing = new Set(["a", "a-b"]);
  const find = (vmName: string) => [
    ...findOwnerNamespaces(vmName, { keepers, namespaceExists: (name) => existing.has(name) }),
  ];
  assert.deepEqual(find("vk-a-c-0"), ["a"]);
  assert.deepEqual(find("vk-a-b-c-0"), ["a-b"]);
  assert.deepEqual(find("vk-a-bc-0"), ["a"]);
  assert.deepEqual(find("vk-gone-c-0"), []);
});
