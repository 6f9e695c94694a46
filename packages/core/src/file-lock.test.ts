import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { temporaryDirectory } from "@cocoon/testkit";
import { findLockHolder, lockFile, tryLockFile } from "./file-lock.ts";

const lockModule = join(import.meta.dirname, "file-lock.ts");

test("a lock is held by one at a time, and waiters get it in order", async (t) => {
  await using directory = await temporaryDirectory();
  const path = join(directory.path, "lock");
  const order: number[] = [];
  let inside = 0;
  await Promise.all(
    [1, 2, 3, 4, 5].map(async (number) => {
      using _lock = await lockFile(path, { signal: t.signal });
      inside += 1;
      assert.equal(inside, 1);
      order.push(number);
      await new Promise((resolve) => setImmediate(resolve));
      inside -= 1;
    }),
  );
  assert.deepEqual(order, [1, 2, 3, 4, 5]);
});

test("trying a held lock fails, trying a free one succeeds", async (t) => {
  await using directory = await temporaryDirectory();
  const path = join(directory.path, "lock");
  {
    using _lock = await lockFile(path, { signal: t.signal });
    assert.equal(tryLockFile(path), undefined);
  }
  using second = tryLockFile(path);
  assert.ok(second);
});

test("a waiter that gives up does not disturb those behind it", async (t) => {
  await using directory = await temporaryDirectory();
  const path = join(directory.path, "lock");
  const first = await lockFile(path, { signal: t.signal });
  const impatient = new AbortController();
  const second = lockFile(path, { signal: impatient.signal });
  const third = lockFile(path, { signal: t.signal });
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
  const script = `import { lockFile } from ${JSON.stringify(lockModule)};
    await lockFile(${JSON.stringify(path)}, { signal: new AbortController().signal });
    process.stdout.write("held"); setInterval(() => {}, 1000);`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", script], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  await once(child.stdout, "data");
  assert.equal(tryLockFile(path), undefined);
  child.kill("SIGKILL");
  using _lock = await lockFile(path, { signal: t.signal });
});

test("the process that holds a lock is found, and a file with other content does not block", async (t) => {
  await using directory = await temporaryDirectory();
  const path = join(directory.path, "lock");
  await writeFile(path, '{"pid":1}');
  using _lock = await lockFile(path, { signal: t.signal });
  assert.equal(findLockHolder(path)?.pid, process.pid);
});

test("of many processes that take a lock whose holder was killed, one at a time has it", async () => {
  await using directory = await temporaryDirectory();
  const path = join(directory.path, "lock");
  const inside = join(directory.path, "inside");
  const script = `import { lockFile } from ${JSON.stringify(lockModule)};
    import { rmdirSync, mkdirSync } from "node:fs";
    const signal = new AbortController().signal;
    for (let turn = 0; turn < 20; turn += 1) {
      const lock = await lockFile(${JSON.stringify(path)}, { signal });
      mkdirSync(${JSON.stringify(inside)}); // throws when another process is inside
      await new Promise((resolve) => setImmediate(resolve));
      rmdirSync(${JSON.stringify(inside)});
      if (turn === 10 && process.argv[1] === "killed") process.kill(process.pid, "SIGKILL");
      lock[Symbol.dispose]();
    }`;
  const run = async (name: string): Promise<unknown> => {
    const child = spawn(process.execPath, ["--input-type=module", "-e", script, name], { stdio: "inherit" });
    const [code, signalName] = (await once(child, "exit")) as [number | null, string | null];
    return code ?? signalName;
  };
  assert.deepEqual(await Promise.all(["a", "killed", "b", "c"].map(run)), [0, "SIGKILL", 0, 0]);
});
