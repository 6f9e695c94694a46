import assert from "node:assert/strict";
import { test } from "node:test";
import { isFault } from "@cocoon/core";
import fc from "fast-check";
import {
  configFromEnvelope,
  envelopeFromConfig,
  formatSnapshotEnvelope,
  readSnapshotEnvelope,
} from "./snapshot-envelope.ts";
import { readSnapshotConfig } from "./snapshot-manifest.ts";

const golden = {
  config: {
    id: "K7ABC",
    name: "vk-ns-demo-0",
    description: "before the upgrade",
    cpu: 2,
    memory: 1_073_741_824,
    storage: 10_737_418_240,
    queue_size: 256,
    disk_queue_size: 128,
    image: "ubuntu:24.04",
    image_digest: "sha256:ab",
    image_type: "oci",
    network: "cocoon-net",
    no_direct_io: true,
    windows: true,
    image_blob_ids: { ab12: {} },
    hypervisor: "cloud-hypervisor",
    nics: 1,
    engine: { version: "7.2" },
  },
  version: 1,
};

test("an envelope becomes a config under the names that registries know", () => {
  assert.deepEqual(configFromEnvelope(readSnapshotEnvelope(golden)), {
    snapshotId: "K7ABC",
    description: "before the upgrade",
    cpu: 2,
    memory: 1_073_741_824,
    storage: 10_737_418_240,
    queueSize: 256,
    diskQueueSize: 128,
    image: "ubuntu:24.04",
    imageDigest: "sha256:ab",
    imageType: "oci",
    network: "cocoon-net",
    noDirectIo: true,
    windows: true,
    imageBlobIds: { ab12: {} },
    hypervisor: "cloud-hypervisor",
    nics: 1,
    envelopeRest: { engine: { version: "7.2" } },
  });
});

test("an envelope comes back whole, under its local name", () => {
  const config = readSnapshotConfig({
    schemaVersion: "v1",
    ...configFromEnvelope(readSnapshotEnvelope(golden)),
  });
  assert.deepEqual(envelopeFromConfig(config, "here"), {
    ...golden,
    config: { ...golden.config, name: "here" },
  });
});

test("any envelope comes back, members without a value left out", () => {
  const text = fc.string({ minLength: 1, maxLength: 20 });
  const config = fc.record(
    {
      id: text,
      name: text,
      cpu: fc.integer({ min: 1, max: 64 }),
      memory: fc.integer({ min: 1 }),
      windows: fc.constant(true),
      network: text,
      queue_size: fc.integer({ min: 1, max: 4096 }),
      something_new: fc.oneof(text, fc.integer({ min: 1 }), fc.record({ inner: text })),
    },
    { requiredKeys: ["id", "name"] },
  );
  fc.assert(
    fc.property(config, (each) => {
      const envelope = readSnapshotEnvelope({ config: each, version: 1 });
      assert.deepEqual(envelopeFromConfig(configFromEnvelope(envelope), each.name), envelope);
    }),
  );
});

test("it is written as the Go runtime writes it", () => {
  const text = formatSnapshotEnvelope({ config: { name: "x" }, version: 1 });
  assert.equal(text, '{\n  "config": {\n    "name": "x"\n  },\n  "version": 1\n}\n');
});

for (const bad of [
  {},
  { config: {}, version: 1 },
  { config: { name: "x" }, version: 2 },
  { config: { name: "x", cpu: -1 }, version: 1 },
])
  test(`${JSON.stringify(bad)} is refused`, () => {
    assert.throws(
      () => readSnapshotEnvelope(bad),
      (error) => isFault(error, "invalid"),
    );
  });
