import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { contains, formatIpv4, formatSubnet, parseIpv4, parseSubnet } from "./ipv4.ts";
import { newMac } from "./mac.ts";

test("addresses survive being read and written", () => {
  fc.assert(
    fc.property(fc.nat(2 ** 32 - 1), (value) => {
      assert.equal(parseIpv4(formatIpv4(value)), value);
    }),
  );
});

test("a subnet's hosts leave out network and broadcast", () => {
  const range = parseSubnet("10.88.3.77/24");
  assert.equal(formatSubnet(range), "10.88.3.0/24");
  assert.equal(formatIpv4(range.first), "10.88.3.1");
  assert.equal(formatIpv4(range.last), "10.88.3.254");
  assert.ok(contains(range, parseIpv4("10.88.3.255")));
  assert.ok(!contains(range, parseIpv4("10.88.4.0")));
});

for (const bad of ["10.0.0.256", "10.0.0", "a.b.c.d", "1.2.3.4.5", " 1.2.3.4", "1.2.3.4x"]) {
  test(`"${bad}" is no address`, () => assert.throws(() => parseIpv4(bad), /no IPv4 address/));
}
for (const bad of ["10.0.0.0", "10.0.0.0/31", "10.0.0.0/7", "10.0.0.0/2x", "/24"]) {
  test(`"${bad}" is no subnet`, () => assert.throws(() => parseSubnet(bad), /no IPv4/));
}

test("made-up interface addresses are local and for one receiver, whatever was drawn", () => {
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 6, maxLength: 6 }), (bytes) => {
      const mac = newMac(() => Buffer.from(bytes));
      assert.match(mac, /^[0-9a-f]{2}(:[0-9a-f]{2}){5}$/);
      assert.equal(Number.parseInt(mac.slice(0, 2), 16) & 0b11, 0b10);
    }),
  );
});
