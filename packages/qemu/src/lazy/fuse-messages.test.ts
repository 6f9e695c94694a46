import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import {
  canResend,
  formatAttr,
  formatEntry,
  formatHeader,
  formatInit,
  formatStore,
  parseInit,
  parseName,
  parseRead,
  tryParseRequest,
} from "./fuse-messages.ts";

const bytes = fc.uint8Array({ maxLength: 200 }).map((each) => Buffer.from(each));

function request(opcode: number, body: Buffer): Buffer {
  const header = Buffer.alloc(40);
  header.writeUInt32LE(40 + body.length, 0);
  header.writeUInt32LE(opcode, 4);
  header.writeBigUInt64LE(7n, 8);
  header.writeBigUInt64LE(2n, 16);
  return Buffer.concat([header, body]);
}

test("any bytes are a request or none, and parsing a body never throws", () => {
  fc.assert(
    fc.property(bytes, (message) => {
      tryParseRequest(message);
      parseInit(message);
      parseName(message);
      parseRead(message);
    }),
  );
});

test("a request is read as it was written", () => {
  fc.assert(
    fc.property(fc.nat({ max: 50 }), bytes, (opcode, body) => {
      const read = tryParseRequest(request(opcode, body));
      assert.deepEqual(read, { opcode, unique: 7n, node: 2, body });
    }),
  );
});

test("a message whose length is not the one it states is no request", () => {
  const message = request(15, Buffer.alloc(40));
  assert.equal(tryParseRequest(message.subarray(0, 60)), undefined);
});

test("every answer states its own length", () => {
  const attributes = { inode: 12n, size: 5000, mode: 0o100600, uid: 7, gid: 8 };
  assert.equal(formatHeader(1n, 0, 100).readUInt32LE(0), 116);
  assert.equal(formatEntry(2, attributes).length, 128);
  assert.equal(formatAttr(attributes).length, 104);
  assert.equal(formatStore(2, { offset: 4096, size: 8192 }).readUInt32LE(0), 40 + 8192);
});

test("what the kernel can is read from its first request, and only that is agreed on", () => {
  const modern = { minor: 45, flags: (1 << 30) | 1, flags2: 1 << 7 };
  assert.ok(canResend(modern));
  assert.ok(!canResend({ ...modern, flags2: 0 }));
  assert.ok(!canResend({ ...modern, flags: 1 }));
  const answer = formatInit({ minor: 31, flags: 1, flags2: 0 });
  assert.equal(answer.readUInt32LE(4), 31);
  assert.equal(answer.readUInt32LE(12), 1);
  assert.equal(answer.readUInt32LE(32), 0);
});
