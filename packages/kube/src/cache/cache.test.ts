import assert from "node:assert/strict";
import { test } from "node:test";
import { Backoff, Fault, silentLogger } from "@cocoon/core";
import { eventually } from "@cocoon/testkit";
import { configMaps } from "../builtin.ts";
import type { ConfigMap } from "../builtin-objects.ts";
import { openCaches, type CacheOptions, type Caches, type ObjectCache } from "./cache.ts";
import type { CacheEvent } from "./cache-store.ts";
import type { Source } from "../controller/index.ts";
import type { KubeObject } from "../object.ts";
import {
  bookmark,
  frame,
  list,
  fakeConnection,
  silence,
  testObject,
  type Answer,
  type FakeConnection,
} from "../testing/fake-connection.ts";

const { signal } = new AbortController();

function caches(script: FakeConnection): Caches {
  const tuning = { backoff: new Backoff({ baseMs: 1, maxMs: 1 }) };
  return openCaches({ client: script.connection, log: silentLogger, tuning });
}

function short(event: CacheEvent<ConfigMap>): string {
  const { name, resourceVersion } = event.object.metadata;
  if (event.kind === "updated")
    return `updated ${name} ${event.old.metadata.resourceVersion}>${resourceVersion}`;
  return `${event.kind} ${name} ${resourceVersion}${event.kind === "added" && event.initial ? " initial" : ""}`;
}

const state = (cache: ObjectCache<ConfigMap>) =>
  [...cache.list()].map((object) => `${object.metadata.name} ${object.metadata.resourceVersion}`).toSorted();

/** A watch answer that a test feeds line by line. */
function fed(): { readonly answer: Answer; readonly send: (...lines: readonly string[]) => void } {
  const lines: string[] = [];
  let wake = () => {};
  const answer: Answer = async function* (_asked, signal) {
    signal.addEventListener("abort", () => wake());
    while (!signal.aborted) {
      yield* lines.splice(0);
      if (lines.length === 0) await new Promise<void>((resolve) => (wake = resolve));
    }
  };
  return {
    answer,
    send: (...more) => {
      lines.push(...more);
      wake();
    },
  };
}

const first: Answer = () => [list("10", [testObject("a", "3"), testObject("b", "4")])];
const hang: Answer = (_asked, stop) => silence(stop);

test("it fills, follows, and calls listeners with old and new state", async () => {
  const feed = fed();
  const script = fakeConnection(first, feed.answer);
  await using all = caches(script);
  const cache = all.open(configMaps);
  assert.equal(cache.isSynced, false);
  assert.equal(cache.resourceVersion, undefined);
  const early: string[] = [];
  cache.subscribe((event) => early.push(short(event)));
  await cache.synced({ signal });
  assert.equal(cache.isSynced, true);
  assert.equal(cache.resourceVersion, "10");
  assert.deepEqual(early, ["added a 3 initial", "added b 4 initial"]);
  const late: string[] = [];
  using _subscription = cache.subscribe((event) => {
    late.push(short(event));
    if (event.kind === "updated") {
      assert.equal(cache.get({ namespace: "n", name: "a" }), event.object, "the change is visible already");
      assert.equal(cache.resourceVersion, "11");
    }
  });
  feed.send(frame("MODIFIED", testObject("a", "11")), frame("DELETED", testObject("b", "12")));
  feed.send(frame("ADDED", testObject("c", "13")), bookmark("20"));
  await eventually(() => assert.equal(cache.resourceVersion, "20"));
  const changes = ["updated a 3>11", "deleted b 12", "added c 13"];
  assert.deepEqual(late, ["added a 3 initial", "added b 4 initial", ...changes]);
  assert.deepEqual(early, late);
  assert.deepEqual(state(cache), ["a 11", "c 13"]);
  assert.equal(cache.size, 2);
  assert.equal(cache.get({ namespace: "n", name: "b" }), undefined);
});

test("a relist replaces everything at once, and what vanished meanwhile is reported as deleted", async () => {
  const feed = fed();
  const relist = fed();
  const script = fakeConnection(
    () => [
      list("10", [testObject("a", "3"), testObject("b", "4"), testObject("c", "5"), testObject("d", "6")]),
    ],
    feed.answer,
    relist.answer,
  );
  await using all = caches(script);
  const cache = all.open(configMaps);
  await cache.synced({ signal });
  const kept = cache.get({ namespace: "n", name: "a" });
  const seen: string[] = [];
  cache.subscribe((event) => seen.push(`${short(event)} of ${cache.size}`));
  seen.length = 0;
  feed.send(frame("ERROR", { kind: "Status", code: 410, reason: "Expired" }));
  relist.send(frame("ADDED", testObject("a", "3")), frame("ADDED", testObject("c", "30")));
  relist.send(
    frame("ADDED", testObject("d", "31", { uid: "another" })),
    frame("ADDED", testObject("e", "32")),
  );
  await eventually(() => assert.equal(script.asked.length, 3));
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.deepEqual(
    state(cache),
    ["a 3", "b 4", "c 5", "d 6"],
    "the old set is visible until the new one is whole",
  );
  assert.equal(cache.resourceVersion, "10");
  relist.send(bookmark("40", true));
  await eventually(() => assert.equal(cache.resourceVersion, "40"));
  assert.deepEqual(seen, [
    "deleted b 4 of 4",
    "updated c 5>30 of 4",
    "deleted d 6 of 4",
    "added d 31 of 4",
    "added e 32 of 4",
  ]);
  assert.deepEqual(state(cache), ["a 3", "c 30", "d 31", "e 32"]);
  assert.equal(cache.get({ namespace: "n", name: "a" }), kept, "what did not change is the same object");
});

