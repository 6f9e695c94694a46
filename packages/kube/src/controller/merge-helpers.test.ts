import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { isFault } from "@cocoon/core";
import { resourceType, type KubeObject } from "../object.ts";
import { addFinalizer, hasFinalizer, removeFinalizer } from "./finalizers.ts";
import {
  annotationChanges,
  controllerReference,
  findController,
  isControlledBy,
  withoutOwner,
} from "./owner-references.ts";
import { FakeCluster } from "./testing/fake-cluster.ts";

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
  const server = new FakeCluster();
  const client = server.client();
  const object = await client.create(
    things,
    { metadata: { ...key, ...metadata }, spec: { size: 1 } },
    options,
  );
  server.calls.length = 0;
  return { server, client, object };
}

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

  test("an outdated view drops no finalizer of another writer", async () => {
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

test("annotation changes are only what differs, and undefined when nothing does", () => {
  const object = { metadata: { annotations: { keep: "1", change: "1", drop: "1" } } };
  const wanted = { keep: "1", change: "2", drop: null, never: undefined, add: "" };
  assert.deepEqual(annotationChanges(object, wanted), { change: "2", drop: null, add: "" });
  assert.equal(annotationChanges({ metadata: {} }, { toString: null }), undefined);
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
    assert.equal(findController(object)?.uid, "u1");
    assert.ok(isControlledBy(object, owner));
    assert.ok(!isControlledBy(object, { metadata: { name: "o", uid: "u2" } }));
    assert.ok(!isControlledBy({ metadata: { name: "c" } }, { metadata: { name: "o" } }));
    assert.deepEqual(withoutOwner([reference, { ...reference, uid: "u2" }], "u1"), [
      { ...reference, uid: "u2" },
    ]);
    assert.throws(() => controllerReference(things, { metadata: { name: "unsaved" } }), /uid/);
  });
});
