import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { isFault } from "@cocoon/core";
import { resourceType, type KubeObject } from "../object.ts";
import { findCondition, isConditionTrue, mergeConditions, withoutCondition } from "./conditions.ts";
import { addFinalizer, hasFinalizer, removeFinalizer } from "./finalizers.ts";
import { annotationChanges, patchAnnotations, patchChanges } from "./merge-writes.ts";
import {
  controllerOf,
  controllerReference,
  isControlledBy,
  withOwner,
  withoutOwner,
} from "./owner-references.ts";
import {
  annotationsChanged,
  deletionStarted,
  finalizersChanged,
  allOf,
  labelsChanged,
} from "./predicates.ts";
import { MemoryServer } from "./testing/memory-client.ts";

interface Thing extends KubeObject {
  readonly spec?: { readonly size?: number };
  readonly status?: { readonly phase?: string };
}

const things = resourceType<Thing>({
  group: "example.io",
  version: "v1",
  kind: "Thing",
  plural: "things",
  namespaced: true,
});
const options = { signal: new AbortController().signal };
const key = { namespace: "ns", name: "thing" };

async function existing(metadata: Partial<KubeObject["metadata"]> = {}) {
  const server = new MemoryServer();
  const client = server.client();
  const object = await client.create(
    things,
    { metadata: { ...key, ...metadata }, spec: { size: 1 } },
    options,
  );
  server.calls.length = 0;
  return { server, client, object };
}

describe("conditions", () => {
  const t1 = new Date("2026-01-01T00:00:00.500Z");
  const t2 = new Date("2026-01-02T00:00:00Z");

  test("the transition time moves only with the status", () => {
    const first = mergeConditions([], [{ type: "Ready", status: "False", reason: "Starting" }], t1);
    assert.deepEqual(first, [
      {
        type: "Ready",
        status: "False",
        reason: "Starting",
        message: "",
        lastTransitionTime: "2026-01-01T00:00:00Z",
      },
    ]);
    const reason = mergeConditions(
      first,
      [{ type: "Ready", status: "False", reason: "Pulling", message: "10 %", observedGeneration: 2 }],
      t2,
    );
    assert.equal(reason[0]?.lastTransitionTime, "2026-01-01T00:00:00Z");
    assert.equal(reason[0].reason, "Pulling");
    assert.equal(reason[0].observedGeneration, 2);
    const flipped = mergeConditions(reason, [{ type: "Ready", status: "True", reason: "Up" }], t2);
    assert.equal(flipped[0]?.lastTransitionTime, "2026-01-02T00:00:00Z");
    assert.ok(isConditionTrue(flipped, "Ready"));
  });

  test("others' conditions, their order and unknown fields are kept", () => {
    const foreign = { type: "Foreign", status: "True", lastProbeTime: "x" };
    const ours = {
      type: "Ready",
      status: "True",
      reason: "Up",
      message: "",
      lastTransitionTime: "t",
      extra: 1,
    };
    const merged = mergeConditions([foreign, ours], [{ type: "Ready", status: "True", reason: "Still" }], t1);
    assert.deepEqual(merged, [foreign, { ...ours, reason: "Still" }]);
  });

  test("nothing changed: the very same list", () => {
    const list = mergeConditions(undefined, [{ type: "Ready", status: "True", reason: "Up" }], t1);
    assert.equal(mergeConditions(list, [{ type: "Ready", status: "True", reason: "Up" }], t2), list);
    assert.equal(withoutCondition(list, "Other"), list);
    assert.deepEqual(withoutCondition(list, "Ready"), []);
    assert.equal(findCondition(list, "Other"), undefined);
  });

  test("a message is cut to what the server accepts", () => {
    const wanted = { type: "A", status: "True", reason: "R", message: "x".repeat(40_000) } as const;
    assert.equal(mergeConditions([], [wanted], t1)[0]?.message?.length, 32_768);
  });
});

describe("finalizers", () => {
  const finalizer = "example.io/one";

  test("added and removed once; nothing is sent when it is so already", async () => {
    const { server, client, object } = await existing();
    const added = await addFinalizer({ client, type: things, object, finalizer }, options);
    assert.deepEqual(added.metadata.finalizers, [finalizer]);
    assert.equal(await addFinalizer({ client, type: things, object: added, finalizer }, options), added);
    const removed = await removeFinalizer({ client, type: things, object: added, finalizer }, options);
    assert.equal(removed && hasFinalizer(removed, finalizer), false);
    assert.deepEqual(
      server.calls.map((call) => call.verb),
      ["patch", "patch"],
    );
  });

  test("an outdated view drops nobody else's finalizer", async () => {
    const { server, client, object } = await existing();
    await addFinalizer({ client, type: things, object, finalizer: "b" }, options);
    await addFinalizer({ client, type: things, object, finalizer: "a" }, options);
    await addFinalizer({ client, type: things, object, finalizer: "c" }, options);
    assert.deepEqual(server.objects("things")[0]?.metadata.finalizers, ["b", "a", "c"]);
    const stale = { ...object, metadata: { ...object.metadata, finalizers: ["a", "b"] } };
    await removeFinalizer({ client, type: things, object: stale, finalizer: "a" }, options);
    assert.deepEqual(server.objects("things")[0]?.metadata.finalizers, ["b", "c"]);
  });

  test("removing the last one of a deleted object lets it go; a repetition is fine", async () => {
    const { server, client, object } = await existing({ finalizers: [finalizer] });
    await client.delete(things, key, options);
    const target = { client, type: things, object, finalizer };
    await removeFinalizer(target, options);
    assert.deepEqual(server.objects("things"), []);
    assert.equal(await removeFinalizer(target, options), undefined);
  });

  test("too late, gone, or replaced: a conflict, and the successor is left alone", async () => {
    const { server, client, object } = await existing({ finalizers: ["other"] });
    const target = { client, type: things, object, finalizer };
    await client.delete(things, key, options);
    const isConflict = (error: unknown) => isFault(error, "conflict");
    const deleting = await client.get(things, key, options);
    await assert.rejects(addFinalizer({ ...target, object: deleting }, options), isConflict);
    await removeFinalizer({ ...target, finalizer: "other" }, options);
    await assert.rejects(addFinalizer(target, options), isConflict);
    await client.create(things, { metadata: { ...key, finalizers: ["other"] } }, options);
    await assert.rejects(addFinalizer(target, options), isConflict);
    assert.equal(await removeFinalizer({ ...target, finalizer: "other" }, options), undefined);
    assert.deepEqual(server.objects("things")[0]?.metadata.finalizers, ["other"]);
  });
});

