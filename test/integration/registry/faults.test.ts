/** Clients that vanish, stall or race, disks that are slow or full: clear answers, and nothing half done is visible. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { readdir } from "node:fs/promises";
import type { Socket } from "node:net";
import { join } from "node:path";
import { describe, it } from "node:test";
import { faultyStorage, openStorage, openFakeStorage, type Faults } from "@cocoon/registry/testing";
import { eventually } from "@cocoon/testkit";
import { beginRequest, sendBytes } from "./raw-request.ts";
import { openSmallDisk } from "./small-disk.ts";
import { computeDigest, startWorld, withDigest, type Client, type World } from "./world.ts";

/** Sends the head of a request and a part of its body, and leaves it at that. */
async function sendPart(
  world: World,
  { part, ...head }: { method: string; path: string; length: number; part: Buffer },
): Promise<Socket> {
  const { socket } = await beginRequest(world, head);
  await sendBytes(socket, part);
  return socket;
}

async function receivedBytes(client: Client, path: string): Promise<number> {
  const end = Number((await client.get(path)).headers.get("range")?.split("-")[1]);
  return end === 0 ? 0 : end + 1;
}

const uploadFiles = (world: World) => readdir(join(world.root, "uploads"));

describe("clients", () => {
  it("that vanish in a PATCH leave what they sent, and can go on", async () => {
    await using world = await startWorld();
    const content = randomBytes(2_000_000);
    const path = await world.client.begin("faults/vanish");
    const socket = await sendPart(world, {
      method: "PATCH",
      path,
      length: content.length,
      part: content.subarray(0, 700_000),
    });
    await eventually(async () => assert.equal((await uploadFiles(world)).length, 1));
    socket.destroy();
    const received = await eventually(async () => {
      const bytes = await receivedBytes(world.client, path);
      assert.equal(bytes, 700_000);
      return bytes;
    });
    const rest = {
      body: content.subarray(received),
      headers: { "content-range": `${received}-${content.length - 1}` },
    };
    assert.equal((await world.client.patch(path, rest)).status, 202);
    assert.equal((await world.client.put(withDigest(path, computeDigest(content)))).status, 201);
    assert.deepEqual(
      (await world.client.get(`/v2/faults/vanish/blobs/${computeDigest(content)}`)).body,
      content,
    );
  });

  it("that vanish in a whole PUT leave nothing", async () => {
    await using world = await startWorld();
    const content = randomBytes(2_000_000);
    const path = `/v2/faults/vanish/blobs/${computeDigest(content)}`;
    for (const length of [content.length, 100_000]) {
      const socket = await sendPart(world, {
        method: "PUT",
        path,
        length,
        part: content.subarray(0, 90_000),
      });
      if (length === content.length)
        await eventually(async () => assert.equal((await uploadFiles(world)).length, 1));
      socket.destroy();
      await eventually(async () => assert.deepEqual(await uploadFiles(world), []));
      assert.equal((await world.client.head(path)).status, 404);
    }
  });

  it("never wait for each other's uploads", async () => {
    await using world = await startWorld();
    const stalled = await Promise.all(
      Array.from({ length: 20 }, async () =>
        sendPart(world, {
          method: "PATCH",
          path: await world.client.begin("faults/stalled"),
          length: 1_000_000,
          part: randomBytes(1_000),
        }),
      ),
    );
    for (const size of [1_000, 3_000_000]) {
      const digest = await world.client.pushBlob("faults/quick", randomBytes(size));
      assert.equal((await world.client.head(`/v2/faults/quick/blobs/${digest}`)).status, 200);
    }
    for (const socket of stalled) socket.destroy();
  });

  it("may not write to one upload at the same time", async () => {
    await using world = await startWorld();
    const path = await world.client.begin("faults/twice");
    const socket = await sendPart(world, { method: "PATCH", path, length: 1_000, part: randomBytes(10) });
    await eventually(async () => assert.equal((await uploadFiles(world)).length, 1));
    const second = await world.client.patch(path, { body: randomBytes(100) });
    assert.equal(second.status, 409);
    socket.destroy();
    await eventually(async () =>
      assert.equal((await world.client.patch(path, { body: randomBytes(5) })).status, 202),
    );
    assert.equal(await receivedBytes(world.client, path), 15);
  });

  it("push the same blob at the same time, and all succeed", async () => {
    await using world = await startWorld();
    for (const size of [10_000, 2_500_000]) {
      const content = randomBytes(size);
      const digests = await Promise.all(
        Array.from({ length: 12 }, (_each, index) =>
          world.client.pushBlob(`faults/same-${index % 3}`, content),
        ),
      );
      assert.deepEqual(new Set(digests), new Set([computeDigest(content)]));
      for (const index of [0, 1, 2])
        assert.deepEqual(
          (await world.client.get(`/v2/faults/same-${index}/blobs/${computeDigest(content)}`)).body,
          content,
        );
    }
    assert.deepEqual(await uploadFiles(world), []);
  });

  it("move one tag at the same time, and readers always see a whole manifest", async () => {
    await using world = await startWorld();
    const images = await Promise.all(Array.from({ length: 6 }, () => world.client.newImage("faults/tag")));
    const bodies = images.map((image) => Buffer.from(JSON.stringify(image)));
    await world.client.pushManifest("faults/tag", "t", bodies[0]);
    const done = new AbortController();
    const reading = (async () => {
      let reads = 0;
      for (; !done.signal.aborted; reads += 1) {
        const answer = await world.client.get("/v2/faults/tag/manifests/t");
        assert.equal(answer.status, 200);
        assert.ok(bodies.some((body) => body.equals(answer.body)));
        assert.equal(answer.headers.get("docker-content-digest"), computeDigest(answer.body));
      }
      return reads;
    })();
    for (let round = 0; round < 10; round += 1)
      await Promise.all(bodies.map((body) => world.client.pushManifest("faults/tag", "t", body)));
    done.abort();
    assert.ok((await reading) > 0);
  });

  it("that read slowly do not fill the memory", async () => {
    await using world = await startWorld();
    const content = Buffer.alloc(96 * 1024 * 1024, 7);
    const digest = await world.client.pushBlob("faults/slow-reader", content);
    const before = process.memoryUsage().arrayBuffers;
    const sockets = await Promise.all(
      Array.from({ length: 8 }, () =>
        sendPart(world, {
          method: "GET",
          path: `/v2/faults/slow-reader/blobs/${digest}`,
          length: 0,
          part: Buffer.alloc(0),
        }),
      ),
    );
    for (const socket of sockets) socket.pause();
    await new Promise((resolve) => setTimeout(resolve, 500));
    const held = process.memoryUsage().arrayBuffers - before;
    assert.ok(held < 64 * 1024 * 1024, `${held} bytes held for clients that do not read`);
    for (const socket of sockets) socket.destroy();
  });

  it("that go on after a restart of the server find their session", async () => {
    await using world = await startWorld();
    const content = randomBytes(3_000_000);
    const [path, empty] = [
      await world.client.begin("faults/restart"),
      await world.client.begin("faults/restart"),
    ];
    const cancelled = await world.client.begin("faults/restart");
    await world.client.patch(path, { body: content.subarray(0, 1_000_000) });
    await world.restart();
    assert.equal(await receivedBytes(world.client, path), 1_000_000);
    await world.client.patch(path, { body: content.subarray(1_000_000) });
    for (const algorithm of ["sha256", "sha512"]) {
      const target = algorithm === "sha256" ? path : empty;
      if (target === empty) await world.client.patch(empty, { body: content });
      const digest = computeDigest(content, algorithm);
      assert.equal((await world.client.put(withDigest(target, digest))).status, 201);
      assert.equal((await world.client.get(target)).status, 404, "it is over");
      assert.deepEqual((await world.client.get(`/v2/faults/restart/blobs/${digest}`)).body, content);
    }
    assert.equal((await world.client.delete(cancelled)).status, 204);
    assert.equal((await world.client.get(cancelled)).status, 404);
  });
});

