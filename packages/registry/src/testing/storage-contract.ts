/** What every storage must do; run against memory, filesystem and S3. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { access, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Writable } from "node:stream";
import { describe, it } from "node:test";
import { temporaryDirectory } from "@cocoon/testkit";
import { computeDigest, type RepositoryName, type Tag } from "../names.ts";
import { folders, layout, type StorageKey } from "../storage/layout.ts";
import type { OpenObject, Storage } from "../storage/storage.ts";

const name = (text: string) => text as RepositoryName;
const tag = (text: string) => text as Tag;
const signal = new AbortController().signal;

async function collect(object: OpenObject, range?: { start: number; end: number }): Promise<Buffer> {
  const chunks: Buffer[] = [];
  const sink = new Writable({
    write: (chunk: Buffer, _encoding, done) => {
      chunks.push(Buffer.from(chunk)); // the storage may use its buffer again once we say done
      done();
    },
  });
  await object.copyTo(sink, { signal, range });
  return Buffer.concat(chunks);
}

async function listKeys(storage: Storage, prefix: string): Promise<string[]> {
  const keys: string[] = [];
  for await (const { key } of storage.list(prefix)) keys.push(key);
  return keys.sort();
}

export function storageContract(kind: string, open: () => Promise<Storage>): void {
  describe(`storage contract: ${kind}`, () => {
    objects(open);
    files(open);
    listings(open);
  });
}

function objects(open: () => Promise<Storage>): void {
  const key = layout.tag(name("some/repository"), tag("latest"));

  it("knows nothing about what was never put", async () => {
    await using storage = await open();
    assert.equal(await storage.get(key), undefined);
    assert.equal(await storage.stat(key), undefined);
    assert.equal(await storage.open(key), undefined);
    assert.equal(await storage.touch(key), false);
    assert.equal(await storage.delete(key), false);
  });

  it("gives back what was put, replaces it whole, forgets it when deleted", async () => {
    await using storage = await open();
    for (const content of [Buffer.from("first, and longer"), Buffer.from("second"), Buffer.alloc(0)]) {
      await storage.put(key, content);
      assert.deepEqual(await storage.get(key), content);
      assert.equal((await storage.stat(key))?.sizeBytes, content.length);
    }
    assert.equal(await storage.delete(key), true);
    assert.equal(await storage.get(key), undefined);
    assert.deepEqual(await listKeys(storage, "tags/"), []);
  });

  it("reads any range of an object", async () => {
    await using storage = await open();
    const content = randomBytes(1_500_000);
    await storage.put(key, content);
    await using object = await storage.open(key);
    assert.ok(object);
    assert.equal(object.sizeBytes, content.length);
    assert.deepEqual(await collect(object), content);
    assert.deepEqual(
      await collect(object, { start: 700_000, end: 1_400_001 }),
      content.subarray(700_000, 1_400_002),
    );
    assert.deepEqual(await collect(object, { start: 5, end: 5 }), content.subarray(5, 6));
    assert.deepEqual(await object.readAll(), content);
  });

  it("stops a copy when its signal aborts", async () => {
    await using storage = await open();
    await storage.put(key, randomBytes(2_000_000));
    await using object = await storage.open(key);
    const controller = new AbortController();
    const sink = new Writable({
      write: (_chunk, _encoding, done) => {
        controller.abort(new Error("enough"));
        setImmediate(done);
      },
    });
    const copy = async () => {
      for (;;) await object?.copyTo(sink, { signal: controller.signal });
    };
    await assert.rejects(copy(), /enough|abort/i);
  });

  it("stops copying when its reader is gone, also when a write to it never ends", async () => {
    await using storage = await open();
    const content = randomBytes(3_000_000);
    const blob = layout.blob(computeDigest(content));
    await storage.put(blob, content);
    await using object = await storage.open(blob);
    const controller = new AbortController();
    const sink = new Writable({ write: () => void setImmediate(() => controller.abort(new Error("gone"))) });
    assert.ok(object);
    await assert.rejects(object.copyTo(sink, { signal: controller.signal }), /gone|abort/i);
  });

  it("accepts every writer of one object at the same time", async () => {
    await using storage = await open();
    const content = randomBytes(100_000);
    const blob = layout.blob(computeDigest(content));
    await Promise.all(Array.from({ length: 8 }, () => storage.put(blob, content)));
    assert.deepEqual(await storage.get(blob), content);
  });

  it("moves the time of an object forward when touched, by its own clock", async () => {
    await using storage = await open();
    await storage.put(key, Buffer.from("x"));
    const before = await storage.stat(key);
    assert.ok(before);
    const now = await storage.now();
    assert.ok(now >= before.modifiedAtMs, `${now} after ${before.modifiedAtMs}`);
    assert.equal(await storage.touch(key), true);
    const after = await storage.stat(key);
    assert.ok(after && after.modifiedAtMs >= before.modifiedAtMs);
    assert.deepEqual(await storage.get(key), Buffer.from("x"));
  });

  it("checks itself without leaving anything behind", async () => {
    await using storage = await open();
    await storage.check();
    assert.deepEqual(await listKeys(storage, "server/"), []);
  });
}

function files(open: () => Promise<Storage>): void {
  const content = randomBytes(300_000);
  const key = layout.blob(computeDigest(content));

  it("takes over a local file", async () => {
    await using storage = await open();
    await using directory = await temporaryDirectory();
    const path = join(storage.localUploadDirectory ?? directory.path, "upload");
    await writeFile(path, content);
    await storage.putFile(key, { path, sizeBytes: content.length });
    assert.deepEqual(await storage.get(key), content);
    await assert.rejects(access(path), { code: "ENOENT" });
  });

  it("refuses a local file that is not as long as announced, and leaves it alone", async () => {
    await using storage = await open();
    await using directory = await temporaryDirectory();
    const path = join(storage.localUploadDirectory ?? directory.path, "upload");
    await writeFile(path, content);
    await assert.rejects(storage.putFile(key, { path, sizeBytes: content.length + 1 }));
    await access(path);
    assert.equal(await storage.stat(key), undefined);
  });
}

function listings(open: () => Promise<Storage>): void {
  it("lists what lies below a prefix, and the names directly below it", async () => {
    await using storage = await open();
    const keys: StorageKey[] = [
      layout.tag(name("a"), tag("one")),
      layout.tag(name("a"), tag("two")),
      layout.tag(name("a/b"), tag("one")),
      layout.tag(name("a-b"), tag("_x.y")),
    ];
    for (const key of keys) await storage.put(key, Buffer.from("{}"));
    await storage.put(layout.token(1), Buffer.from("{}"));
    assert.deepEqual(await listKeys(storage, folders.allTags), [...keys].sort());
    assert.deepEqual(await listKeys(storage, folders.tags(name("a"))), ["tags/a/one", "tags/a/two"]);
    assert.deepEqual(await listKeys(storage, folders.tags(name("none"))), []);
    assert.deepEqual((await Array.fromAsync(storage.listNames("tags/"))).sort(), ["a", "a+b", "a-b"]);
    assert.deepEqual((await Array.fromAsync(storage.listNames("tags/a/"))).sort(), ["one", "two"]);
    const page = (after: string, limit: number) => storage.listPage("tags/a/", { after, limit });
    assert.deepEqual(await page("", 1), ["one"]);
    assert.deepEqual(await page("one", 5), ["two"]);
    assert.deepEqual(await page("p", 5), ["two"]);
    assert.deepEqual(await page("two", 5), []);
    assert.equal((await listKeys(storage, "")).length, 5);
  });

  it("changes an object only from the version that was read, and for one of several writers", async () => {
    await using storage = await open();
    const key = layout.token(1);
    const put = (text: string, version: string | undefined) => storage.putIf(key, Buffer.from(text), version);
    const created = await Promise.all(["a", "b", "c"].map((text) => put(text, undefined)));
    const [first, ...others] = created.filter((version) => version !== undefined);
    assert.ok(first !== undefined && others.length === 0, "one writer creates it");
    assert.equal((await storage.getVersioned(key))?.version, first);
    const second = await put("second", first);
    assert.ok(second !== undefined && second !== first);
    assert.equal(await put("late", first), undefined);
    assert.equal((await storage.get(key))?.toString(), "second");
    await storage.delete(key);
    assert.equal(await put("again", second), undefined);
    assert.equal(await storage.getVersioned(key), undefined);
  });
}
