import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { PassThrough, Readable } from "node:stream";
import { describe, it } from "node:test";
import { setTimeout } from "node:timers/promises";
import { eventually, temporaryDirectory } from "@cocoon/testkit";
import { digestOf, type RepositoryName } from "../names.ts";
import { openUploadSpool } from "./upload-spool.ts";

const name = "team/app" as RepositoryName;
const options = { maxBytes: 1e9, assertFollows: () => undefined };

async function spool(now: () => number = Date.now, threads = {}) {
  const directory = await temporaryDirectory();
  const uploads = await openUploadSpool({
    directory: join(directory.path, "up"),
    secret: randomBytes(32),
    idleMs: 10_000,
    now,
    threads,
  });
  return {
    uploads,
    [Symbol.asyncDispose]: async () => {
      await uploads[Symbol.asyncDispose]();
      await directory[Symbol.asyncDispose]();
    },
  };
}

describe("upload session", () => {
  it("takes over from a writer that has been silent for long, and from no other", async () => {
    let now = 1_000_000;
    await using world = await spool(() => now);
    const session = world.uploads.begin(name);
    const silent = new PassThrough();
    silent.write("first ");
    const stalled = assert.rejects(session.append(silent, options), /went away/);
    await eventually(() => assert.equal(silent.readableLength, 0));
    await assert.rejects(session.append(Readable.from([Buffer.from("x")]), options), { code: "conflict" });
    now += 31_000;
    await session.append(Readable.from([Buffer.from("second")]), options);
    await stalled;
    assert.equal(session.sizeBytes, "first second".length);
    await session.finish(digestOf(Buffer.from("first second")));
  });

  it("asks again where the body belongs when it took over", async () => {
    let now = 1_000_000;
    await using world = await spool(() => now);
    const session = world.uploads.begin(name);
    const silent = new PassThrough();
    silent.write("abc");
    const stalled = assert.rejects(session.append(silent, options));
    await eventually(() => assert.equal(silent.readableLength, 0));
    now += 31_000;
    const assertFollows = () => assert.equal(session.sizeBytes, 0, "three bytes came meanwhile");
    await assert.rejects(
      session.append(Readable.from([Buffer.from("abc")]), { ...options, assertFollows }),
      /three bytes/,
    );
    await stalled;
  });

  it("hashes again what a failed write left in doubt", async () => {
    await using world = await spool();
    const session = world.uploads.begin(name);
    await session.append(Readable.from([Buffer.from("kept")]), options);
    await assert.rejects(session.append(Readable.from([Buffer.alloc(100)]), { ...options, maxBytes: 10 }), {
      code: "tooLarge",
    });
    await session.append(Readable.from([Buffer.from("!")]), options);
    await session.finish(digestOf(Buffer.from("kept!")));
  });

  it("goes on, and reads again what was there, when its thread has ended meanwhile", async () => {
    await using world = await spool(Date.now, { idleMs: 0 });
    const session = world.uploads.begin(name);
    for (const part of ["one ", "two ", "three"]) {
      await session.append(Readable.from([Buffer.from(part)]), options);
      await setTimeout(5); // longer than a thread stays without work
    }
    const file = await session.finish(digestOf(Buffer.from("one two three")));
    assert.equal(await readFile(file.path, "utf8"), "one two three");
  });

  it("is not taken apart while somebody writes to it: cancelling ends the writer first", async () => {
    await using world = await spool();
    const session = world.uploads.begin(name);
    const body = new PassThrough();
    body.write(Buffer.alloc(3 * 1024 * 1024));
    const writing = assert.rejects(session.append(body, options), /went away/);
    await eventually(() => assert.equal(body.readableLength, 0));
    await world.uploads.cancel(session);
    assert.equal(session.busy, false);
    await writing;
  });

  it("gives the sender no more credit than the disk can take", async () => {
    await using world = await spool();
    const session = world.uploads.begin(name);
    let sent = 0;
    const body = Readable.from(
      (function* () {
        for (; sent < 400; sent += 1) yield randomBytes(64 * 1024);
      })(),
      { highWaterMark: 1 },
    );
    await session.append(body, options);
    assert.equal(session.sizeBytes, 400 * 64 * 1024);
  });

  it("expires when nobody goes on with it", async () => {
    let now = 1_000_000;
    await using world = await spool(() => now);
    const session = world.uploads.begin(name);
    now += 9_000;
    assert.equal(await world.uploads.expire(), 0);
    now += 2_000;
    assert.equal(await world.uploads.expire(), 1);
    await assert.rejects(world.uploads.find(name, session.id.text), { code: "notFound" });
  });
});
