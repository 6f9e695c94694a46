/** Artifacts as the Go systems write them, made by hand from their documented form. */
import assert from "node:assert/strict";
import { mkdtemp, readdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { zstdCompressSync } from "node:zlib";
import { isFault } from "@cocoon/core";
import { temporaryDirectory } from "@cocoon/testkit";
import { toBlobContent } from "../registry/blob-content.ts";
import { openRegistry } from "../registry/registry.ts";
import type { Repository } from "../registry/repository.ts";
import { startFakeRegistry } from "../testing/fake-registry.ts";
import { openCloudImage } from "./cloud-image.ts";
import { openSnapshotClient, type SnapshotClient } from "./snapshot-client.ts";

const vendor = "application/vnd.cocoonstack";
const title = "org.opencontainers.image.title";

interface Layer {
  readonly type: string;
  readonly name?: string;
  readonly bytes: Uint8Array;
}

interface Artifact {
  readonly artifactType: string;
  readonly config: { readonly mediaType: string; readonly bytes: Uint8Array };
  readonly layers: readonly Layer[];
}

async function put(
  { repository, signal }: { readonly repository: Repository; readonly signal: AbortSignal },
  tag: string,
  artifact: Artifact,
): Promise<string> {
  const describe = async (mediaType: string, bytes: Uint8Array) => {
    const content = toBlobContent(bytes);
    await repository.putBlob(content, { signal });
    return { mediaType, digest: content.digest, size: content.size };
  };
  const manifest = {
    schemaVersion: 2,
    mediaType: "application/vnd.oci.image.manifest.v1+json",
    artifactType: artifact.artifactType,
    config: await describe(artifact.config.mediaType, artifact.config.bytes),
    layers: await Promise.all(
      artifact.layers.map(async ({ type, name, bytes }) => ({
        ...(await describe(type, bytes)),
        ...(name === undefined ? {} : { annotations: { [title]: name } }),
      })),
    ),
    annotations: { "org.opencontainers.image.created": "2026-04-01T00:00:00Z" },
  };
  const bytes = Buffer.from(JSON.stringify(manifest, null, 2));
  return repository.putManifest(tag, { bytes, mediaType: manifest.mediaType }, { signal });
}

function configBlob(version: string, files: object): Artifact["config"] {
  const config = {
    schemaVersion: version,
    snapshotId: "K7",
    hypervisor: "cloud-hypervisor",
    cpu: 2,
    memory: 1 << 30,
    files,
  };
  return { mediaType: `${vendor}.snapshot.config.v1+json`, bytes: Buffer.from(JSON.stringify(config)) };
}

interface World extends AsyncDisposable {
  readonly path: string;
  readonly repository: Repository;
  readonly client: SnapshotClient;
}

async function openWorld(): Promise<World> {
  const stack = new AsyncDisposableStack();
  const { path } = stack.use(await temporaryDirectory());
  const server = stack.use(await startFakeRegistry());
  const registry = stack.use(openRegistry({ address: server.url }));
  const client = stack.use(await openSnapshotClient({ threads: 1 }));
  return {
    path,
    repository: registry.repository("vk-ns-demo-0"),
    client,
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

describe("snapshots of other writers", () => {
  it("version 1: whole files, sparse ones as their data", async ({ signal }) => {
    await using world = await openWorld();
    const { path, repository, client } = world;
    const sparse = { sparseMap: '[{"o":4096,"l":4},{"o":1048576,"l":6}]', sparseSize: 2_097_152 };
    await put({ repository, signal }, "hibernate", {
      artifactType: `${vendor}.snapshot.v1+json`,
      config: configBlob("v1", { "config.json": { mode: 0o600 }, "memory-ranges": sparse }),
      layers: [
        { type: `${vendor}.vm.config+json`, name: "config.json", bytes: Buffer.from("{}") },
        { type: `${vendor}.vm.memory`, name: "memory-ranges", bytes: Buffer.from("pagesecond") },
        { type: "application/octet-stream", name: "cocoon.json", bytes: Buffer.from("[]") },
      ],
    });
    const directory = join(path, "back");
    const { envelope } = await client.pull({
      repository,
      reference: "hibernate",
      directory,
      name: "vk-x",
      signal,
    });
    assert.deepEqual(envelope.config, {
      id: "K7",
      name: "vk-x",
      hypervisor: "cloud-hypervisor",
      cpu: 2,
      memory: 1 << 30,
    });
    const memory = await readFile(join(directory, "memory-ranges"));
    assert.equal(memory.length, 2_097_152);
    assert.deepEqual(
      [memory.toString("latin1", 4096, 4100), memory.toString("latin1", 1_048_576, 1_048_582)],
      ["page", "second"],
    );
    assert.equal((await stat(join(directory, "config.json"))).mode & 0o777, 0o600);
    assert.equal((await stat(join(directory, "cocoon.json"))).mode & 0o777, 0o640);
  });

  it("version 2: compressed, cut through the data of a sparse file, chunks repeated", async ({ signal }) => {
    await using world = await openWorld();
    const { path, repository, client } = world;
    const body = Buffer.concat([Buffer.alloc(3000, "a"), Buffer.alloc(3000, "a"), Buffer.alloc(1234, "b")]);
    const cuts = [body.subarray(0, 3000), body.subarray(3000, 6000), body.subarray(6000)].map((each) =>
      zstdCompressSync(each),
    );
    const sparseMap = JSON.stringify([
      { o: 0, l: 5000 },
      { o: 100_000, l: 2234 },
    ]);
    const type = `${vendor}.disk.raw+zstd`;
    const files = {
      "cow.raw": {
        size: body.length,
        sparseMap,
        sparseSize: 200_000,
        chunks: cuts.map((each) => toBlobContent(each).digest),
      },
      "state.json": { size: 5000 },
    };
    await put({ repository, signal }, "hibernate", {
      artifactType: `${vendor}.snapshot.v2+json`,
      config: configBlob("v2", files),
      layers: [
        ...cuts.toReversed().map((bytes) => ({ type, name: "cow.raw", bytes })),
        {
          type: `${vendor}.vm.state+json+zstd`,
          name: "state.json",
          bytes: zstdCompressSync(Buffer.alloc(5000, "s")),
        },
      ],
    });
    const directory = join(path, "back");
    await client.pull({ repository, reference: "hibernate", directory, signal });
    const disk = await readFile(join(directory, "cow.raw"));
    const expected = Buffer.alloc(200_000);
    body.copy(expected, 0, 0, 5000);
    body.copy(expected, 100_000, 5000);
    assert.ok(disk.equals(expected));
    assert.ok((await readFile(join(directory, "state.json"))).equals(Buffer.alloc(5000, "s")));
  });

  const one = (layer: Layer, files: object, version = "v2"): Artifact => ({
    artifactType: `${vendor}.snapshot.${version}+json`,
    config: configBlob(version, files),
    layers: [layer],
  });
  const plain = { type: "application/octet-stream", name: "f", bytes: Buffer.from("content") };
  const packed = {
    type: "application/octet-stream+zstd",
    name: "f",
    bytes: zstdCompressSync(Buffer.from("content")),
  };
  const refused: readonly [string, Artifact][] = [
    ["compression in version 1", one(packed, { f: { size: 7 } }, "v1")],
    ["an unknown layer type", one({ ...plain, type: "application/x-surprise" }, {})],
    ["a layer without a title", one({ type: plain.type, bytes: plain.bytes }, {})],
    ["a title that leads out", one({ ...plain, name: "../f" }, {})],
    ["a compressed file without a size", one(packed, { f: {} })],
    ["a compressed file of another size", one(packed, { f: { size: 6 } })],
    ["a longer file than announced", one(packed, { f: { size: 8 } })],
    ["a chunk that is not there", one(plain, { f: { size: 7, chunks: [`sha256:${"0".repeat(64)}`] } })],
    ["a sparse map without a size", one(plain, { f: { sparseMap: '[{"o":0,"l":7}]' } }, "v1")],
    [
      "a sparse map for another body",
      one(plain, { f: { sparseMap: '[{"o":0,"l":6}]', sparseSize: 100 } }, "v1"),
    ],
    ["config and manifest of different versions", { ...one(plain, {}), config: configBlob("v1", {}) }],
    [
      "something that is not compressed at all",
      one({ ...packed, bytes: Buffer.from("not zstd") }, { f: { size: 7 } }),
    ],
  ];
  for (const [what, artifact] of refused)
    it(`${what} is refused, and nothing is left`, async ({ signal }) => {
      await using world = await openWorld();
      const { path, repository, client } = world;
      await put({ repository, signal }, "t", artifact);
      const parent = await mkdtemp(join(path, "p-"));
      const pull = client.pull({ repository, reference: "t", directory: join(parent, "back"), signal });
      await assert.rejects(pull, (error) => isFault(error, "invalid"));
      assert.deepEqual(await readdir(parent), []);
    });

  it("an image index leads to its linux/amd64 entry", async ({ signal }) => {
    await using world = await openWorld();
    const { path, repository, client } = world;
    const of = (text: string) => one({ ...plain, bytes: Buffer.from(text) }, {}, "v1");
    const wrong = await put({ repository, signal }, "wrong", of("wrong"));
    const right = await put({ repository, signal }, "right", of("right"));
    const mediaType = "application/vnd.oci.image.index.v1+json";
    const manifests = [
      { digest: wrong, platform: { os: "unknown", architecture: "unknown" } },
      { digest: wrong, platform: { os: "linux", architecture: "arm64" } },
      { digest: right, platform: { os: "linux", architecture: "amd64" } },
    ];
    const bytes = Buffer.from(JSON.stringify({ schemaVersion: 2, mediaType, manifests }));
    await repository.putManifest("latest", { bytes, mediaType }, { signal });
    const directory = join(path, "back");
    await client.pull({ repository, reference: "latest", directory, signal });
    assert.equal(await readFile(join(directory, "f"), "utf8"), "right");
  });
});

describe("what we write", () => {
  it("version 1 is what the documentation shows", async ({ signal }) => {
    await using world = await openWorld();
    const { path, repository, client } = world;
    await writeFile(join(path, "config.json"), "{}", { mode: 0o640 });
    const sparse = Buffer.alloc(1 << 20);
    sparse.write("page", 300_000);
    await writeFile(join(path, "memory-ranges"), sparse, { mode: 0o640 });
    const files = ["config.json", "memory-ranges"].map((name) => ({ name, path: join(path, name) }));
    const envelope = {
      config: { id: "K7", name: "local", cpu: 2, queue_size: 256, no_direct_io: true, windows: false },
      version: 1,
    };
    const now = new Date("2026-04-01T00:00:00.123Z");
    await client.push({
      source: { envelope, files },
      repository,
      tag: "hibernate",
      format: "v1",
      baseImage: "ubuntu:24.04",
      now,
      signal,
    });
    const { bytes } = await repository.getManifest("hibernate", { signal });
    const data = sparse.subarray(299_008, 303_104);
    const config = {
      schemaVersion: "v1",
      snapshotId: "K7",
      cpu: 2,
      queueSize: 256,
      noDirectIo: true,
      files: {
        "config.json": { mode: 416 },
        "memory-ranges": { mode: 416, sparseMap: '[{"o":299008,"l":4096}]', sparseSize: 1_048_576 },
      },
      createdAt: "2026-04-01T00:00:00Z",
    };
    const blob = (type: string, content: Uint8Array) => ({
      mediaType: type,
      digest: toBlobContent(content).digest,
      size: content.length,
    });
    const expected = {
      schemaVersion: 2,
      mediaType: "application/vnd.oci.image.manifest.v1+json",
      artifactType: `${vendor}.snapshot.v1+json`,
      config: blob(`${vendor}.snapshot.config.v1+json`, Buffer.from(JSON.stringify(config))),
      layers: [
        { ...blob(`${vendor}.vm.config+json`, Buffer.from("{}")), annotations: { [title]: "config.json" } },
        { ...blob(`${vendor}.vm.memory`, data), annotations: { [title]: "memory-ranges" } },
      ],
      annotations: {
        "org.opencontainers.image.created": "2026-04-01T00:00:00Z",
        "cocoonstack.snapshot.baseimage": "ubuntu:24.04",
      },
    };
    assert.equal(bytes.toString(), JSON.stringify(expected, null, 2));
  });

  it("files too small to be worth it leave version 2 readable as version 1", async ({ signal }) => {
    await using world = await openWorld();
    const { path, repository, client } = world;
    await writeFile(join(path, "config.json"), "{}");
    const files = [{ name: "config.json", path: join(path, "config.json") }];
    const source = { envelope: { config: { name: "x" }, version: 1 }, files };
    assert.equal((await client.push({ source, repository, tag: "t", format: "v2", signal })).format, "v1");
  });
});

describe("cloud images", () => {
  it("go up whole or in parts and come back in order", async ({ signal }) => {
    await using world = await openWorld();
    const { path, repository, client } = world;
    const disk = Buffer.from(Array.from({ length: 300_000 }, (_, at) => (at * 7919) >>> 5));
    await writeFile(join(path, "win.qcow2"), disk);
    for (const partBytes of [undefined, 40_000, 2_500]) {
      const options = {
        path: join(path, "win.qcow2"),
        repository,
        tag: "latest",
        format: "qcow2",
        signal,
      } as const;
      const pushed = await client.pushCloudImage(
        partBytes === undefined ? options : { ...options, partBytes },
      );
      const { digest, size, content } = await openCloudImage({ repository, reference: "latest", signal });
      assert.deepEqual([digest, size], [pushed.digest, disk.length]);
      assert.ok(Buffer.concat(await Array.fromAsync(content)).equals(disk));
    }
  });

  it("of other writers: parts by title, everything else passed over, older types known", async ({
    signal,
  }) => {
    await using world = await openWorld();
    const { repository } = world;
    const type = `${vendor}.windows.disk.qcow2.part`;
    await put({ repository, signal }, "latest", {
      artifactType: `${vendor}.windows-image.v1+json`,
      config: { mediaType: "application/vnd.oci.empty.v1+json", bytes: Buffer.from("{}") },
      layers: [
        { type, name: "win.qcow2.01.qcow2.part", bytes: Buffer.from("second") },
        { type: "text/plain", name: "SHA256SUMS", bytes: Buffer.from("sums") },
        { type, name: "win.qcow2.00.qcow2.part", bytes: Buffer.from("first ") },
      ],
    });
    const { content } = await openCloudImage({ repository, reference: "latest", signal });
    assert.equal(Buffer.concat(await Array.fromAsync(content)).toString(), "first second");
  });
});