describe("merge writes", () => {
  test("annotations: only what differs is sent, and nothing when nothing does", async () => {
    const { server, client, object } = await existing({ annotations: { keep: "1", change: "1", drop: "1" } });
    const target = { client, type: things, object };
    const wanted = { keep: "1", change: "2", drop: null, never: undefined, add: "" };
    assert.deepEqual(annotationChanges(object, wanted), { change: "2", drop: null, add: "" });
    const changed = await patchAnnotations(target, wanted, options);
    assert.deepEqual(changed.metadata.annotations, { keep: "1", change: "2", add: "" });
    assert.equal(await patchAnnotations({ ...target, object: changed }, wanted, options), changed);
    assert.equal(server.calls.length, 1);
    assert.equal(annotationChanges({ metadata: {} }, { toString: null }), undefined);
  });

  test("changes: the difference alone, with the version when asked", async () => {
    const { server, client, object } = await existing();
    const target = { client, type: things, object };
    assert.equal(await patchChanges(target, { ...object }, options), object);
    await patchAnnotations(target, { other: "writer" }, options);
    const grown = await patchChanges(target, { ...object, spec: { size: 2 } }, options);
    assert.equal(grown.spec?.size, 2);
    assert.equal(grown.metadata.annotations?.["other"], "writer");
    assert.deepEqual(server.calls.at(-1)?.body, {
      spec: { size: 2 },
      metadata: { uid: object.metadata.uid },
    });
    const wanted = { ...object, spec: { size: 3 } };
    await assert.rejects(patchChanges(target, wanted, { ...options, exactVersion: true }), (error) =>
      isFault(error, "conflict"),
    );
  });
});

test("merge writes: an object of the same name that came later is left alone", async () => {
  const { server, client, object } = await existing();
  await client.delete(things, key, options);
  await client.create(things, { metadata: key }, options);
  await assert.rejects(patchAnnotations({ client, type: things, object }, { a: "1" }, options), (error) =>
    isFault(error, "conflict"),
  );
  assert.equal(server.objects("things")[0]?.metadata.annotations, undefined);
});

describe("owner references", () => {
  const owner = { metadata: { name: "o", uid: "u1" } };
  const reference = controllerReference(things, owner);

  test("one managing owner, found by uid", () => {
    const object = { metadata: { name: "c", ownerReferences: [reference] } };
    assert.deepEqual(reference, {
      apiVersion: "example.io/v1",
      kind: "Thing",
      name: "o",
      uid: "u1",
      controller: true,
      blockOwnerDeletion: true,
    });
    assert.equal(controllerOf(object)?.uid, "u1");
    assert.ok(isControlledBy(object, owner));
    assert.ok(!isControlledBy(object, { metadata: { name: "o", uid: "u2" } }));
    assert.ok(!isControlledBy({ metadata: { name: "c" } }, { metadata: { name: "o" } }));
    assert.throws(() => controllerReference(things, { metadata: { name: "unsaved" } }), /uid/);
  });

  test("added once, replaced when it changed, refused when another one manages", () => {
    const other = { ...reference, uid: "u2", name: "p", controller: false };
    const list = withOwner([other], reference);
    assert.deepEqual(list, [other, reference]);
    assert.equal(withOwner(list, { ...reference }), list);
    const newer = { ...reference, apiVersion: "example.io/v2" };
    assert.deepEqual(withOwner(list, newer), [other, newer]);
    assert.throws(
      () => withOwner([{ ...other, controller: true }], reference),
      (error) => isFault(error, "conflict"),
    );
    assert.deepEqual(withoutOwner(list, "u1"), [other]);
  });
});

test("predicates let pass what they name, and every creation and deletion", () => {
  const plain: KubeObject = { metadata: { name: "a" } };
  const update = (metadata: KubeObject["metadata"]) =>
    ({ kind: "updated", old: plain, object: { metadata } }) as const;
  const cases = [
    [annotationsChanged, { name: "a", annotations: { x: "1" } }],
    [labelsChanged, { name: "a", labels: { x: "1" } }],
    [finalizersChanged, { name: "a", finalizers: ["x"] }],
    [deletionStarted, { name: "a", deletionTimestamp: "t" }],
  ] as const;
  for (const [predicate, metadata] of cases) {
    assert.equal(predicate(update(metadata)), true);
    assert.equal(predicate(update({ name: "a", generation: 7 })), false);
    assert.equal(predicate({ kind: "added", object: plain, initial: false }), true);
    assert.equal(predicate({ kind: "deleted", object: plain }), true);
  }
  assert.equal(allOf(labelsChanged, annotationsChanged)(update({ name: "a", labels: { x: "1" } })), false);
});
