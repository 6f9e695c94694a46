import assert from "node:assert/strict";
import { existsSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { userInfo } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { runCommand, temporaryDirectory } from "@cocoon/testkit";
import { firstOutgoingPort, removeStalePortLocks, reservePort, tryReservePort } from "./ports.ts";

test("reserved ports differ, are not in use, and are none that an outgoing connection could take", async () => {
  await using stack = new AsyncDisposableStack();
  const reserved = await Promise.all(Array.from({ length: 20 }, () => reservePort()));
  for (const each of reserved) stack.use(each);
  const ports = reserved.map(({ port }) => port);
  assert.equal(new Set(ports).size, ports.length);
  assert.ok(Math.max(...ports) < (await firstOutgoingPort()), ports.join(" "));
  assert.equal(await tryReservePort(ports[0] ?? 0), undefined);
});

test("a port is free again once it is given back", async () => {
  const { port, ...reserved } = await reservePort();
  await reserved[Symbol.asyncDispose]();
  await using again = await tryReservePort(port);
  assert.equal(again?.port, port);
});

test("a port that another program listens on is not reserved, and its lock file goes", async () => {
  const { port, ...reserved } = await reservePort();
  await using program = await listenOn(port);
  await reserved[Symbol.asyncDispose]();
  assert.equal(await tryReservePort(port), undefined);
  assert.equal(existsSync(lockPath(port)), false);
  await program[Symbol.asyncDispose]();
  await using again = await tryReservePort(port);
  assert.equal(again?.port, port);
});

test("a process with another TMPDIR sees the reservations of this one", async () => {
  await using directory = await temporaryDirectory();
  await using held = await reservePort();
  const module = JSON.stringify(join(import.meta.dirname, "ports.ts"));
  const script = `import { tryReservePort } from ${module};
    console.log((await tryReservePort(${held.port}))?.port ?? "reserved");`;
  const ran = await runCommand(process.execPath, ["--input-type=module", "-e", script], {
    env: { TMPDIR: directory.path },
  });
  assert.equal(ran.stdout.trim(), "reserved", ran.stderr);
});

test("lock files go with their reservations, and those of killed processes when they are removed", async () => {
  await using held = await reservePort();
  const given = await reservePort();
  assert.deepEqual([held.port, given.port].map(lockPath).map(existsSync), [true, true]);
  await given[Symbol.asyncDispose]();
  writeFileSync(lockPath(given.port), "");
  await removeStalePortLocks();
  assert.deepEqual([held.port, given.port].map(lockPath).map(existsSync), [true, false]);
  assert.equal(await tryReservePort(held.port), undefined, "it is still ours");
});

function lockPath(port: number): string {
  return `/tmp/cocoon-ports-${userInfo().uid}/${port}`;
}

async function listenOn(port: number): Promise<AsyncDisposable> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  return { [Symbol.asyncDispose]: () => new Promise((resolve) => server.close(() => resolve())) };
}
