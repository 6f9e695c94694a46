import assert from "node:assert/strict";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { temporaryDirectory } from "@cocoon/testkit";
import {
  firstOutgoingPort,
  portLockDirectory,
  removeStalePortLocks,
  reservePort,
  tryReservePort,
} from "./ports.ts";

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

test("a reservation holds for processes with another TMPDIR too", async () => {
  await using directory = await temporaryDirectory();
  await using held = await reservePort();
  const before = process.env["TMPDIR"];
  process.env["TMPDIR"] = directory.path;
  try {
    assert.equal(await tryReservePort(held.port), undefined);
  } finally {
    if (before === undefined) delete process.env["TMPDIR"];
    else process.env["TMPDIR"] = before;
  }
});

test("lock files go with their reservations, and those of killed processes when they are removed", async () => {
  await using held = await reservePort();
  const lockFile = (port: number) => join(portLockDirectory(), String(port));
  await using given = await reservePort();
  assert.ok(existsSync(lockFile(given.port)));
  await given[Symbol.asyncDispose]();
  assert.ok(!existsSync(lockFile(given.port)));
  writeFileSync(lockFile(19_999), "");
  await removeStalePortLocks();
  assert.ok(!existsSync(lockFile(19_999)));
  assert.ok(existsSync(lockFile(held.port)));
  assert.equal(await tryReservePort(held.port), undefined, "it is still ours");
});
