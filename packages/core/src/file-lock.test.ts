import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { killChild, temporaryDirectory } from "@cocoon/testkit";
import { lockFile, tryLockFile } from "./file-lock.ts";
import { tryIdentify } from "./process-identity.ts";

test("one holder at a time, and the next one after release", async (t) => {
  await using directory = await temporaryDirectory();
  const path = join(directory.path, "lock");
  let inside = 0;
  let most = 0;
  const work = async () => {
    await using _lock = await lockFile(path, { signal: t.signal });
    inside += 1;
    most = Math.max(most, inside);
    await new Promise((resolve) => setImmediate(resolve));
    inside -= 1;
  };
  await Promise.all([work(), work(), work()]);
  assert.equal(most, 1);
});

test("a lock whose holder died is taken over", async (t) => {
  await using directory = await temporaryDirectory();
  const path = join(directory.path, "lock");
  const child = spawn("sleep", ["60"]);
  await once(child, "spawn");
  const identity = tryIdentify(child.pid ?? 0);
  await writeFile(path, JSON.stringify(identity));
  const held = await tryLockFile(path);
  assert.ok("holder" in held, "a living holder keeps its lock");
  await killChild(child);
  await using lock = await lockFile(path, { signal: t.signal });
  assert.equal(lock.path, path);
});

test("a lock file that nobody can read does not block for ever", async (t) => {
  await using directory = await temporaryDirectory();
  const path = join(directory.path, "lock");
  await writeFile(path, "not json");
  await using lock = await lockFile(path, { signal: t.signal });
  assert.equal(lock.path, path);
});
