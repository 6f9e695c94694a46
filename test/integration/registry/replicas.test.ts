/** Several replicas, each a process of its own, on one bucket of a real S3 service. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { after, before, describe, it } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { count, eventually, seededRandom, temporaryDirectory, testSeed } from "@cocoon/testkit";
import { startS3Server, type S3Server } from "../../peers/s3-server.ts";
import { startReplica, type Replica } from "./replica.ts";
import { computeDigest, type } from "./world.ts";

let server: S3Server;
before(async () => {
  server = await startS3Server();
});
after(() => server[Symbol.asyncDispose]());

async function startReplicas({ settleMs, leaseMs }: { settleMs: number; leaseMs: number }) {
  const stack = new AsyncDisposableStack();
  const uploads = stack.use(await temporaryDirectory());
  const { endpoint, accessKey, secretKey, bucket } = server;
  const s3 = {
    endpoint,
    accessKey,
    secretKey,
    bucket,
    region: "us-east-1",
    prefix: `${randomBytes(6).toString("hex")}/`,
  };
  const token = "replica-test-token";
  const start = async (name: string): Promise<Replica> =>
    stack.use(
      await startReplica({
        storage: { kind: "s3", ...s3 },
        uploadDirectory: `${uploads.path}/${name}`,
        staticToken: token,
        gcSettleMs: settleMs,
        maintenanceLeaseMs: 3_000,
        leaseMs,
      }),
    );
  return { start, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

describe("replicas on one bucket", () => {
  it("collect garbage one at a time, and take over from one that died", async () => {
    await using world = await startReplicas({ settleMs: 1_500, leaseMs: 0 });
    const [first, second] = [await world.start("first"), await world.start("second")];
    for (let each = 0; each < 3; each += 1) await first.client.pushBlob("gc/one", randomBytes(100));
    await eventually(
      async () => {
        // Something to collect makes a run last as long as the settle time.
        const [a, b] = await Promise.all([first.collectGarbage(), second.collectGarbage()]);
        assert.deepEqual([a, b].filter((each) => /another replica/.test(each.problem ?? "")).length, 1);
      },
      { timeoutMs: 60_000 },
    );
    await first.client.pushBlob("gc/one", randomBytes(100));
    await eventually(
      async () => {
        const running = first.collectGarbage();
        await Promise.race([running, delay(500)]);
        first.kill();
        await running.catch(() => undefined);
      },
      { timeoutMs: 60_000 },
    );
    await eventually(async () => assert.equal((await second.collectGarbage()).problem, undefined), {
      timeoutMs: 60_000,
    });
  });

  it("never delete what a push through another replica relies on", async () => {
    const leaseMs = 8_000; // longer than a push takes on a busy machine
    await using world = await startReplicas({ settleMs: 400, leaseMs });
    const [first, second] = [await world.start("first"), await world.start("second")];
    const stopping = new AbortController();
    let deleted = 0;
    const collecting = (async () => {
      while (!stopping.signal.aborted) {
        const { result } = await first.collectGarbage();
        deleted += (result as { blobs: number } | undefined)?.blobs ?? 0;
      }
    })();
    collecting.catch(() => undefined); // it ends with its replica when the test fails
    const random = seededRandom(testSeed());
    const layers = Array.from({ length: 4 }, () => randomBytes(2_000));
    const pushes = count({ small: 9, full: 100 });
    for (let push = 0; push < pushes; push += 1) {
      const config = Buffer.from(JSON.stringify({ push }));
      const descriptors: { mediaType: string; digest: string; size: number }[] = [];
      for (const content of [config, ...layers]) {
        const digest = computeDigest(content);
        // As clients do: look first, and send only what is not there.
        const known = await second.client.head(`/v2/gc/push/blobs/${digest}`);
        if (known.status !== 200) await second.client.pushBlob("gc/push", content);
        descriptors.push({ mediaType: type.layer, digest, size: content.length });
      }
      const [head, ...rest] = descriptors;
      const manifest = { schemaVersion: 2, mediaType: type.manifest, config: head, layers: rest };
      const put = await second.client.pushManifest("gc/push", "v1", manifest);
      assert.equal(put.status, 201, put.body.toString());
      for (const { digest } of descriptors) {
        const pulled = await second.client.get(`/v2/gc/push/blobs/${digest}`);
        assert.equal(computeDigest(pulled.body), digest, `push ${push}: ${digest} answered ${pulled.status}`);
      }
      const digest = computeDigest(Buffer.from(JSON.stringify(manifest)));
      // Nothing names the layers for a while: the next push meets the collector.
      assert.equal((await second.client.delete(`/v2/gc/push/manifests/${digest}`)).status, 202);
      if (push % 4 === 3) await delay(leaseMs + 1_000 + random() * 1_500);
    }
    stopping.abort();
    await collecting;
    assert.ok(deleted > 0, "the collector deleted content meanwhile");
  });

  it("share tokens and the secret that signs what they hand out", async () => {
    await using world = await startReplicas({ settleMs: 400, leaseMs: 8_000 });
    const [first, second] = await Promise.all([world.start("first"), world.start("second")]);
    const token = await first.createToken();
    const admin = second.as(token);
    await eventually(async () => assert.equal((await admin.get("/v2/")).status, 200), {
      timeoutMs: 20_000,
    });
    const [stored] = (await admin.get("/api/tokens")).json() as { id: number }[];
    assert.equal((await admin.delete(`/api/tokens/${stored?.id}`)).status, 200);
    await eventually(async () => assert.equal((await first.as(token).get("/v2/")).status, 401), {
      timeoutMs: 20_000,
    });
  });
});
