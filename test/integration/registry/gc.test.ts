/** Garbage collection, retention and quota, seen through the wire and on the disk. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import {
  computeDigest,
  startWorld,
  type as mediaTypes,
  withDigest,
  type Client,
  type World,
} from "./world.ts";

const signal = new AbortController().signal;
const now = { signal, leaseMs: 0, untaggedMs: 0 };

async function storedBlobs(world: World): Promise<string[]> {
  try {
    return (await readdir(join(world.root, "blobs", "sha256"))).map((hex) => `sha256:${hex}`).sort();
  } catch {
    return []; // the folder goes with its last blob
  }
}

const status = async (client: Client, path: string) => (await client.head(path)).status;

describe("garbage collection", () => {
  it("removes what nothing reaches and keeps everything else", async () => {
    await using world = await startWorld();
    const { client } = world;
    const kept = await client.pushImage("gc/one", "kept");
    const untagged = await client.pushImage("gc/one", "moving");
    const moved = await client.pushImage("gc/one", "moving");
    const stray = await client.pushBlob("gc/one", randomBytes(500));
    const report = await world.registry.collectGarbage(now);
    assert.deepEqual(
      { ...report, bytes: 0 },
      { tags: 0, manifests: 1, links: 3, blobs: 3, bytes: 0, uploads: 0, skipped: 0 },
    );
    assert.equal(await status(client, `/v2/gc/one/manifests/${untagged.digest}`), 404);
    assert.equal(await status(client, `/v2/gc/one/blobs/${stray}`), 404);
    const expected = [kept, moved].flatMap(({ manifest }) => [
      manifest.config.digest,
      ...manifest.layers.map((each) => each.digest),
    ]);
    assert.deepEqual(await storedBlobs(world), expected.sort());
    for (const image of [kept, moved]) {
      assert.deepEqual((await client.get(`/v2/gc/one/manifests/${image.digest}`)).body, image.bytes);
      for (const layer of image.manifest.layers)
        assert.equal(
          computeDigest((await client.get(`/v2/gc/one/blobs/${layer.digest}`)).body),
          layer.digest,
        );
    }
    assert.equal((await world.registry.collectGarbage(now)).blobs, 0, "nothing is left for a second run");
  });

  it("keeps what is younger than its lease", async () => {
    await using world = await startWorld();
    const { client } = world;
    const blob = await client.pushBlob("gc/lease", randomBytes(100));
    const untagged = await client.pushImage("gc/lease", "t");
    await client.pushImage("gc/lease", "t");
    const report = await world.registry.collectGarbage({ signal });
    assert.deepEqual(
      { ...report },
      { tags: 0, manifests: 0, links: 0, blobs: 0, bytes: 0, uploads: 0, skipped: 0 },
    );
    assert.equal(await status(client, `/v2/gc/lease/blobs/${blob}`), 200);
    assert.equal(await status(client, `/v2/gc/lease/manifests/${untagged.digest}`), 200);
  });

  it("keeps shared content as long as one repository has it", async () => {
    await using world = await startWorld();
    const { client } = world;
    const image = await client.pushImage("gc/first", "v1");
    for (const { digest } of [image.manifest.config, ...image.manifest.layers])
      await client.post(`/v2/gc/second/blobs/uploads/?mount=${digest}&from=gc/first`);
    await client.pushManifest("gc/second", "v1", image.bytes);
    await client.delete(`/v2/gc/first/manifests/${image.digest}`);
    const first = await world.registry.collectGarbage(now);
    assert.deepEqual([first.links, first.blobs], [2, 0]);
    assert.equal(await status(client, `/v2/gc/second/blobs/${image.manifest.config.digest}`), 200);
    await client.delete(`/v2/gc/second/manifests/${image.digest}`);
    assert.equal((await world.registry.collectGarbage(now)).blobs, 2);
    assert.deepEqual(await storedBlobs(world), []);
  });

  it("keeps index children and referrers with what they belong to", async () => {
    await using world = await startWorld();
    const { client } = world;
    const name = "gc/graph";
    const push = async (manifest: object) => {
      const bytes = Buffer.from(JSON.stringify(manifest));
      assert.equal((await client.pushManifest(name, computeDigest(bytes), bytes)).status, 201);
      return {
        mediaType: (manifest as { mediaType: string }).mediaType,
        digest: computeDigest(bytes),
        size: bytes.length,
      };
    };
    const child = await push(await client.newImage(name));
    const index = { schemaVersion: 2, mediaType: mediaTypes.index, manifests: [child] };
    await client.pushManifest(name, "index", index);
    const signature = await push({ ...(await client.newImage(name)), subject: child });
    const stray = await push({
      ...(await client.newImage(name)),
      subject: { ...child, digest: computeDigest(randomBytes(9)) },
    });
    const report = await world.registry.collectGarbage(now);
    assert.equal(report.manifests, 1);
    assert.equal(await status(client, `/v2/${name}/manifests/${stray.digest}`), 404);
    for (const { digest } of [child, signature])
      assert.equal(await status(client, `/v2/${name}/manifests/${digest}`), 200);
    await client.delete(`/v2/${name}/manifests/index`);
    assert.equal((await world.registry.collectGarbage(now)).manifests, 3);
    assert.deepEqual(await storedBlobs(world), []);
    assert.deepEqual(await readdir(join(world.root, "referrers")), [], "no trace of the repository is left");
  });

  it("never takes a blob from a push in flight, however often it runs", async () => {
    const leaseMs = 2_000;
    await using world = await startWorld({ leaseMs, untaggedMs: leaseMs });
    const { client } = world;
    const pushing = new AbortController();
    const collecting = (async () => {
      let runs = 0;
      for (; !pushing.signal.aborted; runs += 1) await world.registry.collectGarbage({ signal });
      return runs;
    })();
    const layer = randomBytes(4_000);
    const shared = computeDigest(layer);
    const pushOnce = async (round: number) => {
      const name = `gc/flight-${round % 4}`;
      const began = performance.now();
      // As clients do it: what is there is not sent again.
      if (!(await client.head(`/v2/${name}/blobs/${shared}`)).status.toString().startsWith("2"))
        await client.put(withDigest(await client.begin(name), shared), { body: layer });
      const image = await client.newImage(name);
      const layers = [...image.layers, { mediaType: mediaTypes.layer, digest: shared, size: layer.length }];
      const answer = await client.pushManifest(name, "t", { ...image, layers });
      // A client that paused for longer than the lease has to begin anew.
      if (answer.status === 400 && performance.now() - began > leaseMs / 2) return;
      assert.equal(answer.status, 201, answer.body.toString());
      for (const each of layers) assert.equal(await status(client, `/v2/${name}/blobs/${each.digest}`), 200);
      if (round % 3 === 0) await client.delete(`/v2/${name}/manifests/t`);
    };
    for (let round = 0; round < 40; round += 4)
      await Promise.all([0, 1, 2, 3].map((offset) => pushOnce(round + offset)));
    pushing.abort();
    assert.ok((await collecting) > 1, "garbage collection ran meanwhile");
  });

  it("leaves a repository alone when something in it cannot be read", async () => {
    await using world = await startWorld();
    const { client } = world;
    const image = await client.pushImage("gc/damaged", "v1");
    const stray = await client.pushBlob("gc/damaged", randomBytes(10));
    await writeFile(join(world.root, "manifests", "gc+damaged", image.digest.replace(":", "-")), "garbage");
    const report = await world.registry.collectGarbage(now);
    assert.deepEqual([report.skipped, report.links, report.blobs], [1, 0, 0]);
    assert.equal(await status(client, `/v2/gc/damaged/blobs/${stray}`), 200);
  });

  it("drops uploads that no client continued", async () => {
    await using world = await startWorld({ uploadIdleMs: 0 });
    const path = await world.client.begin("gc/uploads");
    await world.client.patch(path, { body: randomBytes(10) });
    await new Promise((resolve) => setTimeout(resolve, 5));
    assert.equal((await world.registry.collectGarbage({ signal })).uploads, 1);
    assert.equal((await world.client.get(path)).status, 404);
    assert.deepEqual(await readdir(join(world.root, "uploads")), []);
  });
});

describe("retention", () => {
  it("removes tags by rule, then what only they reached", async () => {
    await using world = await startWorld({
      retention: [{ repositories: "vk-*", tags: "released-*", keep: 1, ageMs: 0 }],
    });
    const { client } = world;
    for (const tag of ["hibernate", "released-1", "released-2", "latest"])
      await client.pushImage("vk-a", tag);
    await new Promise((resolve) => setTimeout(resolve, 5));
    const report = await world.registry.collectGarbage(now);
    assert.deepEqual([report.tags, report.manifests], [1, 1]);
    const tags = (await client.get("/v2/vk-a/tags/list")).json() as { tags: string[] };
    assert.deepEqual(tags.tags, ["hibernate", "latest", "released-2"]);
  });
});

describe("quota", () => {
  it("refuses what does not fit, counts shared blobs once, and makes room on deletion", async () => {
    await using world = await startWorld({ quotas: [{ pattern: "small/*", maxBytes: 3_000_000 }] });
    const { client } = world;
    const content = randomBytes(2_000_000);
    const first = await client.pushBlob("small/a", content);
    await client.pushBlob("small/a", content);
    const more = randomBytes(1_500_000);
    for (const answer of [
      await client.put(withDigest(await client.begin("small/a"), computeDigest(more)), { body: more }),
      await client.put(`/v2/small/a/blobs/${computeDigest(more)}`, { body: more }),
      await client.patch(await client.begin("small/a"), { body: more }),
    ]) {
      assert.equal(answer.status, 413);
      assert.equal(answer.code, "DENIED");
    }
    await client.pushBlob("large/a", more);
    const mounted = await client.post(`/v2/small/a/blobs/uploads/?mount=${computeDigest(more)}&from=large/a`);
    assert.equal(mounted.status, 413);
    await client.delete(`/v2/small/a/blobs/${first}`);
    await client.pushBlob("small/a", more);
    await client.pushBlob("small/b", content);
  });
});
