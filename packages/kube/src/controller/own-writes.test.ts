import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Fault, isFault, silentLogger } from "@cocoon/core";
import { count, seededRandom, testSeed } from "@cocoon/testkit";
import { FakeClock } from "@cocoon/core/testing";
import { getKey, resourceType, type KubeObject, includesVersion } from "../object.ts";
import { OwnWrites } from "./own-writes.ts";
import { controllerReference, isControlledBy } from "./owner-references.ts";
import type { Change, Source } from "./watches.ts";
import { FakeCluster, type FakeCall } from "./testing/fake-cluster.ts";

const things = resourceType<KubeObject>({
  group: "example.io",
  version: "v1",
  kind: "Thing",
  plural: "things",
  namespaced: true,
});
const options = { signal: new AbortController().signal };
const owner: KubeObject = { metadata: { namespace: "ns", name: "owner", uid: "owner-uid" } };
const child = (name: string, labels: Record<string, string> = {}): KubeObject => ({
  metadata: { namespace: "ns", name, labels, ownerReferences: [controllerReference(things, owner)] },
});

/** A cache that lags: it shows what the server had until the test lets it catch up, event by event. */
class LaggingSource implements Source<KubeObject> {
  readonly #objects = new Map<string, KubeObject>();
  readonly #listeners = new Set<(change: Change<KubeObject>) => void>();
  readonly #waiting: { readonly kind: "applied" | "deleted"; readonly object: KubeObject }[] = [];
  resourceVersion = "100";

