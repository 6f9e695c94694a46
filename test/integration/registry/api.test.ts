/** The control API and /dl/ in epoch's shapes. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { after, before, describe, it } from "node:test";
import { mediaType } from "@cocoon/contract";
import { Client, computeDigest, startWorld, type as mediaTypes, type World } from "./world.ts";

const bare = (digest: string) => digest.replace("sha256:", "");

describe("control API", () => {
  let world: World;
  let client: Client;
  const created = "2026-04-01T10:00:00Z";
  const config = { schemaVersion: "v1", snapshotId: "snap-1", cpu: 2, memory: 1_073_741_824 };
  let snapshot: { digest: string; totalSize: number; manifest: unknown };

  before(async () => {
    world = await startWorld();
    client = world.client;
    await client.pushImage("images/app", "v1", 500);
    const state = randomBytes(300);
    const configBytes = Buffer.from(JSON.stringify(config));
    const manifest = {
      schemaVersion: 2,
      mediaType: mediaTypes.manifest,
      artifactType: mediaType.snapshotV1,
      config: {
        mediaType: mediaType.snapshotConfig,
        digest: await client.pushBlob("vk-demo-a-0", configBytes),
        size: configBytes.length,
      },
      layers: [
        {
          mediaType: mediaType.vmState,
          digest: await client.pushBlob("vk-demo-a-0", state),
          size: state.length,
          annotations: { "org.opencontainers.image.title": "state.json" },
        },
      ],
      annotations: { "org.opencontainers.image.created": created },
    };
    const bytes = Buffer.from(JSON.stringify(manifest, undefined, 2));
    await client.pushManifest("vk-demo-a-0", "hibernate", bytes);
    snapshot = { digest: computeDigest(bytes), totalSize: configBytes.length + state.length, manifest };
  });
  after(() => world[Symbol.asyncDispose]());

  it("counts", async () => {
    const answer = await client.get("/api/stats");
    assert.equal(answer.status, 200);
    const stats = answer.json() as Record<string, number>;
    assert.deepEqual(Object.keys(stats), [
      "repositoryCount",
      "tagCount",
      "blobCount",
      "totalSize",
      "storedSize",
    ]);
    assert.equal(stats["storedSize"], stats["totalSize"], "nothing is shared");
    assert.deepEqual([stats["repositoryCount"], stats["tagCount"], stats["blobCount"]], [2, 2, 4]);
  });

  it("lists repositories, newest first", async () => {
    const list = (await client.get("/api/repositories")).json() as Record<string, unknown>[];
    assert.deepEqual(
      list.map((each) => each["name"]),
      ["images/app", "vk-demo-a-0"],
    );
    assert.deepEqual(
      { ...list[1], id: 0 },
      {
        id: 0,
        name: "vk-demo-a-0",
        tagCount: 1,
        totalSize: snapshot.totalSize,
        artifactType: mediaType.snapshotV1,
        kind: "snapshot",
        hibernated: true,
        createdAt: "2026-04-01T10:00:00.000Z",
        updatedAt: "2026-04-01T10:00:00.000Z",
      },
    );
    assert.ok(Number.isSafeInteger(list[1]?.["id"]));
    for (const name of ["images/app", "images%2Fapp"]) {
      const one = await client.get(`/api/repositories/${name}`);
      assert.deepEqual(one.json(), list[0]);
    }
    const absent = await client.get("/api/repositories/absent");
    assert.equal(absent.status, 404);
    assert.deepEqual(absent.json(), { error: "repository not found" });
  });

  it("lists tags and shows one with manifest and snapshot config", async () => {
    const tags = (await client.get("/api/repositories/vk-demo-a-0/tags")).json() as Record<string, unknown>[];
    const { id, syncedAt, ...rest } = tags[0] ?? {};
    assert.ok(Number.isSafeInteger(id) && typeof syncedAt === "string");
    const expected = {
      repoName: "vk-demo-a-0",
      digest: bare(snapshot.digest),
      artifactType: mediaType.snapshotV1,
      kind: "snapshot",
      totalSize: snapshot.totalSize,
      layerCount: 1,
      pushedAt: "2026-04-01T10:00:00.000Z",
    };
    assert.deepEqual(rest, { name: "hibernate", ...expected });
    const detail = (await client.get("/api/repositories/vk-demo-a-0/tags/hibernate")).json() as Record<
      string,
      unknown
    >;
    assert.deepEqual(detail, {
      tag: "hibernate",
      ...expected,
      syncedAt,
      manifest: snapshot.manifest,
      snapshotConfig: config,
    });
    assert.deepEqual((await client.get("/api/repositories/absent/tags")).json(), []);
    const absent = await client.get("/api/repositories/images%2Fapp/tags/absent");
    assert.deepEqual([absent.status, absent.json()], [404, { error: "tag not found" }]);
  });

  it("describes an index by its platforms, each blob once", async () => {
    const children = [
      await client.pushImage("images/multi", "one", 400),
      await client.pushImage("images/multi", "two", 600),
    ];
    const index = {
      schemaVersion: 2,
      mediaType: mediaTypes.index,
      manifests: children.map(({ digest, bytes }) => ({
        mediaType: mediaTypes.manifest,
        digest,
        size: bytes.length,
      })),
    };
    await client.pushManifest("images/multi", "all", index);
    const detail = (await client.get("/api/repositories/images/multi/tags/all")).json() as Record<
      string,
      unknown
    >;
    const sizes = children.map(({ manifest }) => manifest.config.size + (manifest.layers[0]?.size ?? 0));
    assert.equal(detail["kind"], "image-index");
    assert.equal(detail["layerCount"], 2);
    assert.equal(detail["totalSize"], (sizes[0] ?? 0) + (sizes[1] ?? 0));
    assert.deepEqual(
      detail["platformSizes"],
      children.map(({ digest }, at) => ({ digest, size: sizes[at], layerCount: 1 })),
    );
  });

  it("follows every change at once, and on a sync", async () => {
    await client.pushImage("images/changing", "a");
    const names = async () =>
      ((await client.get("/api/repositories/images%2Fchanging/tags")).json() as { name: string }[])
        .map((each) => each.name)
        .sort();
    assert.deepEqual(await names(), ["a"]);
    await client.pushImage("images/changing", "b");
    assert.deepEqual(await names(), ["a", "b"]);
    assert.equal((await client.delete("/api/repositories/images%2Fchanging/tags/a")).status, 204);
    assert.equal(
      (await client.delete("/api/repositories/images%2Fchanging/tags/a")).status,
      204,
      "also when absent",
    );
    assert.deepEqual(await names(), ["b"]);
    assert.equal((await client.head("/v2/images/changing/manifests/a")).status, 404);
    assert.deepEqual((await client.post("/api/catalog/sync")).json(), { status: "synced" });
    assert.deepEqual(await names(), ["b"]);
  });

  it("shows a caller only what they may pull", async () => {
    const limited = await world.clientWith("registry:catalog:*", "repository:vk-*:pull");
    const list = (await limited.get("/api/repositories")).json() as { name: string }[];
    assert.deepEqual(
      list.map((each) => each.name),
      ["vk-demo-a-0"],
    );
    assert.equal((await limited.get("/api/repositories/images%2Fapp")).status, 403);
    assert.equal((await limited.delete("/api/repositories/vk-demo-a-0/tags/hibernate")).status, 403);
  });

  it("manages tokens", async () => {
    const made = await client.post("/api/tokens", { body: JSON.stringify({ name: "ci" }) });
    assert.equal(made.status, 201);
    const { token, name, id } = made.json() as { token: string; name: string; id: number };
    assert.match(token, /^[0-9a-f]{64}$/);
    assert.equal(name, "ci");
    await new Client(client.base, token).pushImage("images/ci", "v1");
    const scoped = await client.post("/api/tokens", {
      body: JSON.stringify({ name: "limited-ci", scopes: ["repository:images/*:pull"], expiresIn: "1h" }),
    });
    const listed = (await client.get("/api/tokens")).json() as Record<string, unknown>[];
    const found = listed.find((each) => each["name"] === "limited-ci") ?? {};
    assert.deepEqual(found["scopes"], ["repository:images/*:pull"]);
    assert.ok(Date.parse(String(found["expiresAt"])) > Date.now());
    assert.ok(listed.every((each) => !("token" in each) && !("hash" in each)));
    assert.ok(listed.find((each) => each["id"] === id)?.["lastUsed"], "its use was noted");
    const weak = new Client(client.base, (scoped.json() as { token: string }).token);
    assert.equal(
      (await weak.post("/api/tokens", { body: JSON.stringify({ name: "more", scopes: ["admin"] }) })).status,
      403,
    );
    for (const [body, message] of [
      ["{}", "name is required"],
      ['{"name":"  "}', "name is required"],
      ['{"name":"x","scopes":["everything"]}', "must be repository"],
      ['{"name":"x","expiresIn":"soon"}', "must be a duration"],
      ["nonsense", "not JSON"],
    ] as const) {
      const answer = await client.post("/api/tokens", { body });
      assert.equal(answer.status, 400, body);
      assert.match((answer.json() as { error: string }).error, new RegExp(message));
    }
    assert.deepEqual((await client.delete(`/api/tokens/${id}`)).json(), { status: "deleted" });
    assert.equal((await client.delete(`/api/tokens/${id}`)).status, 200, "even if absent");
    const bad = await client.delete("/api/tokens/abc");
    assert.deepEqual([bad.status, bad.json()], [400, { error: "invalid id" }]);
  });

  it("collects garbage on request", async () => {
    const stray = await client.pushBlob("images/stray", randomBytes(10));
    const gentle = await client.post("/api/gc");
    assert.equal((gentle.json() as { blobs: number }).blobs, 0);
    const report = (await client.post("/api/gc", { body: JSON.stringify({ lease: "0s" }) })).json() as {
      blobs: number;
    };
    assert.equal(report.blobs, 1);
    assert.equal((await client.head(`/v2/images/stray/blobs/${stray}`)).status, 404);
  });
});

describe("downloads", () => {
  it("puts a cloud image together from its parts, in the order of their titles", async () => {
    await using world = await startWorld({ anonymousPull: true });
    const { client } = world;
    const parts = [randomBytes(700_000), randomBytes(10), randomBytes(300_000)];
    const layer = async (content: Buffer, title: string, kind: string) => ({
      mediaType: kind,
      digest: await client.pushBlob("os/windows", content),
      size: content.length,
      annotations: { "org.opencontainers.image.title": title },
    });
    const empty = Buffer.from("{}");
    const manifest = {
      schemaVersion: 2,
      mediaType: mediaTypes.manifest,
      artifactType: mediaType.osImage,
      config: { mediaType: mediaType.ociEmpty, digest: await client.pushBlob("os/windows", empty), size: 2 },
      layers: [
        await layer(
          parts[2] ?? empty,
          "win.qcow2.02.qcow2.part",
          "application/vnd.cocoonstack.disk.qcow2.part",
        ),
        await layer(Buffer.from("checksums"), "SHA256SUMS", "text/plain"),
        await layer(
          parts[0] ?? empty,
          "win.qcow2.00.qcow2.part",
          "application/vnd.cocoonstack.disk.qcow2.part",
        ),
        await layer(
          parts[1] ?? empty,
          "win.qcow2.01.qcow2.part",
          "application/vnd.cocoonstack.windows.disk.qcow2.part",
        ),
      ],
    };
    await client.pushManifest("os/windows", "latest", manifest);
    const answer = await new Client(world.registry.url).get("/dl/os/windows");
    assert.equal(answer.status, 200);
    assert.equal(answer.headers.get("content-type"), "application/octet-stream");
    assert.deepEqual(answer.body, Buffer.concat(parts));
  });

  it("says what cannot be downloaded", async () => {
    await using world = await startWorld();
    await world.client.pushImage("images/app", "latest");
    const image = await world.client.get("/dl/images/app");
    assert.equal(image.status, 405);
    const absent = await world.client.get("/dl/images/none");
    assert.equal(absent.status, 404);
    assert.match(absent.body.toString(), /artifact not found/);
  });
});
