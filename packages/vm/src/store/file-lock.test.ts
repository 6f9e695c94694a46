import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { test } from "node:test";
import { temporaryDirectory } from "@cocoon/testkit";
import { acquireLock, tryAcquireLock } from "./file-lock.ts";

const lockModule = join(import.meta.dirname, "file-lock.ts");

test("a lock is held by one at a time, and waiters get it in order", async (t) => {
  await using directory = await temporaryDirectory();
  const path = join(directory.path, "lock");
  const order: number[] = [];
  let inside = 0;
  await Promise.all(
    [1, 2, 3, 4, 5].map(async (number) => {
      using _lock = await acquireLock(path, { signal: t.signal });
      inside += 1;
      assert.equal(inside, 1);
      order.push(number);
      await new Promise((resolve) => setImmediate(resolve));
      inside -= 1;
    }),
  );
  assert.deepEqual(order, [1, 2, 3, 4, 5]);
});

test("trying a held lock says no, trying a free one says yes", async (t) => {
  await using directory = await temporaryDirectory();
  const path = join(directory.path, "lock");
  {
    using _lock = await acquireLock(path, { signal: t.signal });
    assert.equal(tryAcquireLock(path), undefined);
  }
  using second = tryAcquireLock(path);
  assert.ok(second);
});

test("a waiter that gives up does not disturb those behind it", async (t) => {
  await using directory = await temporaryDirectory();
  const path = join(directory.path, "lock");
  const first = await acquireLock(path, { signal: t.signal });
  const impatient = new AbortController();
  const second = acquireLock(path, { signal: impatient.signal });
  const third = acquireLock(path, { signal: t.signal });
  impatient.abort(new Error("too slow"));
  await assert.rejects(second, /too slow/);
  let got = false;
  const waited = third.then((lock) => {
    got = true;
    return lock;
  });
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(got, false);
  first[Symbol.dispose]();
  (await waited)[Symbol.dispose]();
});

test("another process keeps us out, and its death by SIGKILL lets us in", async (t) => {
  await using directory = await temporaryDirectory();
  const path = join(directory.path, "lock");
  const script = `import { acquireLock } from ${JSON.stringify(lockModule)};
    await acquireLock(${JSON.stringify(path)}, { signal: new AbortController().signal });
    process.stdout.write("held"); setInterval(() => {}, 1000);`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", script], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  await once(child.stdout, "data");
  assert.equal(tryAcquireLock(path), undefined);
  child.kill("SIGKILL");
  using _lock = await acquireLock(path, { signal: t.signal });
});
