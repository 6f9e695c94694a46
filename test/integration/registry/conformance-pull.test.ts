/** OCI Distribution 1.1, pull: what a client may rely on when it reads. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { after, before, describe, it } from "node:test";
import { computeDigest, startWorld, type Client, type PushedImage, type World } from "./world.ts";

describe("pull", () => {
  const name = "pull/repository";
  const content = randomBytes(700_000);
  let world: World;
  let client: Client;
  let image: PushedImage;
  let blob: string;

  before(async () => {
    world = await startWorld();
    client = world.client;
    image = await client.pushImage(name, "v1");
    blob = await client.pushBlob(name, content);
  });
  after(() => world[Symbol.asyncDispose]());

  it("answers the ping (end-1)", async () => {
    for (const path of ["/v2/", "/v2"]) {
      const answer = await client.get(path);
      assert.equal(answer.status, 200);
      assert.equal(answer.headers.get("docker-distribution-api-version"), "registry/2.0");
    }
  });

  it("gives a manifest by tag and by digest, byte for byte (end-3)", async () => {
    for (const reference of ["v1", image.digest]) {
      const answer = await client.get(`/v2/${name}/manifests/${reference}`);
      assert.equal(answer.status, 200);
      assert.deepEqual(answer.body, image.bytes);
      assert.equal(answer.headers.get("content-type"), image.manifest.mediaType);
      assert.equal(answer.headers.get("docker-content-digest"), image.digest);
      assert.equal(answer.headers.get("content-length"), String(image.bytes.length));
    }
  });

  it("answers HEAD like GET, without a body", async () => {
    for (const path of [`manifests/v1`, `manifests/${image.digest}`, `blobs/${blob}`]) {
      const [get, head] = [await client.get(`/v2/${name}/${path}`), await client.head(`/v2/${name}/${path}`)];
      assert.equal(head.status, 200);
      assert.equal(head.body.length, 0);
      for (const header of ["content-type", "content-length", "docker-content-digest"])
        assert.equal(head.headers.get(header), get.headers.get(header), header);
    }
  });

  it("gives a blob (end-2)", async () => {
    const answer = await client.get(`/v2/${name}/blobs/${blob}`);
    assert.equal(answer.status, 200);
    assert.deepEqual(answer.body, content);
    assert.equal(answer.headers.get("docker-content-digest"), blob);
    assert.equal(answer.headers.get("content-length"), String(content.length));
    assert.equal(answer.headers.get("content-type"), "application/octet-stream");
  });

  it("says 404 for what is not there, in the shape of the specification", async () => {
    const absent = computeDigest(randomBytes(10));
    const cases = [
      [`/v2/${name}/manifests/absent`, "MANIFEST_UNKNOWN"],
      [`/v2/${name}/manifests/${absent}`, "MANIFEST_UNKNOWN"],
      [`/v2/${name}/blobs/${absent}`, "BLOB_UNKNOWN"],
      [`/v2/no/such/repository/manifests/v1`, "MANIFEST_UNKNOWN"],
      [`/v2/no/such/repository/blobs/${blob}`, "BLOB_UNKNOWN"],
      [`/v2/no/such/repository/tags/list`, "NAME_UNKNOWN"],
    ] as const;
    for (const [path, code] of cases) {
      const answer = await client.get(path);
      assert.equal(answer.status, 404, path);
      assert.equal(answer.code, code, path);
      assert.match(answer.headers.get("content-type") ?? "", /^application\/json/);
      const head = await client.head(path);
      assert.equal(head.status, 404, path);
      assert.equal(head.body.length, 0);
    }
  });

  const ranges: readonly [string, number, number][] = [
    ["bytes=0-0", 0, 0],
    ["bytes=100-199", 100, 199],
    ["bytes=699990-", 699_990, 699_999],
    ["bytes=-10", 699_990, 699_999],
    ["bytes=5-99999999", 5, 699_999],
    ["bytes=-99999999", 0, 699_999],
  ];
  for (const [header, start, end] of ranges)
    it(`answers ${header} with 206`, async () => {
      const answer = await client.get(`/v2/${name}/blobs/${blob}`, { range: header });
      assert.equal(answer.status, 206);
      assert.deepEqual(answer.body, content.subarray(start, end + 1));
      assert.equal(answer.headers.get("content-range"), `bytes ${start}-${end}/${content.length}`);
      assert.equal(answer.headers.get("content-length"), String(end - start + 1));
    });

  for (const header of ["bytes=700000-", "bytes=700000-700001", "bytes=500-0", "bytes=-0"])
    it(`answers ${header} with 416`, async () => {
      const answer = await client.get(`/v2/${name}/blobs/${blob}`, { range: header });
      assert.equal(answer.status, 416);
      assert.equal(answer.headers.get("content-range"), `bytes */${content.length}`);
    });

  for (const header of ["bytes=0-1,5-6", "bytes=a-b", "bytes=-", "lines=0-1", "bytes"])
    it(`ignores the range ${header} and gives the whole`, async () => {
      const answer = await client.get(`/v2/${name}/blobs/${blob}`, { range: header });
      assert.equal(answer.status, 200);
      assert.deepEqual(answer.body, content);
    });

  it("gives small blobs in parts too", async () => {
    const small = Buffer.from("0123456789");
    const digest = await client.pushBlob(name, small);
    const answer = await client.get(`/v2/${name}/blobs/${digest}`, { range: "bytes=2-4" });
    assert.equal(answer.status, 206);
    assert.equal(answer.body.toString(), "234");
  });

  it("keeps blobs to the repositories they were pushed to", async () => {
    await client.pushImage("pull/other", "v1");
    assert.equal((await client.head(`/v2/pull/other/blobs/${blob}`)).status, 404);
    assert.equal((await client.get(`/v2/pull/other/manifests/${image.digest}`)).status, 404);
  });

  it("refuses malformed names, digests and methods with an error body", async () => {
    const cases = [
      ["GET", "/v2/UPPER/manifests/v1", 400, "NAME_INVALID"],
      ["GET", "/v2/a%2Fb%2F..%2Fc/tags/list", 400, "NAME_INVALID"],
      ["GET", `/v2/${"a".repeat(256)}/tags/list`, 400, "NAME_INVALID"],
      ["GET", `/v2/${name}/blobs/sha256:baddigeststring`, 400, "DIGEST_INVALID"],
      ["GET", `/v2/${name}/blobs/md5:${"0".repeat(32)}`, 400, "DIGEST_INVALID"],
      ["GET", `/v2/${name}/manifests/sha256:baddigeststring`, 404, "MANIFEST_UNKNOWN"],
      ["GET", `/v2/${name}/manifests/.hidden`, 404, "MANIFEST_UNKNOWN"],
      ["GET", `/v2/${name}/manifests/${"t".repeat(129)}`, 404, "MANIFEST_UNKNOWN"],
      ["GET", `/v2/${name}/nothing/here`, 404, "NAME_UNKNOWN"],
      ["POST", `/v2/${name}/manifests/v1`, 405, "UNSUPPORTED"],
      ["PATCH", `/v2/${name}/blobs/${blob}`, 405, "UNSUPPORTED"],
      ["GET", "/v2/%zz/tags/list", 400, "NAME_INVALID"],
    ] as const;
    for (const [method, path, status, code] of cases) {
      const answer = await client.request(path, { method });
      assert.equal(answer.status, status, `${method} ${path}`);
      assert.equal(answer.code, code, `${method} ${path}`);
    }
  });
});
