/** Images out of a registry that speaks the real protocol, through the real client. */
import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { Fault } from "@cocoon/core";
import { computeDigest, openRegistry, type Registry } from "@cocoon/oci";
import { startFakeRegistry } from "@cocoon/oci/testing";
import { temporaryDirectory } from "@cocoon/testkit";
import { openImageLibrary, RegistrySource } from "@cocoon/images";
import { writeTestTar } from "@cocoon/oci/testing";

const signal = AbortSignal.timeout(120_000);
const options = { signal };
const manifestType = "application/vnd.oci.image.manifest.v1+json";

async function put(
  registry: Registry,
  repository: string,
  content: Buffer,
): Promise<{ digest: string; size: number }> {
  const digest = computeDigest(content);
  const one = async function* one(): AsyncGenerator<Uint8Array> {
    yield content;
  };
  await registry.repository(repository).putBlob({ digest, size: content.length, open: one }, options);
  return { digest, size: content.length };
}

/** Pushes a manifest with these layers; returns its digest. */
async function push(
  registry: Registry,
  target: { repository: string; tag: string; artifactType?: string },
  content: {
    config: { mediaType: string; bytes: Buffer };
    layers: { mediaType: string; title?: string; bytes: Buffer }[];
  },
): Promise<string> {
  const config = {
    mediaType: content.config.mediaType,
    ...(await put(registry, target.repository, content.config.bytes)),
  };
  const layers = [];
  for (const { mediaType, title, bytes } of content.layers) {
    const annotations = title ? { annotations: { "org.opencontainers.image.title": title } } : {};
    layers.push({ mediaType, ...(await put(registry, target.repository, bytes)), ...annotations });
  }
  const artifactType = target.artifactType ? { artifactType: target.artifactType } : {};
  const bytes = Buffer.from(
    JSON.stringify({ schemaVersion: 2, mediaType: manifestType, ...artifactType, config, layers }),
  );
  return registry
    .repository(target.repository)
    .putManifest(target.tag, { bytes, mediaType: manifestType }, options);
}

const containerConfig = (architecture = "amd64") => ({
  mediaType: "application/vnd.oci.image.config.v1+json",
  bytes: Buffer.from(JSON.stringify({ architecture, os: "linux", config: { Cmd: ["/app"], Env: ["A=b"] } })),
});
const layer = (text: string) => ({
  mediaType: "application/vnd.oci.image.layer.v1.tar",
  bytes: writeTestTar([{ path: "app", content: text, mode: 0o755 }]),
});

test("a container image is found by every form of its name, and by index for this platform", async () => {
  await using server = await startFakeRegistry();
  await using directory = await temporaryDirectory();
  await using registry = openRegistry({ address: `${server.url}/team` });
  await using source = new RegistrySource({ registry });
  const library = openImageLibrary({ directory: directory.path, source });
  const digest = await push(
    registry,
    { repository: "app", tag: "v1" },
    { config: containerConfig(), layers: [layer("one")] },
  );
  const { host } = new URL(server.url);
  assert.equal(source.normalise("app:v1"), `${host}/team/app:v1`);
  assert.equal(source.normalise("app"), `${host}/team/app:latest`);
  assert.equal(source.normalise(`${host}/team/app:v1`), `${host}/team/app:v1`);
  for (const ref of ["app:v1", `${host}/team/app:v1`]) {
    const image = await library.pull(ref, options);
    assert.deepEqual([image.id, image.name, image.type], [digest, `${host}/team/app:v1`, "oci"]);
    assert.equal((await library.inspect(ref, options)).id, digest);
  }
  const [disk] = await library.list(options);
  assert.equal(disk?.id, digest);

  const foreign = await push(
    registry,
    { repository: "app", tag: "arm" },
    { config: containerConfig("arm64"), layers: [layer("two")] },
  );
  const index = {
    schemaVersion: 2,
    mediaType: "application/vnd.oci.image.index.v1+json",
    manifests: [
      { mediaType: manifestType, digest: foreign, size: 1, platform: { os: "linux", architecture: "arm64" } },
      { mediaType: manifestType, digest, size: 1, platform: { os: "linux", architecture: "amd64" } },
    ],
  };
  const bytes = Buffer.from(JSON.stringify(index));
  await registry.repository("app").putManifest("multi", { bytes, mediaType: index.mediaType }, options);
  assert.equal((await library.pull("app:multi", options)).id, digest);
});

