import assert from "node:assert/strict";
import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { temporaryDirectory } from "@cocoon/testkit";
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

test("lock files go with their reservations, and those of killed processes when they are removed", async () => {
  await using directory = await temporaryDirectory();
  const before = process.env["TMPDIR"];
  process.env["TMPDIR"] = directory.path;
  try {
    await using held = await reservePort();
    const [name = ""] = readdirSync(directory.path);
    const files = () => readdirSync(join(directory.path, name));
    await using given = await reservePort();
    assert.equal(files().length, 2);
    await given[Symbol.asyncDispose]();
    writeFileSync(join(directory.path, name, "20001"), "");
    await removeStalePortLocks();
    assert.deepEqual(files(), [String(held.port)]);
    assert.equal(await tryReservePort(held.port), undefined, "it is still ours");
  } finally {
    if (before === undefined) delete process.env["TMPDIR"];
    else process.env["TMPDIR"] = before;
  }
});
