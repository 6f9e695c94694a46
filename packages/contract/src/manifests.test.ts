import assert from "node:assert/strict";
import { test } from "node:test";
import { cloudImageDisk, readCloudImageManifest } from "./manifest.ts";
import type { Manifest } from "./manifest.ts";
import { mediaType } from "./media-types.ts";
import {
  assembleSnapshot,
  readSnapshotConfig,
  readSnapshotManifest,
  snapshotArtifactType,
  readSnapshotVersion,
  type SnapshotConfig,
} from "./snapshot-manifest.ts";
import { golden } from "./testing/golden.ts";

interface Sample {
  readonly manifest: Manifest;
  readonly config: SnapshotConfig;
}

test("a snapshot of version 1 is one layer per file", () => {
  const { manifest, config } = golden("snapshot-v1") as Sample;
  assert.equal(readSnapshotVersion(manifest), "v1");
  const parts = assembleSnapshot(readSnapshotManifest(manifest), readSnapshotConfig(config));
  assert.deepEqual(
    parts.map(({ name, layers, compressed }) => [name, layers.length, compressed]),
    ["cocoon.json", "config.json", "state.json", "memory-ranges", "cow.raw", "cidata.img"].map((name) => [
      name,
      1,
      false,
    ]),
  );
  assert.equal(parts.at(4)?.file.sparseSize, 10_737_418_240);
});

test("a snapshot of version 2 has chunks in the order of its config", () => {
  const { manifest, config } = golden("snapshot-v2") as Sample;
  const parts = assembleSnapshot(readSnapshotManifest(manifest), readSnapshotConfig(config));
  const memory = parts.find((part) => part.name === "memory-ranges");
  assert.deepEqual(
    memory?.layers.map((layer) => layer.digest.slice(7, 8)),
    ["8", "7", "8"],
    "a chunk may repeat",
  );
  assert.equal(memory?.compressed, true);
  assert.equal(memory?.sizeBytes, 12_582_912);
});

test("unknown members are kept", () => {
  const { manifest, config } = golden("snapshot-v1") as Sample;
  assert.equal(readSnapshotManifest({ ...manifest, subject: { a: 1 } })["subject"] !== undefined, true);
  assert.equal(readSnapshotConfig({ ...config, queueSize: 512 })["queueSize"], 512);
});

test("what a reader must not guess about is refused", () => {
  const v1 = golden("snapshot-v1") as Sample;
  const v2 = golden("snapshot-v2") as Sample;
  const [first] = v2.manifest.layers;
  assert.ok(first);
  const layers = (...list: readonly object[]) => ({ ...v2.manifest, layers: list }) as Manifest;
  const files = (list: object) => ({ ...v2.config, files: list }) as SnapshotConfig;
  const titled = (title: string, type: string = first.mediaType) => ({
    ...first,
    mediaType: type,
    annotations: { "org.opencontainers.image.title": title },
  });
  const table: readonly (readonly [string, Manifest, SnapshotConfig, RegExp])[] = [
    ["versions that disagree", v1.manifest, v2.config, /manifest says v1, its config v2/],
    ["another artifact", { ...v1.manifest, artifactType: "x" }, v1.config, /"x" is not a snapshot/],
    ["an unknown layer", layers(titled("a", "text/plain")), v2.config, /unknown type text\/plain/],
    ["a layer without title", layers({ ...first, annotations: {} }), v2.config, /no usable title/],
    ["a title that leaves the directory", layers(titled("../x")), v2.config, /no usable title \("\.\.\/x"\)/],
    ["the parent as title", layers(titled("..")), v2.config, /no usable title/],
    [
      "compression in version 1",
      { ...v2.manifest, artifactType: mediaType.snapshotV1 },
      { ...v2.config, schemaVersion: "v1" },
      /version 1 does not know/,
    ],
    ["a compressed file without size", v2.manifest, files({}), /size is not recorded|no order of chunks/],
    ["two layers without order", layers(titled("a"), titled("a")), files({}), /2 layers but no order/],
    [
      "a chunk that is not there",
      v2.manifest,
      files({ "memory-ranges": { size: 1, chunks: ["sha256:0"] } }),
      /chunk sha256:0 of file/,
    ],
    [
      "chunks of both kinds",
      layers(titled("a"), {
        ...titled("a", `${mediaType.vmConfig}+zstd`),
        digest: `sha256:${"9".repeat(64)}`,
      }),
      files({ a: { size: 1, chunks: [first.digest, `sha256:${"9".repeat(64)}`] } }),
      /mixes compressed and plain/,
    ],
  ];
  for (const [what, manifest, config, message] of table)
    assert.throws(() => assembleSnapshot(manifest, config), { code: "invalid", message }, what);
});

test("manifests that are not one are refused with the member that is wrong", () => {
  const { manifest, config } = golden("snapshot-v1") as Sample;
  assert.throws(() => readSnapshotManifest({ ...manifest, schemaVersion: 1 }), /schemaVersion/);
  assert.throws(
    () => readSnapshotManifest({ ...manifest, layers: [{ ...manifest.layers[0], size: -1 }] }),
    /layers\[0\]\.size/,
  );
  assert.throws(
    () => readSnapshotManifest({ ...manifest, layers: [{ ...manifest.layers[0], digest: "md5:0" }] }),
    /layers\[0\]\.digest: must be sha256/,
  );
  assert.throws(
    () => readSnapshotManifest({ ...manifest, config: { ...manifest.config, mediaType: "x" } }),
    /its config is x/,
  );
  assert.throws(
    () => readSnapshotConfig({ ...config, schemaVersion: "v3" }),
    /snapshot config is not valid: schemaVersion/,
  );
  assert.throws(() => readSnapshotConfig({ ...config, files: { a: { size: -1 } } }), /files\.a\.size/);
});

test("plain snapshots stay readable for every reader", () => {
  assert.equal(snapshotArtifactType(false), mediaType.snapshotV1);
  assert.equal(snapshotArtifactType(true), mediaType.snapshotV2);
});

test("the disk of a cloud image is its parts in order of title", () => {
  const manifest = readCloudImageManifest(golden("cloud-image"));
  assert.deepEqual(
    cloudImageDisk(manifest).map((layer) => layer.digest.slice(7, 8)),
    ["a", "b"],
  );
  const [part] = manifest.layers;
  assert.ok(part);
  const titled = (title?: string) => ({
    ...part,
    annotations: title === undefined ? {} : { "org.opencontainers.image.title": title },
  });
  const layers = ["b", "a.01", "a", "\u{1f600}", "\uff5e"].map(titled);
  const order = cloudImageDisk({ ...manifest, layers: [...layers, titled()] }).map(
    (layer) => layer.annotations?.["org.opencontainers.image.title"],
  );
  assert.deepEqual(order, [undefined, "a", "a.01", "b", "\uff5e", "\u{1f600}"], "by the bytes of UTF-8");
  assert.throws(() => cloudImageDisk({ ...manifest, layers: [] }), /no disk layer/);
  assert.throws(
    () => readCloudImageManifest((golden("snapshot-v1") as Sample).manifest),
    /is not a cloud image/,
  );
});
