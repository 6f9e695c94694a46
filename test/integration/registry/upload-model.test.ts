/** Committed blobs hold what their digest says, whatever requests meet on one upload session; on files and on S3. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test } from "node:test";
import type { RegistryOptions } from "@cocoon/registry";
import { count, temporaryDirectory, testSeed } from "@cocoon/testkit";
import { startS3Server } from "../../peers/s3-server.ts";
import { runUploadModel } from "./upload-model.ts";
import { startWorld } from "./world.ts";

const takeoverMs = 40;

async function runSessions(options: Partial<RegistryOptions>, sessions: number): Promise<void> {
  await using world = await startWorld({ ...options, uploadTakeoverMs: takeoverMs });
  const seed = testSeed();
  let committed = 0;
  for (let each = 0; each < sessions; each += 8) {
    const group = Array.from({ length: Math.min(8, sessions - each) }, (_, index) =>
      runUploadModel(world, { seed: seed * 1_000 + each + index, stallMs: takeoverMs, actors: 4, steps: 5 }),
    );
    for (const commits of await Promise.all(group)) committed += commits;
  }
  assert.ok(committed > sessions / 4, `only ${committed} of ${sessions} sessions were committed`);
}

test("random requests on one session never commit foreign bytes, on files", async () => {
  await runSessions({ quotas: [{ pattern: "*", maxBytes: 1e9 }] }, count({ small: 48, full: 480 }));
});

test("random requests on one session never commit foreign bytes, on S3", async () => {
  await using server = await startS3Server();
  await using uploads = await temporaryDirectory();
  const { endpoint, accessKey, secretKey, bucket } = server;
  const prefix = `${randomBytes(6).toString("hex")}/`;
  const storage = {
    kind: "s3",
    endpoint,
    accessKey,
    secretKey,
    bucket,
    region: "us-east-1",
    prefix,
  } as const;
  await runSessions({ storage, uploadDirectory: uploads.path }, count({ small: 24, full: 240 }));
});
