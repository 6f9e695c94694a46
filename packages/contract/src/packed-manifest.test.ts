import assert from "node:assert/strict";
import { test } from "node:test";
import { isFault } from "@cocoon/core";
import { classifyManifest, mediaType } from "./media-types.ts";
import {
  assemblePackedSnapshot,
  assembleSnapshot,
  readSnapshotConfig,
  readSnapshotManifest,
} from "./snapshot-manifest.ts";

const blob = (type: string, digit: string) => ({
  mediaType: type,
  digest: `sha256:${digit.repeat(64)}`,
  size: 7,
});
const manifest = {
  schemaVersion: 2,
  mediaType: mediaType.ociManifest,
  artifactType: mediaType.snapshotPacked,
  config: blob(mediaType.snapshotConfig, "a"),
  layers: [
    blob(mediaType.snapshotIndex, "b"),
    blob(mediaType.snapshotPack, "c"),
    blob(mediaType.snapshotPack, "d"),
  ],
};
const config = readSnapshotConfig({ schemaVersion: "packed-v1", snapshotId: "K7" });
const invalid = (error: unknown): boolean => isFault(error, "invalid");

test("a packed snapshot is an index and its packs", () => {
  const { index, packs } = assemblePackedSnapshot(readSnapshotManifest(manifest), config);
  assert.deepEqual([index.digest, packs.length], [`sha256:${"b".repeat(64)}`, 2]);
  assert.equal(classifyManifest(manifest), "snapshot");
});

test("it is not mistaken for one of files, nor the other way round", () => {
  assert.throws(() => assembleSnapshot(readSnapshotManifest(manifest), config), invalid);
  const v2 = readSnapshotManifest({ ...manifest, artifactType: mediaType.snapshotV2 });
  assert.throws(() => assemblePackedSnapshot(v2, { ...config, schemaVersion: "v2" }), invalid);
  assert.throws(() => assemblePackedSnapshot(v2, config), invalid);
});

test("layers that do not belong there are refused", () => {
  for (const layers of [
    [],
    manifest.layers.slice(1),
    [...manifest.layers, blob(mediaType.other, "e")],
    [...manifest.layers, blob(mediaType.snapshotIndex, "e")],
  ])
    assert.throws(
      () => assemblePackedSnapshot(readSnapshotManifest({ ...manifest, layers }), config),
      invalid,
    );
});

test("an anchor is no snapshot", () => {
  assert.equal(classifyManifest({ ...manifest, artifactType: mediaType.snapshotAnchor }), "unknown");
});