async function world(faults: Faults): Promise<World> {
  return startWorld({ storage: { kind: "given", storage: faultyStorage(openFakeStorage(), faults) } });
}

describe("storage", () => {
  it("that is slow slows requests down, and nothing else", async () => {
    const faults: Faults = { delayMs: 0, freeBytes: Infinity };
    await using slow = await world(faults);
    faults.delayMs = 300;
    let done = 0;
    const pushes = Promise.all(
      Array.from({ length: 30 }, async (_each, index) => {
        await slow.client.pushImage(`faults/slow-${index}`, "v1");
        done += 1;
      }),
    );
    assert.equal((await slow.client.get("/healthz")).status, 200);
    assert.equal(done, 0, "health does not wait for the storage");
    await pushes;
    assert.equal((await slow.client.get("/readyz")).status, 200);
  });

  it("that is full refuses what does not fit, keeps what is there, and goes on when there is room", async () => {
    const faults: Faults = { delayMs: 0, freeBytes: 3_000_000 };
    await using full = await world(faults);
    const { client } = full;
    const image = await client.pushImage("faults/full", "v1");
    for (const size of [900_000, 2_900_000]) {
      faults.freeBytes = 500_000;
      const content = randomBytes(size);
      const answer = await client.put(withDigest(await client.begin("faults/full"), computeDigest(content)), {
        body: content,
      });
      assert.equal(answer.status, 507);
      assert.match(answer.body.toString(), /no space/);
      assert.equal((await client.head(`/v2/faults/full/blobs/${computeDigest(content)}`)).status, 404);
    }
    faults.freeBytes = 10;
    const moved = await client.pushManifest("faults/full", "v1", {
      ...image.manifest,
      annotations: { a: "b" },
    });
    assert.equal(moved.status, 507);
    await eventually(async () => assert.equal((await client.get("/readyz")).status, 503), {
      timeoutMs: 15_000,
    });
    assert.deepEqual(
      (await client.get("/v2/faults/full/manifests/v1")).body,
      image.bytes,
      "the old state is intact",
    );
    faults.freeBytes = 3_000_000;
    await client.pushBlob("faults/full", randomBytes(900_000));
    await eventually(async () => assert.equal((await client.get("/readyz")).status, 200));
  });

  it("on a real full disk behaves the same", async (t) => {
    await using disk = await openSmallDisk(8);
    await using storage = await openStorage({ kind: "filesystem", root: disk.path });
    await using full = await startWorld({ storage: { kind: "given", storage } });
    const { client } = full;
    const image = await client.pushImage("faults/disk", "v1", 500_000);
    let stored = 0;
    let last = 0;
    for (; last !== 507; stored += 1) {
      const content = randomBytes(stored % 2 === 0 ? 600_000 : 1_300_000);
      const answer = await client.put(withDigest(await client.begin("faults/disk"), computeDigest(content)), {
        body: content,
      });
      last = answer.status;
      assert.ok(last === 201 || last === 507, answer.body.toString());
      assert.equal(
        (await client.head(`/v2/faults/disk/blobs/${computeDigest(content)}`)).status,
        last === 201 ? 200 : 404,
      );
      assert.ok(stored < 100);
    }
    const patched = await client.patch(await client.begin("faults/disk"), { body: randomBytes(8_000_000) });
    assert.equal(patched.status, 507);
    assert.deepEqual((await client.get("/v2/faults/disk/manifests/v1")).body, image.bytes);
    await full.registry.collectGarbage({ signal: t.signal, leaseMs: 0 });
    assert.deepEqual(await readdir(join(disk.path, "incoming")), [], "nothing half written is left");
  });
});
