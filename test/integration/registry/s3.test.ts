/** Content in S3: the storage contract, and a registry on top, against a real S3 service. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { leaveMultipartUpload, openStorage, storageContract } from "@cocoon/registry/testing";
import { temporaryDirectory } from "@cocoon/testkit";
import { startS3Server, type S3Server } from "../../peers/s3-server.ts";
import { computeDigest, startWorld, withDigest } from "./world.ts";

let server: S3Server;
before(async () => {
  server = await startS3Server();
});
after(() => server[Symbol.asyncDispose]());

/** Each test has a prefix of its own in the one bucket. */
function ownOptions() {
  const { endpoint, accessKey, secretKey, bucket } = server;
  return {
    kind: "s3" as const,
    endpoint,
    accessKey,
    secretKey,
    bucket,
    region: "us-east-1",
    prefix: `${randomBytes(6).toString("hex")}/`,
  };
}

storageContract("s3", () => openStorage(ownOptions()));

describe("a registry on S3", () => {
  it("pushes, pulls, deletes, survives a restart and collects garbage", async () => {
    await using uploads = await temporaryDirectory();
    const storage = ownOptions();
    await using world = await startWorld({ storage, uploadDirectory: uploads.path, gcSettleMs: 50 });
    const image = await world.client.pushImage("s3/app", "v1", 40_000);
    const large = randomBytes(40 * 1024 * 1024); // more than two parts
    const digest = await world.client.pushBlob("s3/app", large);
    const part = await world.client.get(`/v2/s3/app/blobs/${digest}`, { range: "bytes=20000000-20000099" });
    assert.equal(part.status, 206);
    assert.deepEqual(part.body, large.subarray(20_000_000, 20_000_100));
    await world.restart();
    const { client } = world;
    assert.deepEqual((await client.get("/v2/s3/app/manifests/v1")).body, image.bytes);
    assert.equal(computeDigest((await client.get(`/v2/s3/app/blobs/${digest}`)).body), digest);
    assert.deepEqual((await client.get("/v2/s3/app/tags/list")).json(), { name: "s3/app", tags: ["v1"] });
    assert.deepEqual((await client.get("/v2/_catalog")).json(), { repositories: ["s3/app"] });
    const now = { signal: new AbortController().signal, leaseMs: 0, untaggedMs: 0 };
    await delay(2_500); // older than the shortest lease on shared storage, in full seconds
    const report = await world.registry.collectGarbage(now);
    assert.deepEqual([report.links, report.blobs, report.bytes], [1, 1, large.length]);
    assert.equal((await client.delete(`/v2/s3/app/manifests/${image.digest}`)).status, 202);
    await delay(2_500);
    assert.equal((await world.registry.collectGarbage(now)).blobs, 2);
    assert.deepEqual((await client.get("/v2/_catalog")).json(), { repositories: [] });
  });

  it("resumes an upload after a restart", async () => {
    await using uploads = await temporaryDirectory();
    const storage = ownOptions();
    await using world = await startWorld({ storage, uploadDirectory: uploads.path });
    const content = randomBytes(3_000_000);
    const path = await world.client.begin("s3/resumed");
    await world.client.patch(path, { body: content.subarray(0, 2_000_000) });
    await world.restart();
    assert.equal((await world.client.get(path)).headers.get("range"), "0-1999999");
    await world.client.patch(path, { body: content.subarray(2_000_000) });
    assert.equal((await world.client.put(withDigest(path, computeDigest(content)))).status, 201);
    assert.deepEqual(
      (await world.client.get(`/v2/s3/resumed/blobs/${computeDigest(content)}`)).body,
      content,
    );
  });

  it("refuses to start without a bucket, and says so when the service goes away", async () => {
    await assert.rejects(openStorage({ ...ownOptions(), bucket: "no-such-bucket" }), /no-such-bucket/);
    await using own = await startS3Server();
    const { endpoint, accessKey, secretKey, bucket } = own;
    await using uploads = await temporaryDirectory();
    await using world = await startWorld({
      storage: { kind: "s3", endpoint, accessKey, secretKey, bucket, region: "us-east-1", prefix: "" },
      uploadDirectory: uploads.path,
    });
    await world.client.pushImage("s3/app", "v1");
    await own[Symbol.asyncDispose]();
    const answer = await world.client.get("/v2/s3/app/manifests/v1");
    assert.equal(answer.status, 503, "could not ask is not the same as not there");
    assert.equal((await world.client.get("/readyz")).status, 503);
    assert.equal((await world.client.get("/healthz")).status, 200);
  });

  it("sweeps multipart uploads that a dead server left", async () => {
    const options = ownOptions();
    await using storage = await openStorage(options);
    await leaveMultipartUpload(options, `blobs/sha256/${"0".repeat(64)}`);
    assert.equal(await storage.sweepUnfinished(3_600_000), 0, "it may still be going on");
    assert.equal(await storage.sweepUnfinished(0), 1);
    assert.equal(await storage.sweepUnfinished(0), 0);
  });

  it("leaves the local file alone when the service refuses it", async () => {
    await using directory = await temporaryDirectory();
    const path = join(directory.path, "upload");
    const content = randomBytes(20 * 1024 * 1024);
    await writeFile(path, content);
    await using own = await startS3Server();
    const { endpoint, accessKey, secretKey, bucket } = own;
    const options = {
      kind: "s3" as const,
      endpoint,
      accessKey,
      secretKey,
      bucket,
      region: "us-east-1",
      prefix: "",
    };
    await using storage = await openStorage(options);
    await rm(own.directory, { recursive: true });
    const digest = computeDigest(content).replace("sha256:", "");
    await assert.rejects(
      storage.putFile(`blobs/sha256/${digest}` as never, { path, sizeBytes: content.length }),
    );
    await rm(path);
  });
});
