/** kill -9 at random points of uploads, commits, deletions and garbage collections. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test } from "node:test";
import { sleep } from "@cocoon/core";
import { count, seededRandom, testSeed } from "@cocoon/testkit";
import { KillWorld } from "./kill-world.ts";
import { computeDigest, withDigest } from "./world.ts";

const rounds = count({ small: 5, full: 200 });
const signal = new AbortController().signal;
const names = ["kill/a", "kill/b", "kill/c"];

/** Runs the work until it ends or the server dies under it, at a random moment. */
async function killDuring(
  world: KillWorld,
  withinMs: number,
  work: readonly (() => Promise<unknown>)[],
): Promise<void> {
  const running = work.map((each) =>
    each().catch((error: unknown) => {
      // A cut connection is what a killed server looks like; a wrong answer is not.
      if (error instanceof assert.AssertionError) throw error;
    }),
  );
  await sleep(withinMs, { signal });
  await world.kill();
  await Promise.all(running);
  await world.start();
}

/** Repeats an action until the server is gone. */
const forever = (action: (turn: number) => Promise<unknown>) => async () => {
  for (let turn = 0; turn < 10_000; turn += 1) await action(turn);
};

test(`${rounds} kills during uploads: what was sent is resumed, what was promised is there`, async () => {
  await using world = await KillWorld.create();
  const random = seededRandom(testSeed());
  for (let round = 0; round < rounds; round += 1) {
    const content = randomBytes(4_000_000 + Math.floor(random() * 4_000_000));
    const digest = computeDigest(content);
    const path = await world.client.begin("kill/upload");
    let committed = false;
    const upload = async () => {
      await world.client.patch(path, { body: ReadableStream.from(cutChunks(content)) });
      const answer = await world.client.put(withDigest(path, digest));
      assert.equal(answer.status, 201, answer.body.toString());
      committed = true;
    };
    await killDuring(world, random() * 80, [upload]);
    const blob = `/v2/kill/upload/blobs/${digest}`;
    if (!committed && (await world.client.head(blob)).status === 404) {
      const status = await world.client.get(path);
      assert.equal(status.status, 204, "the session survived");
      const range = status.headers.get("range") ?? "";
      const end = Number(range.split("-")[1]);
      const from = end === 0 ? 0 : end + 1;
      assert.ok(from <= content.length);
      if (from < content.length) {
        const rest = {
          body: content.subarray(from),
          headers: { "content-range": `${from}-${content.length - 1}` },
        };
        assert.equal((await world.client.patch(path, rest)).status, 202);
      }
      assert.equal((await world.client.put(withDigest(path, digest))).status, 201);
    }
    assert.equal(computeDigest((await world.client.get(blob)).body), digest);
    assert.equal((await world.client.delete(blob)).status, 202);
  }
  await world.assertNothingLeftOver();
});

function* cutChunks(content: Buffer): Generator<Buffer> {
  for (let start = 0; start < content.length; start += 256 * 1024)
    yield content.subarray(start, start + 256 * 1024);
}

test(`${rounds} kills during commits: every tag is old or new, and complete`, async () => {
  await using world = await KillWorld.create();
  const random = seededRandom(testSeed() + 1);
  for (let round = 0; round < rounds; round += 1) {
    const sizes = [100, 70_000, 1_500_000];
    const work = names.map((name, at) => forever((turn) => world.push(name, `t${turn % 3}`, sizes[at] ?? 1)));
    await killDuring(world, 20 + random() * 250, work);
    await world.assertPromisesKept();
  }
  await world.assertNothingLeftOver();
});

test(`${rounds} kills during deletions: nothing dangles, nothing else goes`, async () => {
  await using world = await KillWorld.create();
  const random = seededRandom(testSeed() + 2);
  for (let round = 0; round < rounds; round += 1) {
    const tags = Array.from({ length: 6 }, (_each, index) => `t${index}`);
    for (const name of names) await Promise.all(tags.map((tag) => world.push(name, tag, 500)));
    const work = names.map((name, at) => async () => {
      for (const tag of tags.slice(1))
        await (at === 0 ? world.deleteTag(name, tag) : world.deleteManifest(name, tag));
    });
    await killDuring(world, random() * 40, work);
    await world.assertPromisesKept();
  }
  await world.assertNothingLeftOver();
});

test(`${rounds} kills during garbage collection: what tags reach stays, what nothing reaches goes`, async () => {
  await using world = await KillWorld.create();
  const random = seededRandom(testSeed() + 3);
  for (let round = 0; round < rounds; round += 1) {
    await Promise.all(
      names.flatMap((name) => [world.push(name, "kept", 300), world.push(name, "moved", 300)]),
    );
    await Promise.all(names.map((name) => world.push(name, "moved", 300)));
    await killDuring(world, random() * 60, [forever(() => world.collectGarbage())]);
    await world.assertPromisesKept();
  }
  await world.assertNothingLeftOver();
});