test("references without a registry mean what other tools mean by them", () => {
  const source = new RegistrySource({});
  assert.equal(source.normalise("alpine"), "docker.io/library/alpine:latest");
  assert.equal(source.normalise("team/app:2"), "docker.io/team/app:2");
  const pinned = `ghcr.io/x/y@sha256:${"a".repeat(64)}`;
  assert.equal(source.normalise(pinned), pinned);
  assert.throws(
    () => source.normalise("Not A Reference"),
    (error) => error instanceof Fault && error.code === "invalid",
  );
});

test("a cloud-image artifact becomes a disk; a snapshot is refused by name", async () => {
  await using server = await startFakeRegistry();
  await using directory = await temporaryDirectory();
  await using registry = openRegistry({ address: server.url });
  await using source = new RegistrySource({ registry });
  const library = openImageLibrary({ directory: directory.path, source });
  const raw = Buffer.alloc(1024 * 1024);
  raw.set([0xeb, 0x63]);
  raw.set([0x55, 0xaa], 510);
  const empty = { mediaType: "application/vnd.oci.empty.v1+json", bytes: Buffer.from("{}") };
  const disk = { mediaType: "application/vnd.cocoonstack.disk.raw", title: "disk.raw", bytes: raw };
  const windows = {
    repository: "win",
    tag: "11",
    artifactType: "application/vnd.cocoonstack.windows-image.v1+json",
  };
  await push(registry, windows, { config: empty, layers: [disk] });
  await library.pull("win:11", options);
  const boot = await library.resolve("win:11", options);
  assert.deepEqual([boot.os, boot.disk.format, boot.image.type], ["windows", "raw", "cloudimg"]);
  const snapshot = {
    repository: "vm",
    tag: "hibernate",
    artifactType: "application/vnd.cocoonstack.snapshot.v1+json",
  };
  await push(registry, snapshot, { config: empty, layers: [] });
  await assert.rejects(library.pull("vm:hibernate", options), /it is a snapshot: clone it/);
  await assert.rejects(
    library.pull("nothing:here", options),
    (error) => error instanceof Fault && error.code === "notFound",
  );
});

test("an OCI layout in a directory is taken by its path", async () => {
  await using directory = await temporaryDirectory();
  const layout = join(directory.path, "layout");
  const write = async (content: Buffer | object) => {
    const bytes = Buffer.isBuffer(content) ? content : Buffer.from(JSON.stringify(content));
    const digest = computeDigest(bytes);
    await mkdir(join(layout, "blobs", "sha256"), { recursive: true });
    await writeFile(join(layout, "blobs", "sha256", digest.slice("sha256:".length)), bytes);
    return { digest, size: bytes.length };
  };
  const { mediaType, bytes } = containerConfig();
  const config = { mediaType, ...(await write(bytes)) };
  const layers = [{ mediaType: layer("").mediaType, ...(await write(layer("three").bytes)) }];
  const manifest = await write({ schemaVersion: 2, mediaType: manifestType, config, layers });
  const index = {
    schemaVersion: 2,
    manifests: [
      { mediaType: manifestType, ...manifest, annotations: { "org.opencontainers.image.ref.name": "v3" } },
      {
        mediaType: manifestType,
        digest: "sha256:../../etc/passwd",
        size: 5,
        annotations: { "org.opencontainers.image.ref.name": "evil" },
      },
    ],
  };
  await writeFile(join(layout, "index.json"), JSON.stringify(index));
  const library = openImageLibrary({ directory: join(directory.path, "library") });
  const image = await library.pull(`oci:${layout}:v3`, options);
  assert.deepEqual([image.id, image.type], [manifest.digest, "oci"]);
  for (const [ref, message] of [
    [`oci:${layout}`, /several images/],
    [`oci:${layout}:absent`, /has no image absent/],
    [`oci:${layout}:evil`, /names a blob/],
    [`oci:${directory.path}`, /no OCI layout is there/],
  ] as const) {
    await assert.rejects(library.pull(ref, options), message, ref);
  }
  await writeFile(join(layout, "blobs", "sha256", manifest.digest.slice(7)), "{}");
  await assert.rejects(
    library.pull(`oci:${layout}:v3`, { ...options, force: true }),
    /does not match|digest/,
  );
});