test("after a restore of the storage an old version may be another state: a relist shows it", async () => {
  const feed = fed();
  const relist = fed();
  const before = testObject("a", "3", { data: { wants: "sleep" } });
  const script = fakeConnection(() => [list("10", [before])], feed.answer, relist.answer);
  await using all = caches(script);
  const cache = all.open(configMaps);
  await cache.synced({ signal });
  const seen: string[] = [];
  cache.subscribe((event) => seen.push(short(event)));
  seen.length = 0;
  feed.send(frame("ERROR", { kind: "Status", code: 410, reason: "Expired" }));
  relist.send(frame("ADDED", testObject("a", "3")), bookmark("5", true));
  await eventually(() => assert.equal(cache.resourceVersion, "5"));
  assert.deepEqual(seen, ["updated a 3>3"]);
  assert.deepEqual((cache.get({ namespace: "n", name: "a" }) as ConfigMap).data, {});
});

test("an object that cannot be read keeps its last state, through changes and relists, until it is gone", async () => {
  const read = (object: KubeObject) => {
    const map = object as ConfigMap;
    if (map.data?.["bad"]) throw new Error("cannot be read");
    return map;
  };
  const bad = (version: string) => testObject("a", version, { data: { bad: "yes" } });
  const feed = fed();
  const script = fakeConnection(first, feed.answer, async function* (_asked, stop) {
    yield frame("ADDED", bad("20"));
    yield bookmark("21", true);
    yield frame("DELETED", bad("22"));
    yield* silence(stop);
  });
  await using all = caches(script);
  const cache = all.open(configMaps, { read });
  await cache.synced({ signal });
  const seen: string[] = [];
  cache.subscribe((event) => seen.push(short(event)));
  feed.send(frame("MODIFIED", bad("11")), frame("MODIFIED", testObject("b", "12")));
  await eventually(() => assert.equal(cache.resourceVersion, "12"));
  assert.deepEqual(state(cache), ["a 3", "b 12"]);
  assert.deepEqual([...cache.malformed.keys()], ["n/a"]);
  seen.length = 0;
  feed.send(frame("ERROR", { kind: "Status", code: 410, reason: "Expired" }));
  await eventually(() => assert.equal(cache.size, 0));
  assert.deepEqual(seen, ["deleted b 12", "deleted a 3"]);
  assert.equal(cache.malformed.size, 0);
});

test("when a list holds something without a name, nothing is taken for gone", async () => {
  const feed = fed();
  const script = fakeConnection(first, feed.answer, async function* (_asked, stop) {
    yield frame("ADDED", testObject("a", "20"));
    yield frame("ADDED", { metadata: {} });
    yield bookmark("21", true);
    yield* silence(stop);
  });
  await using all = caches(script);
  const cache = all.open(configMaps);
  await cache.synced({ signal });
  feed.send(frame("ERROR", { kind: "Status", code: 410, reason: "Expired" }));
  await eventually(() => assert.equal(cache.resourceVersion, "21"));
  assert.deepEqual(state(cache), ["a 20", "b 4"]);
});

test("indexes follow every change, also those that are opened late", async () => {
  const feed = fed();
  const relist = fed();
  const script = fakeConnection(first, feed.answer, relist.answer);
  await using all = caches(script);
  const cache = all.open(configMaps);
  const byColour = (object: ConfigMap) => (object.data?.["colour"] ?? "").split(",").filter(Boolean);
  const early = cache.index(byColour);
  await cache.synced({ signal });
  const coloured = (name: string, version: string, colour: string) =>
    testObject(name, version, { data: { colour } });
  feed.send(
    frame("MODIFIED", coloured("a", "11", "red,blue")),
    frame("MODIFIED", coloured("b", "12", "red")),
  );
  await eventually(() => assert.equal(cache.resourceVersion, "12"));
  assert.equal(cache.index(byColour), early);
  const late = cache.index((object) => byColour(object));
  const names = (index: typeof early, value: string) =>
    index.get(value).map((object) => object.metadata.name);
  for (const index of [early, late]) {
    assert.deepEqual(names(index, "red"), ["a", "b"]);
    assert.deepEqual(names(index, "blue"), ["a"]);
    assert.equal(index.count("red"), 2);
    assert.equal(index.count("green"), 0);
    assert.deepEqual([...index.values()], ["red", "blue"]);
  }
  feed.send(frame("MODIFIED", coloured("a", "13", "green")), frame("DELETED", testObject("b", "14")));
  await eventually(() => assert.equal(cache.resourceVersion, "14"));
  for (const index of [early, late]) assert.deepEqual([...index.values()], ["green"]);
  feed.send(frame("ERROR", { kind: "Status", code: 410, reason: "Expired" }));
  relist.send(frame("ADDED", coloured("c", "20", "green")), bookmark("21", true));
  await eventually(() => assert.equal(cache.resourceVersion, "21"));
  for (const index of [early, late]) assert.deepEqual(names(index, "green"), ["c"]);
});

