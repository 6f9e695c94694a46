/** Repositories with many tags: a page costs a page, and a deletion by digest costs its own tags. */
import assert from "node:assert/strict";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { count } from "@cocoon/testkit";
import { startWorld } from "./world.ts";

test("pages of tags are the sorted list, while tags come and go", async () => {
  await using world = await startWorld();
  const { client } = world;
  const image = await client.pushImage("many/app", "t-0");
  const total = count({ small: 300, full: 5_000 });
  const push = (tag: string) => client.pushManifest("many/app", tag, image.bytes);
  for (let start = 1; start < total; start += 50)
    await Promise.all(
      Array.from({ length: Math.min(50, total - start) }, (_, index) => push(`t-${start + index}`)),
    );
  const expected = Array.from({ length: total }, (_, index) => `t-${index}`).sort();
  const listed: string[] = [];
  for (let path: string | undefined = "/v2/many/app/tags/list?n=37"; path;) {
    const answer = await client.get(path);
    listed.push(...(answer.json() as { tags: string[] }).tags);
    path = /<([^>]+)>; rel="next"/.exec(answer.headers.get("link") ?? "")?.[1];
  }
  assert.deepEqual(listed, expected);
  assert.equal((await client.delete("/v2/many/app/manifests/t-5")).status, 202);
  await push("a-first");
  const page = async (query: string) =>
    ((await client.get(`/v2/many/app/tags/list?${query}`)).json() as { tags: string[] }).tags;
  assert.deepEqual(await page("n=2"), ["a-first", "t-0"]);
  assert.deepEqual((await page("n=1&last=t-49")).length, 1);
  assert.ok(!(await page("")).includes("t-5"));
});

test("a deletion by digest removes exactly its tags, also those pushed before the index existed", async () => {
  await using world = await startWorld();
  const image = await world.client.pushImage("many/delete", "a");
  const other = await world.client.pushImage("many/delete", "kept");
  for (const tag of ["b", "c", "moved"]) await world.client.pushManifest("many/delete", tag, image.bytes);
  await world.client.pushManifest("many/delete", "moved", other.bytes);
  await world.registry.stop();
  for (const path of ["tagged", "server/tag-index"]) await rm(join(world.root, path), { recursive: true });
  await world.restart();
  assert.equal((await world.client.delete(`/v2/many/delete/manifests/${image.digest}`)).status, 202);
  assert.deepEqual((await world.client.get("/v2/many/delete/tags/list")).json(), {
    name: "many/delete",
    tags: ["kept", "moved"],
  });
});

test("statistics follow every push and deletion", async () => {
  await using world = await startWorld();
  const { client } = world;
  const stats = async () => ((await client.get("/api/stats")).json() as { tagCount: number }).tagCount;
  assert.equal(await stats(), 0);
  const image = await client.pushImage("stats/app", "a");
  assert.equal(await stats(), 1);
  await client.pushManifest("stats/app", "b", image.bytes);
  await client.pushImage("stats/other", "a");
  assert.equal(await stats(), 3);
  await client.delete("/v2/stats/app/manifests/b");
  assert.equal(await stats(), 2);
  await client.delete(`/v2/stats/app/manifests/${image.digest}`);
  assert.equal(await stats(), 1);
});
