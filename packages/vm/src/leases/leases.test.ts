import assert from "node:assert/strict";
import { rename, rm, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { Fault } from "@cocoon/core";
import { temporaryDirectory } from "@cocoon/testkit";
import { LeaseFile, parseLeases, writeLeases } from "./leases.ts";

const dnsmasq = `1794816197 02:00:00:00:00:10 10.88.0.11 vmzero 01:02:00:00:00:00:10
0 AA:BB:CC:DD:EE:FF 10.88.0.12 * *
duid 00:01:00:01:2c:4e:1f
1794816197 11184810 fd00::5 vm6 00:01:00:01:2c:4e:1f
1794816197 02:00:00:00:00:10 10.88.0.13 again *
broken line
`;

test("dnsmasq's text is read, foreign lines are not", () => {
  assert.deepEqual(parseLeases(dnsmasq), [
    { mac: "02:00:00:00:00:10", ip: "10.88.0.11", expiresAt: new Date(1794816197000) },
    { mac: "aa:bb:cc:dd:ee:ff", ip: "10.88.0.12" },
    { mac: "02:00:00:00:00:10", ip: "10.88.0.13", expiresAt: new Date(1794816197000) },
  ]);
});

test("the JSON list is read, rows that are none are skipped", () => {
  const rows = [
    { mac: "AA:bb:cc:dd:ee:ff", ip: "172.20.100.17", expiry: "2026-07-25T12:00:00+08:00" },
    { mac: "aa:bb:cc:dd:ee:00", ip: "172.20.100.18", expiry: "tomorrow" },
    { mac: "nothing", ip: "172.20.100.19", expiry: "2026-07-25T12:00:00Z" },
    { mac: "aa:bb:cc:dd:ee:01", ip: "not an address", expiry: "2026-07-25T12:00:00Z" },
    "text",
  ];
  assert.deepEqual(parseLeases(JSON.stringify(rows)), [
    { mac: "aa:bb:cc:dd:ee:ff", ip: "172.20.100.17", expiresAt: new Date("2026-07-25T04:00:00Z") },
  ]);
});

test("no leases are no leases, in every spelling", () => {
  for (const text of ["", "\n", "null\n", "[]", "{}"])
    assert.deepEqual(parseLeases(text), [], JSON.stringify(text));
});

test("a file is observed into by MAC in any case; the last row of two counts", async () => {
  await using directory = await temporaryDirectory();
  const file = new LeaseFile(join(directory.path, "leases"));
  assert.equal(await file.tryFind("02:00:00:00:00:10"), undefined, "no file, no lease");
  await writeFile(file.path, dnsmasq);
  assert.equal((await file.tryFind("02:00:00:00:00:10"))?.ip, "10.88.0.13");
  assert.equal((await file.tryFind("aa:BB:cc:dd:ee:ff"))?.ip, "10.88.0.12");
  assert.equal((await file.list()).length, 2);
});

test("a file is read again when it was replaced or has gone, and only then", async () => {
  await using directory = await temporaryDirectory();
  const path = join(directory.path, "leases");
  const file = new LeaseFile(path);
  const mac = "02:00:00:00:00:01";
  const line = (ip: string) => `0 ${mac} ${ip} a *\n`;
  await writeFile(path, line("10.0.0.1"));
  assert.equal((await file.tryFind(mac))?.ip, "10.0.0.1");
  await utimes(path, 1000, 1000);
  await file.tryFind(mac);
  await writeFile(`${path}.new`, line("10.0.0.2"));
  await rename(`${path}.new`, path);
  assert.equal((await file.tryFind(mac))?.ip, "10.0.0.2");
  await rm(path);
  assert.equal(await file.tryFind(mac), undefined);
});

test("half a file is not taken for an empty one", async () => {
  await using directory = await temporaryDirectory();
  const file = new LeaseFile(join(directory.path, "leases.json"));
  await writeFile(file.path, '[{"mac": "aa:');
  await assert.rejects(
    file.tryFind("aa:bb:cc:dd:ee:ff"),
    (error) => error instanceof Fault && error.code === "unavailable",
  );
});

test("what is published can be read by the same rules", async () => {
  await using directory = await temporaryDirectory();
  const path = join(directory.path, "net", "leases.json");
  await writeLeases(path, []);
  assert.deepEqual(await new LeaseFile(path).list(), []);
  await writeLeases(path, [{ mac: "02:00:00:00:00:01", ip: "127.88.0.5" }]);
  assert.deepEqual(
    (await new LeaseFile(path).list()).map(({ mac, ip }) => [mac, ip]),
    [["02:00:00:00:00:01", "127.88.0.5"]],
  );
});
