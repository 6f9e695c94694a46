/** Large bodies by every way that takes them: whole, in parts, cut, refused. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { openStorage } from "@cocoon/registry/testing";
import { eventually } from "@cocoon/testkit";
import { beginRequest, sendBytes } from "./raw-request.ts";
import { openSmallDisk } from "./small-disk.ts";
import { computeDigest, startWorld, withDigest, type World } from "./world.ts";

const megabytes = (count: number) => randomBytes(count * 1_000_000);

async function storedBlob(world: World, name: string, content: Buffer): Promise<void> {
  const pulled = await world.client.get(`/v2/${name}/blobs/${computeDigest(content)}`);
  assert.equal(pulled.status, 200);
  assert.ok(pulled.body.equals(content));
}

test("a large blob comes whole, by POST and PUT, at once, or by epoch's own way", async () => {
  await using world = await startWorld();
  const contents = [megabytes(20), megabytes(9), megabytes(33)];
  const [byPut, byPost, byEpoch] = contents as [Buffer, Buffer, Buffer];
  await world.client.pushBlob("large/whole", byPut);
  const posted = await world.client.post(
    withDigest("/v2/large/whole/blobs/uploads/", computeDigest(byPost)),
    {
      body: byPost,
    },
  );
  assert.equal(posted.status, 201);
  assert.notEqual(posted.headers.get("connection"), "close", "the connection can be used again");
  const put = await world.client.put(`/v2/large/whole/blobs/${computeDigest(byEpoch)}`, { body: byEpoch });
  assert.equal(put.status, 201);
  for (const content of contents) await storedBlob(world, "large/whole", content);
});

test("a client that vanishes in the middle goes on from there, in large parts", async () => {
  await using world = await startWorld();
  const content = megabytes(30);
  const path = await world.client.begin("large/parts");
  const { socket } = await beginRequest(world, { method: "PATCH", path, length: content.length });
  await sendBytes(socket, content.subarray(0, 12_345_678));
  socket.end();
  await once(socket, "close");
  const at = await eventually(async () => {
    const range = (await world.client.get(path)).headers.get("range");
    assert.equal(range, "0-12345677");
    return 12_345_678;
  });
  const rest = { "content-range": `${at}-${content.length - 1}` };
  const patched = await world.client.patch(path, { body: content.subarray(at), headers: rest });
  assert.equal(patched.status, 202, patched.body.toString());
  assert.equal((await world.client.put(withDigest(path, computeDigest(content)))).status, 201);
  await storedBlob(world, "large/parts", content);
});

test("a client that sends Expect: 100-continue sends its large body after the answer", async () => {
  await using world = await startWorld();
  const content = megabytes(10);
  const path = withDigest(await world.client.begin("large/asked"), computeDigest(content));
  const { socket, heard } = await beginRequest(world, {
    method: "PUT",
    path,
    length: content.length,
    headers: ["Expect: 100-continue"],
  });
  await eventually(() => assert.match(heard(), /^HTTP\/1.1 100 /));
  await sendBytes(socket, content);
  await eventually(() => assert.match(heard(), /HTTP\/1.1 201 /));
  await storedBlob(world, "large/asked", content);
});

test("content that is not what its digest says is refused, and nothing of it stays", async () => {
  await using world = await startWorld();
  const content = megabytes(16);
  const wrong = computeDigest(randomBytes(10));
  const path = withDigest(await world.client.begin("large/wrong"), wrong);
  const answer = await world.client.put(path, { body: content });
  assert.deepEqual([answer.status, answer.code], [400, "DIGEST_INVALID"]);
  assert.deepEqual(await readdir(join(world.root, "uploads")), []);
  for (const digest of [wrong, computeDigest(content)])
    assert.equal((await world.client.head(`/v2/large/wrong/blobs/${digest}`)).status, 404);
});

test("many large blobs at once, with a small request on each connection before", async () => {
  await using world = await startWorld();
  const contents = Array.from({ length: 12 }, () => megabytes(9));
  await Promise.all(contents.map((content) => world.client.pushBlob("large/many", content)));
  for (const content of contents) await storedBlob(world, "large/many", content);
});

test("a disk that gets full says so to a client that is still sending, and has room again then", async () => {
  await using disk = await openSmallDisk(40);
  await using storage = await openStorage({ kind: "filesystem", root: disk.path });
  await using world = await startWorld({
    storage: { kind: "given", storage },
    uploadDirectory: join(disk.path, "uploads"),
  });
  const content = megabytes(60);
  const path = withDigest(await world.client.begin("large/full"), computeDigest(content));
  const { socket, heard } = await beginRequest(world, { method: "PUT", path, length: content.length });
  await sendBytes(socket, content);
  await eventually(() => assert.match(heard(), /^HTTP\/1.1 507 /));
  assert.equal((await world.client.delete(path)).status, 204);
  const fits = megabytes(12);
  await world.client.pushBlob("large/full", fits);
  await storedBlob(world, "large/full", fits);
});

test("a registry that is started again in the middle of a large body goes on with what it has", async () => {
  await using world = await startWorld();
  const content = megabytes(20);
  const path = await world.client.begin("large/again");
  const { socket } = await beginRequest(world, { method: "PATCH", path, length: content.length });
  await sendBytes(socket, content.subarray(0, 9_000_000));
  await eventually(async () =>
    assert.equal((await readdir(join(world.root, "uploads"))).length, 1, "the upload has begun"),
  );
  socket.destroy();
  await world.restart();
  const range = (await world.client.get(path)).headers.get("range") ?? "";
  const at = range === "0-0" ? 0 : Number(range.split("-")[1]) + 1;
  assert.ok(at <= 9_000_000);
  const rest = { "content-range": `${at}-${content.length - 1}` };
  const patched = await world.client.patch(path, { body: content.subarray(at), headers: rest });
  assert.equal(patched.status, 202);
  assert.equal((await world.client.put(withDigest(path, computeDigest(content)))).status, 201);
  await storedBlob(world, "large/again", content);
});
