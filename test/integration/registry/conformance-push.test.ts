/** OCI Distribution 1.1, push: every way to bring content in, and every way it may be refused. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { after, before, describe, it } from "node:test";
import {
  computeDigest,
  location,
  startWorld,
  type as mediaTypes,
  withDigest,
  type Client,
  type World,
} from "./world.ts";

const name = "push/repository";
const octets = { "content-type": "application/octet-stream" };

function toStream(...chunks: Uint8Array[]): ReadableStream<Uint8Array> {
  return ReadableStream.from(chunks);
}

describe("push of blobs", () => {
  let world: World;
  let client: Client;
  before(async () => {
    world = await startWorld();
    client = world.client;
  });
  after(() => world[Symbol.asyncDispose]());

  const assertPullable = async (path: string, content: Buffer) => {
    const answer = await client.get(path);
    assert.equal(answer.status, 200);
    assert.deepEqual(answer.body, content);
  };

  for (const size of [0, 1, 65_536, 3_000_000])
    it(`takes ${size} bytes by POST, then PUT (end-4a, end-6)`, async () => {
      const content = randomBytes(size);
      const digest = computeDigest(content);
      const path = await client.begin(name);
      const answer = await client.put(withDigest(path, digest), { body: content, headers: octets });
      assert.equal(answer.status, 201);
      assert.equal(answer.headers.get("docker-content-digest"), digest);
      assert.equal(location(answer), `/v2/${name}/blobs/${digest}`);
      await assertPullable(location(answer), content);
      assert.equal((await client.get(path)).status, 404, "the session is over");
    });

  for (const size of [0, 1_000, 3_000_000])
    it(`takes ${size} bytes by one POST (end-4b)`, async () => {
      const content = randomBytes(size);
      const answer = await client.post(`/v2/${name}/blobs/uploads/?digest=${computeDigest(content)}`, {
        body: content,
      });
      assert.equal(answer.status, 201);
      await assertPullable(location(answer), content);
    });

  for (const size of [0, 1_000, 3_000_000])
    it(`takes ${size} bytes by epoch's direct PUT`, async () => {
      const content = randomBytes(size);
      const digest = computeDigest(content);
      const answer = await client.put(`/v2/${name}/blobs/${digest}`, { body: content });
      assert.equal(answer.status, 201);
      assert.equal(answer.headers.get("docker-content-digest"), digest);
      await assertPullable(`/v2/${name}/blobs/${digest}`, content);
    });

  it("takes a streamed PATCH without Content-Range, then an empty PUT", async () => {
    const content = randomBytes(2_000_000);
    const path = await client.begin(name);
    const patched = await client.patch(path, {
      body: toStream(content.subarray(0, 900_000), content.subarray(900_000)),
    });
    assert.equal(patched.status, 202);
    assert.equal(patched.headers.get("range"), `0-${content.length - 1}`);
    const answer = await client.put(withDigest(location(patched), computeDigest(content)));
    assert.equal(answer.status, 201);
    await assertPullable(location(answer), content);
  });

  it("takes chunks in order, the last one with the closing PUT (end-5, end-6)", async () => {
    const content = randomBytes(250);
    let path = await client.begin(name);
    for (const [start, end] of [
      [0, 99],
      [100, 199],
    ] as const) {
      const answer = await client.patch(path, {
        body: content.subarray(start, end + 1),
        headers: { ...octets, "content-range": `${start}-${end}` },
      });
      assert.equal(answer.status, 202);
      assert.equal(answer.headers.get("range"), `0-${end}`);
      path = location(answer);
    }
    const answer = await client.put(withDigest(path, computeDigest(content)), {
      body: content.subarray(200),
      headers: { ...octets, "content-range": "200-249" },
    });
    assert.equal(answer.status, 201);
    await assertPullable(location(answer), content);
  });

  it("answers chunks out of order or sent twice with 416 and goes on", async () => {
    const content = randomBytes(200);
    const path = await client.begin(name);
    const send = (start: number, end: number) =>
      client.patch(path, {
        body: content.subarray(start, end + 1),
        headers: { "content-range": `${start}-${end}` },
      });
    assert.equal((await send(100, 199)).status, 416);
    assert.equal((await send(0, 99)).status, 202);
    const replay = await send(0, 99);
    assert.equal(replay.status, 416);
    assert.equal(replay.headers.get("range"), "0-99");
    assert.equal((await send(150, 199)).status, 416);
    assert.equal((await send(100, 199)).status, 202);
    assert.equal((await client.put(withDigest(path, computeDigest(content)))).status, 201);
  });

  it("checks the Content-Range of the closing PUT", async () => {
    const content = randomBytes(100);
    const path = await client.begin(name);
    const put = (range: string) =>
      client.put(withDigest(path, computeDigest(content)), {
        body: content,
        headers: { "content-range": range },
      });
    assert.equal((await put("50-149")).status, 416);
    assert.equal((await put("0-49")).status, 400);
    assert.equal((await put("0-99")).status, 201);
  });

  it("tells where a session stands (end-13) and cancels it (end-14)", async () => {
    const path = await client.begin(name);
    const empty = await client.get(path);
    assert.equal(empty.status, 204);
    assert.equal(empty.headers.get("range"), "0-0");
    assert.equal(location(empty), path);
    await client.patch(path, { body: randomBytes(10) });
    assert.equal((await client.get(path)).headers.get("range"), "0-9");
    assert.equal((await client.delete(path)).status, 204);
    for (const answer of [
      await client.get(path),
      await client.delete(path),
      await client.patch(path, { body: "x" }),
    ]) {
      assert.equal(answer.status, 404);
      assert.equal(answer.code, "BLOB_UPLOAD_UNKNOWN");
    }
  });

  it("keeps the range of an empty session at 0-0 after an empty PATCH", async () => {
    const path = await client.begin(name);
    assert.equal((await client.patch(path, { body: new Uint8Array() })).headers.get("range"), "0-0");
  });

  it("does not know sessions of other repositories, nor unknown ones", async () => {
    const path = await client.begin(name);
    assert.equal((await client.get(path.replace(name, "push/other"))).status, 404);
    assert.equal(
      (await client.get(`/v2/${name}/blobs/uploads/00000000-0000-0000-0000-000000000000`)).status,
      404,
    );
    assert.equal((await client.get(`/v2/${name}/blobs/uploads/..%2F..%2Fetc%2Fpasswd`)).status, 404);
  });

  it("refuses content that is not what the digest says, on every path, and stores nothing", async () => {
    const content = randomBytes(2_000_000);
    const wrong = computeDigest(randomBytes(8));
    const opened = await client.begin(name);
    await client.patch(opened, { body: content });
    const answers = [
      await client.put(withDigest(await client.begin(name), wrong), { body: content }),
      await client.put(withDigest(await client.begin(name), wrong), { body: content.subarray(0, 10) }),
      await client.put(withDigest(opened, wrong)),
      await client.post(`/v2/${name}/blobs/uploads/?digest=${wrong}`, { body: content }),
      await client.put(`/v2/${name}/blobs/${wrong}`, { body: content }),
      await client.put(`/v2/${name}/blobs/${wrong}`, { body: content.subarray(0, 10) }),
      await client.put(withDigest(await client.begin(name), "sha256:baddigeststring"), { body: content }),
      await client.put(await client.begin(name), { body: content }),
      await client.post(`/v2/${name}/blobs/uploads/?digest=sha256:baddigeststring`, { body: content }),
    ];
    for (const answer of answers) {
      assert.equal(answer.status, 400);
      assert.equal(answer.code, "DIGEST_INVALID");
    }
    assert.equal((await client.head(`/v2/${name}/blobs/${wrong}`)).status, 404);
    assert.equal((await client.head(`/v2/${name}/blobs/${computeDigest(content)}`)).status, 404);
  });

  it("takes sha512 blobs on every path", async () => {
    for (const size of [100, 2_000_000]) {
      const paths = [
        (digest: string, body: Buffer) => client.put(`/v2/${name}/blobs/${digest}`, { body }),
        (digest: string, body: Buffer) =>
          client.post(`/v2/${name}/blobs/uploads/?digest=${digest}`, { body }),
        async (digest: string, body: Buffer) =>
          client.put(withDigest(await client.begin(name), digest), { body }),
        async (digest: string, body: Buffer) => {
          const path = await client.begin(name);
          await client.patch(path, { body });
          return client.put(withDigest(path, digest));
        },
      ];
      for (const push of paths) {
        const content = randomBytes(size);
        const digest = computeDigest(content, "sha512");
        const answer = await push(digest, content);
        assert.equal(answer.status, 201);
        assert.equal(answer.headers.get("docker-content-digest"), digest);
        await assertPullable(`/v2/${name}/blobs/${digest}`, content);
      }
    }
  });

  it("mounts from another repository (end-11)", async () => {
    const content = randomBytes(100);
    const digest = await client.pushBlob("push/source", content);
    const answer = await client.post(`/v2/push/target/blobs/uploads/?mount=${digest}&from=push/source`);
    assert.equal(answer.status, 201);
    assert.equal(location(answer), `/v2/push/target/blobs/${digest}`);
    await assertPullable(location(answer), content);
  });

  it("mounts from anywhere when no source is named", async () => {
    const digest = await client.pushBlob("push/source", randomBytes(100));
    const answer = await client.post(`/v2/push/anywhere/blobs/uploads/?mount=${digest}`);
    assert.equal(answer.status, 201);
    assert.equal((await client.head(`/v2/push/anywhere/blobs/${digest}`)).status, 200);
  });

  it("opens a session when there is nothing to mount", async () => {
    const content = randomBytes(100);
    const digest = computeDigest(content);
    for (const query of [
      `mount=${digest}&from=push/source`,
      `mount=${digest}`,
      "mount=nonsense&from=push/source",
    ]) {
      const answer = await client.post(`/v2/push/target/blobs/uploads/?${query}`);
      assert.equal(answer.status, 202, query);
      assert.equal((await client.head(`/v2/push/target/blobs/${digest}`)).status, 404);
      assert.equal((await client.delete(location(answer))).status, 204);
    }
  });

  it("refuses a blob above the limit with 413", async () => {
    await using small = await startWorld({ limits: { maxBlobBytes: 2_000_000 } });
    const body = randomBytes(2_000_001);
    const direct = await small.client.put(`/v2/${name}/blobs/${computeDigest(body)}`, { body });
    assert.equal(direct.status, 413);
    const streamed = await small.client.patch(await small.client.begin(name), { body: toStream(body) });
    assert.equal(streamed.status, 413);
    assert.equal(streamed.code, "SIZE_INVALID");
    await small.client.pushBlob(name, body.subarray(1));
  });
});

describe("push of manifests", () => {
  let world: World;
  let client: Client;
  before(async () => {
    world = await startWorld();
    client = world.client;
  });
  after(() => world[Symbol.asyncDispose]());

  it("stores by tag and by digest, and says where (end-7)", async () => {
    const bytes = Buffer.from(JSON.stringify(await client.newImage(name), undefined, 3));
    for (const reference of ["by-tag", computeDigest(bytes)]) {
      const answer = await client.pushManifest(name, reference, bytes);
      assert.equal(answer.status, 201);
      assert.equal(answer.headers.get("docker-content-digest"), computeDigest(bytes));
      assert.equal(answer.headers.get("oci-subject"), null);
      assert.equal(location(answer), `/v2/${name}/manifests/${reference}`);
      assert.deepEqual((await client.get(location(answer))).body, bytes);
    }
  });

  it("keeps sha512 for manifests pushed by it", async () => {
    const bytes = Buffer.from(JSON.stringify(await client.newImage(name)));
    const digest = computeDigest(bytes, "sha512");
    const answer = await client.pushManifest(name, digest, bytes);
    assert.equal(answer.status, 201);
    assert.equal(answer.headers.get("docker-content-digest"), digest);
    const head = await client.head(`/v2/${name}/manifests/${digest}`);
    assert.equal(head.headers.get("docker-content-digest"), digest);
    assert.deepEqual((await client.get(`/v2/${name}/manifests/${digest}`)).body, bytes);
  });

  it("sets the tags asked for beside a digest", async () => {
    const bytes = Buffer.from(JSON.stringify(await client.newImage("push/tagged")));
    const answer = await client.pushManifest("push/tagged", `${computeDigest(bytes)}?tag=one&tag=two`, bytes);
    assert.equal(answer.status, 201);
    assert.equal(answer.headers.get("oci-tag"), "one, two");
    for (const tag of ["one", "two"])
      assert.deepEqual((await client.get(`/v2/push/tagged/manifests/${tag}`)).body, bytes);
    assert.equal(
      (await client.pushManifest("push/tagged", `${computeDigest(bytes)}?tag=-bad`, bytes)).status,
      400,
    );
  });

  it("moves a tag to the manifest pushed last", async () => {
    const first = await client.pushImage(name, "moving");
    const second = await client.pushImage(name, "moving");
    assert.equal(
      (await client.head(`/v2/${name}/manifests/moving`)).headers.get("docker-content-digest"),
      second.digest,
    );
    assert.equal((await client.head(`/v2/${name}/manifests/${first.digest}`)).status, 200);
  });

  it("returns the type it was pushed with, without parameters", async () => {
    const bytes = Buffer.from(
      JSON.stringify({ schemaVersion: 2, config: (await client.newImage(name)).config, layers: [] }),
    );
    const path = `/v2/${name}/manifests/typed`;
    for (const [sent, expected] of [
      [
        "application/vnd.docker.distribution.manifest.v2+json; charset=utf-8",
        "application/vnd.docker.distribution.manifest.v2+json",
      ],
      ["application/vnd.example.thing+json", "application/vnd.example.thing+json"],
      ["application/json", mediaTypes.manifest],
    ] as const) {
      assert.equal((await client.put(path, { body: bytes, headers: { "content-type": sent } })).status, 201);
      assert.equal((await client.get(path)).headers.get("content-type"), expected);
    }
  });

  it("accepts what the specification allows: unknown fields, data, no layers, empty and nested indexes", async () => {
    const image = await client.newImage(name);
    const child = await client.pushImage(name, "child");
    const descriptor = { mediaType: mediaTypes.manifest, digest: child.digest, size: child.bytes.length };
    const inner = Buffer.from(
      JSON.stringify({ schemaVersion: 2, mediaType: mediaTypes.index, manifests: [descriptor] }),
    );
    const innerDescriptor = { mediaType: mediaTypes.index, digest: computeDigest(inner), size: inner.length };
    const accepted: Record<string, unknown> = {
      "unknown-fields": { ...image, "org.example": { nested: [1, { a: null }] } },
      "embedded-data": { ...image, config: { ...image.config, data: "e30=" } },
      "no-layers": { ...image, layers: [] },
      "foreign-layer": {
        ...image,
        layers: [
          {
            mediaType: "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip",
            digest: computeDigest(randomBytes(3)),
            size: 123,
          },
        ],
      },
      "empty-index": { schemaVersion: 2, mediaType: mediaTypes.index, manifests: [] },
      "nested-index": { schemaVersion: 2, mediaType: mediaTypes.index, manifests: [innerDescriptor] },
      "sparse-index": {
        schemaVersion: 2,
        mediaType: mediaTypes.index,
        manifests: [{ ...descriptor, digest: computeDigest(randomBytes(4)) }],
      },
      "missing-subject": { ...image, subject: { ...descriptor, digest: computeDigest(randomBytes(5)) } },
    };
    assert.equal((await client.pushManifest(name, computeDigest(inner), inner)).status, 201);
    for (const [tag, manifest] of Object.entries(accepted)) {
      const answer = await client.pushManifest(name, tag, manifest);
      assert.equal(answer.status, 201, `${tag}: ${answer.body.toString()}`);
      assert.deepEqual((await client.get(`/v2/${name}/manifests/${tag}`)).json(), manifest);
    }
  });

  it("takes large manifests and refuses those above the limit with 413", async () => {
    const image = await client.newImage(name);
    const padded = (size: number) => ({ ...image, annotations: { padding: "x".repeat(size) } });
    assert.equal((await client.pushManifest(name, "large", padded(4_100_000))).status, 201);
    await using small = await startWorld({ limits: { maxManifestBytes: 4 * 2 ** 20 } });
    const answer = await small.client.pushManifest(name, "huge", padded(4 * 2 ** 20));
    assert.equal(answer.status, 413);
    assert.equal(answer.code, "SIZE_INVALID");
  });

  it("refuses what is no manifest", async () => {
    const image = await client.newImage(name);
    const cases: [string, string | Buffer, string][] = [
      ["t", "not json", "MANIFEST_INVALID"],
      ["t", "", "MANIFEST_INVALID"],
      ["t", "[]", "MANIFEST_INVALID"],
      ["t", Buffer.from([0x7b, 0xff, 0x7d]), "MANIFEST_INVALID"],
      ["t", JSON.stringify({ ...image, schemaVersion: 1 }), "MANIFEST_INVALID"],
      [
        "t",
        JSON.stringify({ ...image, layers: [{ ...image.config, digest: "sha256:zz" }] }),
        "MANIFEST_INVALID",
      ],
      ["t", JSON.stringify({ ...image, layers: [{ ...image.config, size: -1 }] }), "MANIFEST_INVALID"],
      ["t", JSON.stringify({ ...image, mediaType: mediaTypes.index }), "MANIFEST_INVALID"],
      [
        "t",
        JSON.stringify({ ...image, layers: [{ ...image.config, digest: computeDigest(randomBytes(6)) }] }),
        "MANIFEST_BLOB_UNKNOWN",
      ],
      [computeDigest(randomBytes(7)), JSON.stringify(image), "DIGEST_INVALID"],
      ["sha256:baddigeststring", JSON.stringify(image), "DIGEST_INVALID"],
      [".hidden", JSON.stringify(image), "MANIFEST_INVALID"],
    ];
    for (const [reference, body, code] of cases) {
      const answer = await client.put(`/v2/${name}/manifests/${reference}`, {
        body,
        headers: { "content-type": mediaTypes.manifest },
      });
      assert.equal(answer.status, 400, body.toString().slice(0, 100));
      assert.equal(answer.code, code, body.toString().slice(0, 100));
    }
    assert.equal((await client.head(`/v2/${name}/manifests/t`)).status, 404);
  });
});
