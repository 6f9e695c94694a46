import assert from "node:assert/strict";
import { hash, randomBytes } from "node:crypto";
import { open, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { isFault } from "@cocoon/core";
import { eventually, temporaryDirectory } from "@cocoon/testkit";
import { chunkId } from "./codec.ts";
import { WorkerPool } from "./worker-pool.ts";

const kib64 = 65_536;

describe("worker threads", () => {
  it("name chunks, find zeros, encode and write back what they read", async ({ signal }) => {
    await using directory = await temporaryDirectory();
    await using pool = new WorkerPool({ threads: 2 });
    const content = Buffer.concat([randomBytes(kib64), Buffer.alloc(kib64), Buffer.alloc(1000, "text ")]);
    const path = join(directory.path, "source");
    await writeFile(path, content);
    await using source = await open(path, "r");
    await using target = await open(join(directory.path, "target"), "w+");
    const task = {
      kind: "hash",
      fd: source.fd,
      offset: 0,
      length: content.length,
      chunkBytes: kib64,
    } as const;
    const { digests } = await pool.run(task, { signal });
    const expected = [content.subarray(0, kib64), undefined, content.subarray(2 * kib64)].map((each) =>
      each ? hash("sha256", each, "buffer") : Buffer.alloc(32),
    );
    assert.deepEqual(Buffer.from(digests), Buffer.concat(expected));

    const chunk = content.subarray(0, kib64);
    const item = { fd: source.fd, offset: 0, id: chunkId(chunk), rawLength: kib64 };
    const packed = await pool.run({ kind: "encode", level: 1, items: [item] }, { signal });
    const pack = join(directory.path, "pack");
    await writeFile(pack, packed.bytes);
    const [encoded] = packed.chunks;
    assert.ok(encoded);
    const locator = { id: item.id, path: pack, offset: 0, rawLength: kib64, ...encoded };
    const targets = [0, 3 * kib64].map((offset) => ({ fd: target.fd, offset }));
    const done = await pool.run({ kind: "decode", items: [{ candidates: [locator], targets }] }, { signal });
    assert.deepEqual(done.found, [0]);
    const written = await target.readFile();
    assert.ok(written.subarray(0, kib64).equals(chunk) && written.subarray(3 * kib64).equals(chunk));
  });

  it("write nothing of a candidate that does not match, and take the next one", async ({ signal }) => {
    await using directory = await temporaryDirectory();
    await using pool = new WorkerPool({ threads: 1 });
    const chunk = randomBytes(5000);
    const wrong = Buffer.from(chunk);
    wrong[4999] = (wrong[4999] ?? 0) ^ 1;
    const [right, damaged] = [join(directory.path, "right"), join(directory.path, "damaged")];
    await writeFile(right, chunk);
    await writeFile(damaged, wrong);
    await using guess = await open(damaged, "r");
    await using target = await open(join(directory.path, "target"), "w+");
    const id = chunkId(chunk);
    const at = (path: string) =>
      ({ id, path, offset: 0, length: 5000, rawLength: 5000, encoding: "raw" }) as const;
    const raw = { fd: guess.fd, offset: 0, id, rawLength: 5000 };
    const run = async (candidates: readonly (ReturnType<typeof at> | typeof raw)[]) => {
      const items = [{ candidates, targets: [{ fd: target.fd, offset: 0 }] }];
      const result = await pool.run({ kind: "decode", items }, { signal });
      return [result.found, (await target.stat()).size, result.problems.length];
    };
    assert.deepEqual(await run([raw, at(damaged), at("/nonexistent")]), [[-1], 0, 2]);
    assert.deepEqual(await run([raw, at(damaged), at(right)]), [[2], 5000, 1]);
  });

  it("refuse to encode a source that changed since it was named", async ({ signal }) => {
    await using directory = await temporaryDirectory();
    await using pool = new WorkerPool({ threads: 1 });
    const path = join(directory.path, "source");
    await writeFile(path, randomBytes(100));
    await using source = await open(path, "r");
    const items = [{ fd: source.fd, offset: 0, id: chunkId(Buffer.alloc(100)), rawLength: 100 }];
    await assert.rejects(
      pool.run({ kind: "encode", level: 1, items }, { signal }),
      (error) => isFault(error, "invalid") && /changed/.test(error.message),
    );
    const longer = { kind: "hash", fd: source.fd, offset: 0, length: 200, chunkBytes: 4096 } as const;
    await assert.rejects(pool.run(longer, { signal }), (error) => isFault(error, "invalid"));
  });

  it("use all threads, in any order of answers", async ({ signal }) => {
    await using directory = await temporaryDirectory();
    await using pool = new WorkerPool({ threads: 3 });
    const path = join(directory.path, "source");
    const content = randomBytes(64 * 4096);
    await writeFile(path, content);
    await using source = await open(path, "r");
    const results = await Promise.all(
      Array.from({ length: 64 }, (_, index) =>
        pool.run({ kind: "frame", fd: source.fd, offset: index * 4096, length: 4096, level: 0 }, { signal }),
      ),
    );
    for (const [index, { bytes, digest }] of results.entries()) {
      const expected = content.subarray(index * 4096, index * 4096 + 4096);
      assert.ok(Buffer.from(bytes).equals(expected));
      assert.equal(digest, `sha256:${hash("sha256", expected)}`);
    }
  });

  it("stop waiting on abort, and fail what is left when they are stopped", async ({ signal }) => {
    await using directory = await temporaryDirectory();
    const pool = new WorkerPool({ threads: 1 });
    const path = join(directory.path, "source");
    await writeFile(path, Buffer.alloc(16 << 20, "x"));
    await using source = await open(path, "r");
    const task = { kind: "frame", fd: source.fd, offset: 0, length: 16 << 20, level: 19 } as const;
    const stop = new AbortController();
    const given = pool.run(task, { signal: stop.signal });
    const waiting = Array.from({ length: 4 }, () => pool.run(task, { signal }));
    stop.abort(new Error("enough"));
    await assert.rejects(given, /enough/);
    const outcomes = Promise.allSettled(waiting);
    await pool[Symbol.asyncDispose]();
    assert.deepEqual(new Set((await outcomes).map((each) => each.status)), new Set(["rejected"]));
    await assert.rejects(pool.run(task, { signal }), (error) => isFault(error, "unavailable"));
  });

  it("end when there is nothing to do, and come back", async ({ signal }) => {
    await using directory = await temporaryDirectory();
    const path = join(directory.path, "source");
    await writeFile(path, randomBytes(1000));
    await using source = await open(path, "r");
    await using pool = new WorkerPool({ threads: 2, idleMs: 20 });
    for (let round = 0; round < 3; round += 1) {
      const task = { kind: "hash", fd: source.fd, offset: 0, length: 1000, chunkBytes: kib64 } as const;
      await Promise.all([pool.run(task, { signal }), pool.run(task, { signal })]);
      assert.equal(pool.alive, 2);
      await eventually(() => assert.equal(pool.alive, 0));
    }
  });
});
