import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { appendFile, readFile } from "node:fs/promises";
import { join } from "node:path";
import { PassThrough, Readable } from "node:stream";
import { describe, it } from "node:test";
import { setTimeout } from "node:timers/promises";
import { eventually, temporaryDirectory } from "@cocoon/testkit";
import { computeDigest, type Digest, type RepositoryName } from "../names.ts";
import type { UploadSession } from "./upload-session.ts";
import { openUploadSpool, type SpoolOptions } from "./upload-spool.ts";

const owner = { name: "team/app" as RepositoryName, caller: "token:1" };
const minuteMs = 60_000;

async function openSpool(options: Partial<SpoolOptions> = {}) {
  const directory = await temporaryDirectory();
  const path = join(directory.path, "up");
  const uploads = await openUploadSpool({
    directory: path,
    secret: randomBytes(32),
    idleMs: 10 * minuteMs,
    ...options,
  });
  return {
    uploads,
    path,
    [Symbol.asyncDispose]: async () => {
      await uploads[Symbol.asyncDispose]();
      await directory[Symbol.asyncDispose]();
    },
  };
}

function append(session: UploadSession, body: Readable | string, options = {}): Promise<void> {
  const stream = typeof body === "string" ? Readable.from([Buffer.from(body)]) : body;
  return session.own(stream, (one) => one.append({ maxBytes: 1e9, ...options }));
}

/** Commits and returns the content that was stored. */
async function commit(session: UploadSession, digest: Digest): Promise<Buffer> {
  let stored: Buffer | undefined;
  await session.own(Readable.from([]), (one) =>
    one.commit(digest, async ({ path }) => {
      stored = await readFile(path);
    }),
  );
  assert.ok(stored);
  return stored;
}

/** A body that has sent some bytes and then stalls. */
function stalledBody(text: string): PassThrough {
  const body = new PassThrough();
  body.write(text);
  return body;
}

