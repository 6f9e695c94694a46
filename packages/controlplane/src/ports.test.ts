import assert from "node:assert/strict";
import { test } from "node:test";
import { firstOutgoingPort, reservePort, tryReservePort } from "./ports.ts";

test("reserved ports differ, are nobody else's, and are none that an outgoing connection could take", async () => {
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
