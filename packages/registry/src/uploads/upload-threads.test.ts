import assert from "node:assert/strict";
import { once } from "node:events";
import { constants } from "node:fs";
import { open, readFile, type FileHandle } from "node:fs/promises";
import { join } from "node:path";
import { PassThrough, Readable } from "node:stream";
import { test } from "node:test";
import { setTimeout } from "node:timers/promises";
import { eventually, seededRandom, temporaryDirectory, testSeed } from "@cocoon/testkit";
import { computeDigest } from "../names.ts";
import { appendBody } from "./append.ts";
import { BodyMemory } from "../http/body-memory.ts";
import { UploadThreads } from "./upload-threads.ts";

const memory = new BodyMemory();

async function world(options?: ConstructorParameters<typeof UploadThreads>[0]) {
  const directory = await temporaryDirectory();
  const path = join(directory.path, "upload");
  const file = await open(path, constants.O_RDWR | constants.O_CREAT);
  const threads = new UploadThreads(options);
  return {
    path,
    file,
    threads,
    [Symbol.asyncDispose]: async () => {
      await threads[Symbol.asyncDispose]();
      await file.close();
      await directory[Symbol.asyncDispose]();
    },
  };
}

test("bodies in pieces of any size are in the file as they came, and hashed", async () => {
  const random = seededRandom(testSeed());
  await using one = await world();
  for (let round = 0; round < 30; round += 1) {
    const algorithm = random() < 0.5 ? "sha256" : "sha512";
    const writer = one.threads.open(algorithm);
    const pieces = Array.from({ length: Math.floor(random() * 40) + 1 }, () =>
      // Small ones share their memory with others, large ones have their own.
      Buffer.from(String(random()).repeat(Math.floor(random() * 5_000))),
    );
    const whole = Buffer.concat(pieces);
    await one.file.truncate(0);
    const { writtenBytes, failure } = await appendBody(Readable.from(pieces), {
      writer,
      file: one.file,
      position: 0,
      maxBytes: whole.length,
      memory,
    });
    assert.deepEqual([writtenBytes, failure], [whole.length, undefined]);
    assert.ok((await readFile(one.path)).equals(whole));
    // An empty body never reaches the thread.
    if (whole.length > 0)
      assert.deepEqual(await writer.digest(), {
        digest: computeDigest(whole, algorithm),
        sizeBytes: whole.length,
      });
  }
});

test("what follows a piece that could not be written is not written either", async () => {
  await using one = await world();
  await using readOnly = await open(one.path, "r");
  const writer = one.threads.open("sha256");
  const write = (file: FileHandle, position: number) =>
    writer.write(file.fd, { position, pieces: [Buffer.alloc(100_000, 1)] });
  const answers = await Promise.all([write(one.file, 0), write(readOnly, 100_000), write(one.file, 200_000)]);
  assert.deepEqual(
    answers.map(({ writtenBytes, failure }) => [
      writtenBytes,
      (failure as { code?: string } | undefined)?.code,
    ]),
    [
      [100_000, undefined],
      [0, "EBADF"],
      [0, "EBADF"],
    ],
  );
  assert.equal((await one.file.stat()).size, 100_000);
});

test("a disk that loses what it took on the way fails the upload", async () => {
  await using one = await world();
  const lost = Object.assign(new Error("input/output error"), { code: "EIO" });
  const file = { fd: one.file.fd, datasync: () => Promise.reject(lost) } as unknown as FileHandle;
  const bytes = 20 * 1024 * 1024;
  const body = Readable.from(Array.from({ length: 20 }, () => Buffer.alloc(bytes / 20)));
  const target = { writer: one.threads.open("sha256"), file, position: 0, maxBytes: bytes, memory };
  const { failure } = await appendBody(body, target);
  assert.equal(failure, lost);
});

test("a disk that failed counts more than a client that went away before", async () => {
  await using one = await world();
  const full = Object.assign(new Error("no space left"), { code: "ENOSPC" });
  const isAsked = Promise.withResolvers<void>();
  const isGone = Promise.withResolvers<void>();
  const writer = {
    ...one.threads.open("sha256"),
    write: async () => {
      isAsked.resolve();
      await isGone.promise;
      return { writtenBytes: 10, failure: full };
    },
  };
  const body = new PassThrough();
  body.write(Buffer.alloc(1024 * 1024));
  const appended = appendBody(body, { writer, file: one.file, position: 0, maxBytes: 1e9, memory });
  await isAsked.promise;
  body.destroy();
  await once(body, "close");
  isGone.resolve();
  // Else the session would go on with a digest of more than is in its file.
  assert.deepEqual(await appended, { writtenBytes: 10, failure: full });
});

test("idle threads end with their digests and start again on demand", async () => {
  await using one = await world({ threads: 2, idleMs: 20 });
  const writers = [one.threads.open("sha256"), one.threads.open("sha256"), one.threads.open("sha256")];
  {
    using _held = writers[0]?.hold();
    for (const writer of writers)
      await writer.write(one.file.fd, { position: 0, pieces: [Buffer.from("abc")] });
    await setTimeout(100); // longer than a thread without work stays
    assert.equal(one.threads.alive, 2, "two threads for three uploads, as long as one is held");
  }
  await eventually(() => assert.equal(one.threads.alive, 0));
  assert.deepEqual(
    writers.map(({ isLost }) => isLost),
    [true, true, true],
  );
  assert.equal(await writers[0]?.digest(), undefined);
  const writer = one.threads.open("sha256");
  using _again = writer.hold();
  await writer.write(one.file.fd, { position: 0, pieces: [Buffer.from("abc")] });
  assert.equal((await writer.digest())?.digest, computeDigest(Buffer.from("abc")));
});
