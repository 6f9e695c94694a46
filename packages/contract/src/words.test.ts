import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import {
  classifyManifest,
  isDiskType,
  isSnapshotLayerType,
  mediaType,
  snapshotLayerType,
} from "./media-types.ts";
import { findDnsLabelProblem, isDnsLabel, isDnsSubdomain } from "./rfc1123.ts";
import { claimTag, readTagPurpose, releasedTag, tryReadClaimTag, tryReadReleasedTag } from "./tags.ts";

test("names that Kubernetes takes and does not take", () => {
  for (const name of ["a", "a-1", "0", "a".repeat(63)]) assert.ok(isDnsLabel(name), name);
  for (const name of ["", "-a", "a-", "A", "a.b", "a_b", "a".repeat(64)]) assert.ok(!isDnsLabel(name), name);
  for (const name of ["a", "a.b-c.d", "a".repeat(253)]) assert.ok(isDnsSubdomain(name), name);
  for (const name of ["", ".a", "a.", "a..b", "a.-b", "A", "a".repeat(254)])
    assert.ok(!isDnsSubdomain(name), name);
  assert.match(findDnsLabelProblem("a".repeat(64)) ?? "", /no more than 63 characters, has 64/);
  assert.match(findDnsLabelProblem("A") ?? "", /lower case/);
});

test("a released slot's tag says when, and is read back", () => {
  assert.equal(releasedTag(new Date("2026-08-12T08:00:00.123Z")), "released-20260812T080000Z");
  for (const tag of [
    "hibernate",
    "released-",
    "released-20261312T080000Z",
    "released-20260230T000000Z",
    "xreleased-20260812T080000Z",
  ])
    assert.equal(tryReadReleasedTag(tag), undefined, tag);
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 4_102_444_800 }), (seconds) => {
      const at = new Date(seconds * 1000);
      assert.deepEqual(tryReadReleasedTag(releasedTag(at)), at);
    }),
  );
});

test("kinds of manifests", () => {
  const image = { config: { mediaType: mediaType.ociImageConfig } };
  const table = [
    [{ artifactType: mediaType.snapshotV1 }, "snapshot"],
    [{ artifactType: mediaType.snapshotV2, ...image }, "snapshot"],
    [{ artifactType: mediaType.osImage }, "cloud-image"],
    [{ artifactType: mediaType.windowsImage }, "cloud-image"],
    [image, "container-image"],
    [{ config: { mediaType: mediaType.dockerImageConfig } }, "container-image"],
    [{ mediaType: mediaType.ociIndex }, "image-index"],
    [{ mediaType: mediaType.dockerManifestList }, "image-index"],
    [{ mediaType: mediaType.ociManifest, config: { mediaType: mediaType.ociEmpty } }, "unknown"],
    [{}, "unknown"],
  ] as const;
  for (const [manifest, kind] of table)
    assert.equal(classifyManifest(manifest), kind, JSON.stringify(manifest));
});

test("types of layers", () => {
  const table: Readonly<Record<string, string>> = {
    "config.json": mediaType.vmConfig,
    "state.json": mediaType.vmState,
    "memory-ranges": mediaType.vmMemory,
    "cidata.img": mediaType.vmCidata,
    "overlay.qcow2": mediaType.diskQcow2,
    "data-x.raw": mediaType.diskRaw,
    "cocoon.json": mediaType.other,
    vmstate: mediaType.other,
  };
  for (const [file, type] of Object.entries(table)) {
    assert.equal(snapshotLayerType(file), type, file);
    assert.ok(isSnapshotLayerType(type));
    assert.ok(isSnapshotLayerType(`${type}+zstd`));
  }
  assert.ok(!isSnapshotLayerType("text/plain"));
  assert.ok(!isSnapshotLayerType(`${mediaType.diskRaw}.part`));
  for (const type of ["disk.qcow2", "disk.raw.part", "windows.disk.qcow2.part"])
    assert.ok(isDiskType(`application/vnd.cocoonstack.${type}`), type);
  assert.ok(!isDiskType(mediaType.vmMemory));
});

test("a claim names its node, and a name that would have to be cut is refused", () => {
  assert.equal(tryReadClaimTag(claimTag("node-1.example")), "node-1.example");
  assert.equal(tryReadClaimTag("waking-"), undefined);
  assert.equal(tryReadClaimTag("hibernate"), undefined);
  assert.equal(claimTag("n".repeat(121)).length, 128);
  for (const node of ["", "n".repeat(122)]) assert.throws(() => claimTag(node), /must have 1 to 121/);
});

test("each tag of a machine has one purpose", () => {
  const purposes = ["hibernate", "hibernated", "waking-a", "latest", "released-20260102T030405Z", "mine"];
  assert.deepEqual(purposes.map(readTagPurpose), [
    "hibernated",
    "hibernated",
    "claim",
    "latest",
    "released",
    "named",
  ]);
});
