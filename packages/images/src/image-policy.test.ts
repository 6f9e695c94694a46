import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdir, symlink, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { isFault } from "@cocoon/core";
import { temporaryDirectory } from "@cocoon/testkit";
import { sendGuarded } from "./cloud/guarded-request.ts";
import { assertFileAllowed, isPublicAddress } from "./image-policy.ts";

const { signal } = new AbortController();
const forbidden = (error: unknown) => isFault(error, "forbidden");

test("loopback, link-local, private and disguised addresses are not public", () => {
  const inside = [
    "127.0.0.1 127.255.0.9 0.0.0.0 10.1.2.3 172.16.0.1 172.31.255.255 192.168.1.1 169.254.169.254 100.64.0.1",
    "224.0.0.1 255.255.255.255 ::1 :: fe80::1 fc00::1 fd12::1 ff02::1 ::ffff:127.0.0.1 64:ff9b::7f00:1 2002:7f00:1::",
    "localhost nonsense",
  ];
  for (const address of inside.join(" ").split(" ")) assert.equal(isPublicAddress(address), false, address);
  for (const address of ["1.1.1.1", "172.32.0.1", "8.8.8.8", "2606:4700::1111", "100.128.0.1"])
    assert.equal(isPublicAddress(address), true, address);
});

test("a file is an image only below an allowed directory, links resolved", async () => {
  await using directory = await temporaryDirectory();
  const [allowed, outside] = [join(directory.path, "allowed"), join(directory.path, "allowed-not")];
  for (const each of [allowed, outside]) await mkdir(each);
  await writeFile(join(allowed, "disk"), "");
  await writeFile(join(outside, "disk"), "");
  await symlink(join(outside, "disk"), join(allowed, "link"));
  const policy = { fileRoots: [allowed], privateHosts: [] };
  await assertFileAllowed(join(allowed, "disk"), policy);
  await assertFileAllowed(join(outside, "disk"), undefined);
  for (const path of ["../allowed-not/disk", "link", "missing", "../allowed/../allowed-not/disk"])
    await assert.rejects(assertFileAllowed(join(allowed, path), policy), forbidden, path);
  await assert.rejects(
    assertFileAllowed(join(allowed, "disk"), { fileRoots: [], privateHosts: [] }),
    forbidden,
  );
});

async function serve(answer: (path: string, port: number) => { status: number; location?: string }): Promise<{
  server: Server;
  port: number;
  seen: string[];
}> {
  const seen: string[] = [];
  const server = createServer((request, response) => {
    const { port } = server.address() as AddressInfo;
    seen.push(request.url ?? "");
    const { status, location } = answer(request.url ?? "", port);
    response.writeHead(status, location === undefined ? {} : { location }).end("content");
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  return { server, port: (server.address() as AddressInfo).port, seen };
}

test("every hop of a download is checked, by address and after each redirect", async () => {
  const { server, port, seen } = await serve((path, own) =>
    path === "/start" ? { status: 302, location: `http://localhost:${own}/secret` } : { status: 200 },
  );
  const get = (url: string, privateHosts: readonly string[]) =>
    sendGuarded(url, { headers: {}, method: "GET", signal, policy: { fileRoots: [], privateHosts } });
  try {
    await assert.rejects(get(`http://127.0.0.1:${port}/start`, []), forbidden);
    await assert.rejects(get(`http://localhost:${port}/start`, []), forbidden);
    await assert.rejects(get("http://169.254.169.254/latest", []), forbidden);
    assert.deepEqual(seen, [], "nothing was sent");
    await assert.rejects(get(`http://127.0.0.1:${port}/start`, ["127.0.0.1"]), forbidden);
    assert.deepEqual(seen, ["/start"], "the redirect was not followed");
    const response = await get(`http://127.0.0.1:${port}/start`, ["127.0.0.1", "localhost"]);
    assert.equal(await response.text(), "content");
  } finally {
    server.close();
  }
});