  constructor(server: FakeCluster) {
    server.onChange = (event) => this.#waiting.push(event);
  }
  get = ({ name }: { readonly name: string }) => this.#objects.get(name);
  list = () => this.#objects.values();
  synced = () => Promise.resolve();
  subscribe(listener: (change: Change<KubeObject>) => void): Disposable {
    this.#listeners.add(listener);
    return { [Symbol.dispose]: () => void this.#listeners.delete(listener) };
  }
  /** A list of a restored storage whose version has caught up meanwhile. */
  restore(object: KubeObject, version: string): void {
    const old = this.#objects.get(object.metadata.name ?? "");
    assert.ok(old);
    this.#objects.set(object.metadata.name ?? "", object);
    this.resourceVersion = version;
    for (const listener of this.#listeners) listener({ kind: "updated", old, object });
  }
  get lag(): number {
    return this.#waiting.length;
  }
  catchUp(events = Infinity): void {
    for (const { kind, object } of this.#waiting.splice(0, events)) {
      const name = object.metadata.name ?? "";
      const old = this.#objects.get(name);
      if (kind === "deleted") this.#objects.delete(name);
      else this.#objects.set(name, object);
      this.resourceVersion = object.metadata.resourceVersion ?? "";
      const change: Change<KubeObject> =
        kind === "deleted"
          ? { kind, object }
          : old
            ? { kind: "updated", old, object }
            : { kind: "added", object, initial: false };
      for (const listener of this.#listeners) listener(change);
    }
  }
  /** The watch was away and lists again: all at once, and no word about what came and went meanwhile. */
  relist(server: FakeCluster): void {
    this.#waiting.length = 0;
    this.#objects.clear();
    for (const object of server.objects("things")) this.#objects.set(object.metadata.name ?? "", object);
    this.resourceVersion = server.resourceVersion;
  }
}

type Hooks = Parameters<FakeCluster["client"]>[0];

function setUp(hooks: Hooks = {}, extra: { readonly maxEntries?: number } = {}) {
  const server = new FakeCluster();
  const source = new LaggingSource(server);
  const clock = new FakeClock();
  const writes = new OwnWrites<KubeObject>({
    client: server.client(hooks),
    type: things,
    source,
    clock,
    log: silentLogger,
    ...extra,
  }).start();
  return { server, source, clock, writes };
}

const ownedBy = (writes: OwnWrites<KubeObject>, parent: KubeObject) =>
  [...writes.list()].filter((object) => isControlledBy(object, parent));

const names = (objects: Iterable<KubeObject>) => [...objects].map((object) => object.metadata.name);

describe("own writes", () => {
  test("a created object is there at once, however old the cache is", async () => {
    const { writes, source } = setUp();
    const made = await writes.ensure(child("a"), options);
    assert.equal(source.get({ name: "a" }), undefined);
    assert.equal(writes.get(getKey(made))?.metadata.uid, made.metadata.uid);
    assert.deepEqual(names(writes.list()), ["a"]);
    assert.deepEqual(names(ownedBy(writes, owner)), ["a"]);
    source.catchUp();
    assert.deepEqual(names(writes.list()), ["a"]);
    assert.equal(writes.pending, 0);
  });

  test("an update shows its new state until the cache has it, and newer states of others win", async () => {
    const { writes, source, server } = setUp();
    const made = await writes.ensure(child("a"), options);
    source.catchUp();
    await writes.patch(
      { key: getKey(made), patch: { type: "merge", body: { metadata: { labels: { step: "1" } } } } },
      options,
    );
    assert.equal(writes.get(getKey(made))?.metadata.labels?.["step"], "1");
    await server
      .client()
      .patch(
        things,
        { key: getKey(made), patch: { type: "merge", body: { metadata: { labels: { step: "2" } } } } },
        options,
      );
    source.catchUp(1);
    assert.equal(writes.get(getKey(made))?.metadata.labels?.["step"], "1");
    source.catchUp(1);
    assert.equal(writes.get(getKey(made))?.metadata.labels?.["step"], "2");
    assert.equal(writes.pending, 0);
  });

  test("a deleted object shows as being deleted, and its successor is another one", async () => {
    const { writes, source, server } = setUp();
    const made = await writes.ensure(child("a"), options);
    source.catchUp();
    await writes.delete(made, options);
    assert.ok(writes.get(getKey(made))?.metadata.deletionTimestamp);
    const second = await server.client().create(things, child("a"), options);
    source.catchUp();
    const seen = writes.get(getKey(made));
    assert.equal(seen?.metadata.uid, second.metadata.uid);
    assert.equal(seen?.metadata.deletionTimestamp, undefined);
    assert.equal(writes.pending, 0);
    await assert.rejects(writes.delete(made, options), (error) => isFault(error, "conflict"));
    assert.equal(server.objects("things").length, 1, "the successor was left alone");
  });

  test("a restored storage has none of our writes, also when its version has caught up", async () => {
    const { writes, source } = setUp();
    const before = await writes.ensure(child("a"), options);
    const changed = await writes.update({ ...before, spec: 1 } as KubeObject, options);
    source.catchUp();
    await writes.delete(changed, options);
    assert.ok(writes.get(getKey(before))?.metadata.deletionTimestamp);
    source.restore(before, "999");
    assert.equal(writes.get(getKey(before))?.metadata.deletionTimestamp, undefined);
    assert.equal(writes.pending, 0);
  });

  test("created and deleted before the cache saw anything: gone when it has caught up", async () => {
    const { writes, source } = setUp();
    const made = await writes.ensure(child("a"), options);
    await writes.delete(made, options);
    assert.ok(writes.get(getKey(made))?.metadata.deletionTimestamp);
    source.catchUp();
    assert.equal(writes.get(getKey(made)), undefined);
    assert.equal(writes.pending, 0);
  });

  test("a relist that no longer has the object ends the overlay", async () => {
    const { writes, source, server } = setUp();
    const made = await writes.ensure(child("a"), options);
    await server.client().delete(things, getKey(made), options);
    source.relist(server);
    assert.equal(writes.get(getKey(made)), undefined);
    assert.deepEqual(names(writes.list()), []);
  });

  test("an event that comes before its answer leaves nothing behind", async () => {
    const sources: LaggingSource[] = [];
    const { writes, source } = setUp({ after: () => sources[0]?.catchUp() });
    sources.push(source);
    await writes.ensure(child("a"), options);
    assert.equal(writes.pending, 0);
    assert.deepEqual(names(writes.list()), ["a"]);
  });

  test("an index of the cache is corrected both ways", async () => {
    const { writes, source } = setUp();
    const red = (object: KubeObject) => object.metadata.labels?.["colour"] === "red";
    const a = await writes.ensure(child("a", { colour: "red" }), options);
    const b = await writes.ensure(child("b", { colour: "blue" }), options);
    source.catchUp();
    await writes.update({ ...a, metadata: { ...a.metadata, labels: { colour: "blue" } } }, options);
    await writes.update({ ...b, metadata: { ...b.metadata, labels: { colour: "red" } } }, options);
    await writes.ensure(child("c", { colour: "red" }), options);
    const indexed = [...source.list()].filter(red);
    assert.deepEqual(names(indexed), ["a"]);
    assert.deepEqual(names(writes.merge(indexed, red)), ["b", "c"]);
  });

  test("a name is required: a generated one would be lost with the answer", async () => {
    const { writes } = setUp();
    await assert.rejects(writes.ensure({ metadata: { generateName: "a-" } }, options), /choose it/);
  });

  test("a dry run leaves no trace", async () => {
    const { writes } = setUp();
    await writes.ensure(child("a"), { ...options, dryRun: true });
    assert.equal(writes.pending, 0);
  });

  test("a cache that is hopelessly behind stops further writes", async () => {
    const { writes, source, server } = setUp({}, { maxEntries: 2 });
    await writes.ensure(child("a"), options);
    await writes.ensure(child("b"), options);
    await assert.rejects(writes.ensure(child("c"), options), (error) => isFault(error, "unavailable"));
    assert.equal(server.objects("things").length, 2);
    source.catchUp();
    await writes.ensure(child("c"), options);
  });
});

describe("own writes: creates whose answer is lost", () => {
  /** Fails the first `times` creates: before or after they took effect. */
  function failing(
    when: "before" | "after",
    code: "timeout" | "unavailable" | "forbidden",
    times: number,
  ): Hooks {
    let left = times;
    return {
      [when]: (call: FakeCall) => {
        if (call.verb === "create" && left > 0) {
          left -= 1;
          throw new Fault(code, "injected");
        }
      },
    };
  }

  async function ensureWithTime(writes: OwnWrites<KubeObject>, clock: FakeClock): Promise<KubeObject> {
    const result = writes.ensure(child("a"), options);
    result.catch(() => undefined);
    for (let turn = 0; turn < 40; turn += 1) {
      await new Promise(setImmediate);
      clock.advance(500);
    }
    return result;
  }

  test("it arrived: the same name finds it again", async () => {
    const { writes, clock, server } = setUp(failing("after", "timeout", 1));
    const made = await ensureWithTime(writes, clock);
    assert.equal(made.metadata.uid, server.objects("things")[0]?.metadata.uid);
    assert.equal(server.objects("things").length, 1);
  });

  test("it did not arrive: it is made now", async () => {
    const { writes, clock, server } = setUp(failing("before", "unavailable", 2));
    await ensureWithTime(writes, clock);
    assert.equal(server.objects("things").length, 1);
  });

  test("still unknown: it shows as it was sent, so that no second one is made; then it is given up", async () => {
    const { writes, clock, server } = setUp(failing("before", "unavailable", 99));
    await assert.rejects(ensureWithTime(writes, clock), (error) => isFault(error, "unavailable"));
    assert.deepEqual(names(ownedBy(writes, owner)), ["a"]);
    assert.equal(writes.get(getKey(child("a")))?.metadata.uid, undefined);
    await assert.rejects(writes.delete(child("a"), options), /never confirmed/);
    clock.advance(90_000);
    assert.deepEqual(names(ownedBy(writes, owner)), []);
    assert.equal(server.objects("things").length, 0);
  });

  test("a clear refusal leaves nothing behind", async () => {
    const { writes } = setUp(failing("before", "forbidden", 1));
    await assert.rejects(writes.ensure(child("a"), options), (error) => isFault(error, "forbidden"));
    assert.equal(writes.pending, 0);
    assert.equal(writes.get(getKey(child("a"))), undefined);
  });

  test("what exists already is taken when the owner is the same, and refused when it is not", async () => {
    const { writes, server } = setUp();
    const first = await server.client().create(things, child("a"), options);
    assert.equal((await writes.ensure(child("a"), options)).metadata.uid, first.metadata.uid);
    await server.client().create(things, { metadata: { namespace: "ns", name: "foreign" } }, options);
    await assert.rejects(writes.ensure(child("foreign"), options), (error) =>
      isFault(error, "alreadyExists"),
    );
    assert.ok(writes.get(getKey(child("foreign"))), "but from now on we know that it is there");
    assert.deepEqual(names(ownedBy(writes, owner)), ["a"]);
  });
});

test("own writes: a controller with random names makes one child per owner, whatever the cache shows", async () => {
  const random = seededRandom(testSeed());
  for (let round = 0; round < count({ small: 100, full: 3_000 }); round += 1) {
    const { writes, source, server } = setUp();
    const owners = Array.from({ length: 4 }, (_, index) => ({
      metadata: { namespace: "ns", name: `o${index}`, uid: `uid-${index}` },
    }));
    for (let step = 0; step < 60; step += 1) {
      const parent = owners[Math.floor(random() * owners.length)] ?? owner;
      const mine = ownedBy(writes, parent).filter((each) => !each.metadata.deletionTimestamp);
      const dice = random();
      if (dice < 0.6) {
        if (mine.length === 0) {
          const name = `${parent.metadata.name}-${Math.floor(random() * 1e9)}`;
          const ownerReferences = [controllerReference(things, parent)];
          await writes.ensure({ metadata: { namespace: "ns", name, ownerReferences } }, options);
        }
      } else if (dice < 0.7 && mine[0]) await writes.delete(mine[0], options);
      else if (dice < 0.75) source.relist(server);
      else source.catchUp(Math.floor(random() * 3));
      const live = server.objects("things");
      for (const each of owners) {
        const children = live.filter(
          (object) => object.metadata.ownerReferences?.[0]?.uid === each.metadata.uid,
        );
        assert.ok(children.length <= 1, `${each.metadata.name} has ${children.length} children`);
      }
    }
    source.catchUp();
    assert.equal(source.lag, 0);
    assert.deepEqual(
      new Set(names(writes.list())),
      new Set(server.objects("things").map((object) => object.metadata.name)),
    );
  }
});

test("versions are compared as numbers of any length", () => {
  assert.ok(includesVersion("10", "9"));
  assert.ok(includesVersion("9007199254740993", "9007199254740992"));
  assert.ok(includesVersion("7", "7"));
  assert.ok(!includesVersion("9", "10"));
  for (const odd of [undefined, "", "abc", "0", "-1", "01"]) {
    assert.ok(!includesVersion(odd, "5"));
    assert.ok(!includesVersion("5", odd));
  }
});