test("managed fields are dropped unless requested, and a transform drops more", async () => {
  const managedFields = [{ manager: "x", fieldsV1: { "f:data": {} } }];
  const object = testObject("a", "3", { data: { keep: "1", drop: "2" } });
  const full = { ...object, metadata: { ...object.metadata, managedFields } };
  const answer: Answer = ({ query }) =>
    query.has("watch")
      ? [frame("MODIFIED", full), frame("ERROR", { kind: "Status", code: 500 })]
      : [list("10", [full])];
  const open = async (options: CacheOptions<ConfigMap>, check: (found: ConfigMap | undefined) => void) => {
    await using all = caches(fakeConnection(answer));
    const cache = all.open(configMaps, options);
    await cache.synced({ signal });
    check(cache.get({ namespace: "n", name: "a" }));
  };
  await open({}, (found) => assert.deepEqual(found, object));
  await open({ managedFields: true }, (found) => assert.deepEqual(found, full));
  const transform = ({ metadata, data }: ConfigMap): ConfigMap => ({
    metadata,
    data: { keep: data?.["keep"] ?? "" },
  });
  await open({ transform }, (found) =>
    assert.deepEqual(found, { metadata: object.metadata, data: { keep: "1" } }),
  );
});

test("a watch ends with its cache, and all end with the caches", async () => {
  const ended: string[] = [];
  const answer: Answer = ({ query }, stop) => {
    if (!query.has("watch")) return [list("10", [testObject("a", "3")])];
    stop.addEventListener("abort", () => ended.push(query.get("labelSelector") ?? ""));
    return silence(stop);
  };
  const script = fakeConnection(answer);
  await using all = caches(script);
  const one = all.open(configMaps, { labelSelector: "x" });
  const other = all.open(configMaps, { labelSelector: "y" });
  for (const cache of [one, other]) await cache.synced({ signal });
  await eventually(() => assert.equal(script.asked.length, 4, "two lists and two watches"));
  await one[Symbol.asyncDispose]();
  await one[Symbol.asyncDispose]();
  assert.deepEqual(ended, ["x"]);
  assert.equal(other.size, 1);
  await all[Symbol.asyncDispose]();
  assert.deepEqual(ended, ["x", "y"]);
  assert.throws(() => all.open(configMaps), { code: "unavailable" });
});

test("a listener or an index function that throws stops no other, and surfaces", async () => {
  const feed = fed();
  await using all = caches(fakeConnection(first, feed.answer));
  const cache = all.open(configMaps);
  await cache.synced({ signal });
  cache.subscribe((event) => {
    if (event.kind === "updated") throw new Error("listener broke");
  });
  const heard: string[] = [];
  cache.subscribe((event) => heard.push(short(event)));
  heard.length = 0;
  feed.send(frame("MODIFIED", testObject("a", "11")), frame("MODIFIED", testObject("b", "12")));
  await assert.rejects(cache.failed, /listener broke/);
  await eventually(() => assert.deepEqual(heard, ["updated a 3>11", "updated b 4>12"]));
  const index = cache.index((object) => {
    if (object.metadata.name === "a") throw new Error("index broke");
    return ["x"];
  });
  assert.equal(index.count("x"), 1);
  assert.equal(cache.size, 2);
});

test("waiting for a server that is away ends with the signal or with the cache", async () => {
  const down: Answer = () => {
    throw new Fault("unavailable", "down");
  };
  await using all = caches(fakeConnection(down));
  const cache = all.open(configMaps);
  await assert.rejects(cache.synced({ signal: AbortSignal.timeout(30) }), { name: "TimeoutError" });
  const waiting = assert.rejects(cache.synced({ signal }), { code: "unavailable" });
  await all[Symbol.asyncDispose]();
  await waiting;
});

test("a cache is a source for controllers", async () => {
  await using all = caches(fakeConnection(first, hang));
  await using cache = all.open(configMaps);
  const source: Source<ConfigMap> = cache; // the types fit, that is the test
  await source.synced({ signal });
  assert.equal(source.resourceVersion, "10");
});

test("a hanging watch does not keep a cache from closing", async () => {
  await using all = caches(fakeConnection(first, hang));
  await using cache = all.open(configMaps);
  await cache.synced({ signal });
});
