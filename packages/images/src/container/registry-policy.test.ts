/** Where the registries that image references name may be, and how much and how long a pull from one may take. */
import assert from "node:assert/strict";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { isFault, type FaultCode } from "@cocoon/core";
import { computeDigest, openRegistry } from "@cocoon/oci";
import { startFakeRegistry, type FakeRegistry } from "@cocoon/oci/testing";
import { temporaryDirectory } from "@cocoon/testkit";
import { openImageLibrary } from "../image-library.ts";
import { RegistrySource } from "./registry-source.ts";

const { signal } = new AbortController();
const manifestType = "application/vnd.oci.image.manifest.v1+json";
const has = (code: FaultCode) => (error: unknown) => isFault(error, code);

function getHost({ url }: FakeRegistry, name = "127.0.0.1"): string {
  return `${name}:${new URL(url).port}`;
}

/** A cloud image of one part, tag `latest`; returns the digest of its disk. */
async function putImage(server: FakeRegistry, repository: string): Promise<string> {
  await using registry = openRegistry({ address: server.url });
  const target = registry.repository(repository);
  const put = async (mediaType: string, content: Buffer) => {
    const digest = computeDigest(content);
    const open = async function* () {
      yield content;
    };
    await target.putBlob({ digest, size: content.length, open }, { signal });
    return { mediaType, digest, size: content.length };
  };
  const config = await put("application/vnd.oci.empty.v1+json", Buffer.from("{}"));
  const disk = await put("application/vnd.cocoonstack.disk.raw", Buffer.alloc(4096, 1));
  const artifactType = "application/vnd.cocoonstack.os-image.v1+json";
  const manifest = { schemaVersion: 2, mediaType: manifestType, artifactType, config, layers: [disk] };
  const bytes = Buffer.from(JSON.stringify(manifest));
  await target.putManifest("latest", { bytes, mediaType: manifestType }, { signal });
  server.seen.length = 0;
  return disk.digest;
}

function openSource(privateHosts: readonly string[], registry?: FakeRegistry): RegistrySource {
  return new RegistrySource({
    policy: { fileRoots: [], privateHosts },
    ...(registry ? { registry: openRegistry({ address: `${registry.url}/team` }) } : {}),
  });
}

test("a reference to a private, loopback or link-local registry is refused before anything is sent", async () => {
  await using server = await startFakeRegistry();
  await putImage(server, "app");
  await using source = openSource([]);
  for (const host of [getHost(server), getHost(server, "localhost"), "169.254.169.254", "10.0.0.1:5000"])
    await assert.rejects(source.open(`${host}/app`, { signal }), has("forbidden"), host);
  assert.deepEqual(server.seen, [], "nothing was sent");
  await using allowed = openSource(["localhost"]);
  assert.equal((await allowed.open(`${getHost(server, "localhost")}/app`, { signal })).kind, "cloudImage");
});

test("a redirect of an allowed registry to a private address is not followed", async () => {
  await using server = await startFakeRegistry();
  await using inside = await startFakeRegistry();
  const disk = await putImage(server, "app");
  await putImage(inside, "app");
  server.hook = (request, response) => {
    if (!request.url?.includes(`/blobs/${disk}`)) return false;
    response
      .writeHead(307, { location: `http://${getHost(inside, "localhost")}/v2/app/blobs/${disk}` })
      .end();
    return true;
  };
  await using source = openSource(["127.0.0.1"]);
  const image = await source.open(`${getHost(server)}/app`, { signal });
  assert.ok(image.kind === "cloudImage");
  const content = await image.layers[0]?.open({ signal });
  await assert.rejects(async () => content?.toArray(), has("forbidden"));
  assert.deepEqual(inside.seen, []);
});

test("a token service on a private address is not used", async () => {
  await using server = await startFakeRegistry();
  await using inside = await startFakeRegistry();
  server.hook = (_request, response) => {
    const realm = `http://${getHost(inside, "localhost")}/token`;
    response.writeHead(401, { "www-authenticate": `Bearer realm="${realm}",service="x"` }).end();
    return true;
  };
  await using source = openSource(["127.0.0.1"]);
  await assert.rejects(source.open(`${getHost(server)}/app`, { signal }), has("forbidden"));
  assert.deepEqual(inside.seen, []);
});

test("the registry of the settings is allowed, by every name that means it", async () => {
  await using server = await startFakeRegistry();
  await putImage(server, "team/app");
  await putImage(server, "elsewhere/app");
  await using source = openSource([], server);
  for (const ref of ["app", `${getHost(server)}/team/app`, `${getHost(server)}/elsewhere/app`])
    assert.equal((await source.open(ref, { signal })).kind, "cloudImage", ref);
});

test("a pull has limits of size and of time, and leaves nothing when it meets one", async () => {
  await using server = await startFakeRegistry();
  await using directory = await temporaryDirectory();
  const disk = await putImage(server, "app");
  await using source = openSource(["127.0.0.1"]);
  const ref = `${getHost(server)}/app`;
  const open = (name: string, limits: { maxDiskBytes?: number; maxPullMs?: number }) =>
    openImageLibrary({ directory: join(directory.path, name), source, ...limits });
  const small = open("small", { maxDiskBytes: 4095 });
  await assert.rejects(small.pull(ref, { signal }), has("tooLarge"));
  assert.ok(!server.seen.some(({ path }) => path.includes(disk)), "too large by its manifest: not fetched");

  let drip: NodeJS.Timeout | undefined;
  server.hook = (request, response) => {
    if (!request.url?.includes(`/blobs/${disk}`)) return false;
    response.writeHead(200, { "content-length": 4096 });
    drip = setInterval(() => response.write("x"), 20);
    return true;
  };
  const slow = open("slow", { maxPullMs: 300 });
  try {
    await assert.rejects(slow.pull(ref, { signal }), has("timeout"));
  } finally {
    clearInterval(drip);
  }
  for (const library of [small, slow]) assert.deepEqual(await library.list({ signal }), []);
  assert.deepEqual(await readdir(join(directory.path, "slow", "work")), []);
});
