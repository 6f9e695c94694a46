/** Damaged content is found, repaired or replaced; and never served as something that can be relied on. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { appendFile, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { runClient } from "@cocoon/registry/cli";
import { eventually } from "@cocoon/testkit";
import { Writable } from "node:stream";
import { computeDigest, startWorld, type Client, type World } from "./world.ts";

const { signal } = new AbortController();

function blobPath(world: World, digest: string): string {
  return join(world.root, "blobs", ...digest.split(":"));
}

async function isIntact(client: Client, name: string, digest: string): Promise<boolean> {
  const { status, body } = await client.get(`/v2/${name}/blobs/${digest}`);
  return status === 200 && computeDigest(body) === digest;
}

async function runEpoch(world: World, ...args: string[]) {
  let text = "";
  const sink = () =>
    new Writable({
      write: (chunk: Buffer, _encoding, done) => {
        text += chunk.toString();
        done();
      },
    });
  const env = { EPOCH_SERVER: world.registry.url, EPOCH_REGISTRY_TOKEN: world.client.token };
  const streams = { stdout: sink(), stderr: sink() } as unknown as Parameters<typeof runClient>[1]["streams"];
  const code = await runClient(args, { env, streams, signal });
  return { code, text };
}

describe("damaged content", () => {
  for (const size of [5_000, 3_000_000])
    it(`of ${size} bytes is replaced by a push of the right content`, async () => {
      await using world = await startWorld();
      const content = randomBytes(size);
      const digest = await world.client.pushBlob("heal/push", content);
      await appendFile(blobPath(world, digest), "foreign bytes");
      assert.equal(await isIntact(world.client, "heal/push", digest), false);
      await world.client.pushBlob("heal/push", content);
      assert.equal(await isIntact(world.client, "heal/push", digest), true);
    });

  it("with foreign bytes at its end is repaired by fsck, and only with --repair", async () => {
    await using world = await startWorld();
    const image = await world.client.pushImage("heal/append", "v1", 2_000_000);
    const digest = image.manifest.layers[0]?.digest ?? "";
    await appendFile(blobPath(world, digest), randomBytes(12_345));
    const found = await runEpoch(world, "fsck");
    assert.equal(found.code, 1);
    assert.match(found.text, new RegExp(`damaged  ${digest}.*heal/append`));
    assert.equal(
      await isIntact(world.client, "heal/append", digest),
      false,
      "without --repair nothing changes",
    );
    const repaired = await runEpoch(world, "fsck", "--repair");
    assert.equal(repaired.code, 0, repaired.text);
    assert.match(repaired.text, new RegExp(`repaired  ${digest}`));
    assert.equal(await isIntact(world.client, "heal/append", digest), true);
    assert.deepEqual(await runEpoch(world, "fsck").then(({ code }) => code), 0);
  });

  it("that cannot be repaired counts as missing until it is pushed again", async () => {
    await using world = await startWorld();
    const { client } = world;
    const content = randomBytes(100_000);
    const digest = await client.pushBlob("heal/flip", content);
    const stored = await readFile(blobPath(world, digest));
    stored[50_000] = (stored[50_000] ?? 0) ^ 1;
    await writeFile(blobPath(world, digest), stored);
    const { code, text } = await runEpoch(world, "fsck", "--repair");
    assert.equal(code, 1);
    assert.match(text, /push what uses them again/);
    assert.deepEqual(await readFile(blobPath(world, digest)), stored, "nothing is deleted");
    const head = () => client.head(`/v2/heal/flip/blobs/${digest}`);
    assert.equal((await head()).status, 404, "a client that looks first sends it again");
    const mount = await client.post(`/v2/heal/other/blobs/uploads/?mount=${digest}&from=heal/flip`);
    assert.equal(mount.status, 202, "and cannot mount it");
    await world.restart();
    assert.equal(
      (await world.client.head(`/v2/heal/flip/blobs/${digest}`)).status,
      404,
      "also after a restart",
    );
    await world.client.pushBlob("heal/flip", content);
    assert.equal(await isIntact(world.client, "heal/flip", digest), true);
    assert.equal((await world.client.head(`/v2/heal/flip/blobs/${digest}`)).status, 200);
    assert.equal((await runEpoch(world, "fsck")).code, 0);
  });

  it("is found in the background, logged and counted", async () => {
    const logged: unknown[] = [];
    const log = Object.fromEntries(
      ["trace", "debug", "info", "warn", "error", "fatal"].map((level) => [
        level,
        (fields: object, message: string) => void logged.push({ level, message, ...fields }),
      ]),
    );
    await using world = await startWorld({
      scrubIntervalMs: 200,
      log: { ...log, child: () => log } as never,
    });
    const digest = await world.client.pushBlob("heal/background", randomBytes(10_000));
    await writeFile(blobPath(world, digest), "something else");
    await eventually(
      async () => {
        assert.ok(
          logged.some((each) => (each as { message: string }).message === "damaged blob found"),
          "an error in the log",
        );
        assert.match(await world.registry.metrics.registry.metrics(), /epoch_damaged_blobs\S* 1/);
      },
      { timeoutMs: 20_000 },
    );
    assert.equal((await world.client.head(`/v2/heal/background/blobs/${digest}`)).status, 404);
  });
});