describe("upload session", () => {
  it("replaces a writer that has been silent for long, and no other", async () => {
    let now = 1_000_000;
    await using world = await openSpool({ now: () => now });
    const session = await world.uploads.begin(owner);
    const silent = stalledBody("first ");
    const stalled = assert.rejects(append(session, silent), /closed the connection/);
    await eventually(() => assert.equal(silent.readableLength, 0));
    await assert.rejects(append(session, "x"), { code: "conflict" });
    now += 31_000;
    await append(session, "second");
    await stalled;
    assert.equal(session.sizeBytes, "first second".length);
    assert.equal(
      (await commit(session, computeDigest(Buffer.from("first second")))).toString(),
      "first second",
    );
  });

  it("gives a stalled session to one request only", async () => {
    let now = 1_000_000;
    await using world = await openSpool({ now: () => now });
    const session = await world.uploads.begin(owner);
    const silent = stalledBody("first ");
    const stalled = assert.rejects(append(session, silent));
    await eventually(() => assert.equal(silent.readableLength, 0));
    now += 31_000;
    const results = await Promise.allSettled([append(session, "second"), append(session, "other!")]);
    await stalled;
    assert.deepEqual(results.map(({ status }) => status).sort(), ["fulfilled", "rejected"]);
    assert.equal(session.sizeBytes, "first second".length);
  });

  it("takes no data once a commit began", async () => {
    await using world = await openSpool();
    const session = await world.uploads.begin(owner);
    await append(session, "content");
    const storing = Promise.withResolvers<void>();
    const stored = Promise.withResolvers<void>();
    const committed = session.own(Readable.from([]), (one) =>
      one.commit(computeDigest(Buffer.from("content")), async () => {
        storing.resolve();
        await stored.promise;
      }),
    );
    await storing.promise;
    assert.equal(session.state, "committing");
    await assert.rejects(append(session, "foreign"), { code: "conflict" });
    await assert.rejects(session.abort(), { code: "conflict" });
    stored.resolve();
    await committed;
    assert.equal(session.state, "committed");
    await assert.rejects(append(session, "foreign"), { code: "notFound" });
    await assert.rejects(session.abort(), { code: "notFound" });
  });

  it("does not commit for a request that lost the session to a cancellation", async () => {
    await using world = await openSpool();
    const session = await world.uploads.begin(owner);
    const body = stalledBody("abc");
    const writing = session.own(body, async (one) => {
      await one.append({ maxBytes: 1e9 }).catch(() => undefined);
      await one.commit(computeDigest(Buffer.from("abc")), () => assert.fail("the session was cancelled"));
    });
    await eventually(() => assert.equal(body.readableLength, 0));
    const cancelled = session.abort();
    await assert.rejects(writing, { code: "notFound" });
    await cancelled;
  });

  it("removes a chunk whose length is not what its range said", async () => {
    await using world = await openSpool();
    const session = await world.uploads.begin(owner);
    await append(session, "kept");
    for (const body of ["short", "much too long"])
      await assert.rejects(append(session, body, { exactBytes: 8 }), { code: "badRequest" });
    assert.equal(session.sizeBytes, 4);
    await append(session, "12345678", { exactBytes: 8 });
    assert.equal((await commit(session, computeDigest(Buffer.from("kept12345678")))).length, 12);
  });

  it("hashes again after a failed write", async () => {
    await using world = await openSpool();
    const session = await world.uploads.begin(owner);
    await append(session, "kept");
    const tooLong = append(session, Readable.from([Buffer.alloc(100)]), { maxBytes: 10 });
    await assert.rejects(tooLong, { code: "tooLarge" });
    await append(session, "!");
    await commit(session, computeDigest(Buffer.from("kept!")));
  });

  it("refuses to commit a file that is not what was hashed", async () => {
    await using world = await openSpool();
    const session = await world.uploads.begin(owner);
    await append(session, "content");
    await appendFile(join(world.path, session.id.stem), "foreign");
    await assert.rejects(commit(session, computeDigest(Buffer.from("content"))), /14 bytes instead of 7/);
    assert.equal(session.state, "aborted");
  });

  it("continues, and reads the file again, when its thread has ended", async () => {
    await using world = await openSpool({ threads: { idleMs: 0 } });
    const session = await world.uploads.begin(owner);
    for (const text of ["one ", "two ", "three"]) {
      await append(session, text);
      await setTimeout(20); // longer than an idle thread is kept here
    }
    assert.equal((await commit(session, computeDigest(Buffer.from("one two three")))).length, 13);
  });

  it("evicts the caller's oldest idle upload at its limit, and never one that is used", async () => {
    let now = 1_000_000;
    await using world = await openSpool({ now: () => now, maxSessionsPerCaller: 2 });
    const first = await world.uploads.begin(owner);
    now += 1_000;
    const second = await world.uploads.begin(owner);
    await assert.rejects(world.uploads.begin(owner), { code: "tooManyRequests" });
    const other = await world.uploads.begin({ ...owner, caller: "token:2" });
    now += 2 * minuteMs;
    await append(second, "used");
    await world.uploads.begin(owner);
    assert.deepEqual([first.state, second.state, other.state], ["aborted", "open", "open"]);
    await assert.rejects(world.uploads.find(owner, first.id.text), { code: "notFound" });
  });

  it("expires idle uploads with their files, and leaves those that are written to", async () => {
    let now = Date.now();
    await using world = await openSpool({ now: () => now });
    const idle = await world.uploads.begin(owner);
    await append(idle, "left behind");
    now += 11 * minuteMs;
    const used = await world.uploads.begin(owner);
    assert.equal(await world.uploads.expire(), 1);
    assert.deepEqual([idle.state, used.state], ["aborted", "open"]);
    await assert.rejects(readFile(join(world.path, idle.id.stem)), { code: "ENOENT" });
  });
});
