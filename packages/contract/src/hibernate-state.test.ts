import assert from "node:assert/strict";
import { test } from "node:test";
import {
  generationPatch,
  hibernatePatch,
  keepSnapshotOnDeletePatch,
  readGeneration,
  readHibernate,
  readKeepSnapshotOnDelete,
  readRestoreFromHibernate,
} from "./hibernate-state.ts";
import { annotation, legacyAnnotation } from "./keys.ts";

const asleep = { [annotation.hibernate]: "true" };
const asleepByHand = { [legacyAnnotation.hibernate]: "true" };
const patch = (annotations: Record<string, string | null>) => ({ metadata: { annotations } });

test("the wish to sleep is read from either key, the new one first", () => {
  assert.equal(readHibernate(asleep), true);
  assert.equal(readHibernate(asleepByHand), true);
  assert.equal(readHibernate({ ...asleepByHand, [annotation.hibernate]: "false" }), false);
  assert.equal(readHibernate({ [annotation.hibernate]: "yes" }), false);
  assert.equal(readHibernate(undefined), false);
});

test("sleeping writes true, waking removes both keys, and nothing is sent in vain", () => {
  assert.deepEqual(hibernatePatch(undefined, true), patch({ [annotation.hibernate]: "true" }));
  assert.equal(hibernatePatch(asleep, true), undefined);
  assert.deepEqual(
    hibernatePatch(asleep, true, { legacyKeys: true }),
    patch({ [legacyAnnotation.hibernate]: "true" }),
  );
  assert.equal(hibernatePatch(undefined, false), undefined);
  assert.deepEqual(hibernatePatch(asleep, false), patch({ [annotation.hibernate]: null }));
  assert.deepEqual(
    hibernatePatch({ ...asleep, ...asleepByHand }, false),
    patch({ [annotation.hibernate]: null, [legacyAnnotation.hibernate]: null }),
  );
});

test("the other flags follow the same rules", () => {
  assert.equal(readRestoreFromHibernate({ [annotation.restoreFromHibernate]: "true" }), true);
  assert.equal(readRestoreFromHibernate({ [annotation.restoreFromHibernate]: "TRUE" }), false);
  assert.equal(readKeepSnapshotOnDelete({ [annotation.keepSnapshotOnDelete]: "true" }), true);
  assert.deepEqual(keepSnapshotOnDeletePatch({}, true), patch({ [annotation.keepSnapshotOnDelete]: "true" }));
  assert.equal(keepSnapshotOnDeletePatch({ [annotation.keepSnapshotOnDelete]: "true" }, true), undefined);
  assert.equal(keepSnapshotOnDeletePatch({}, false), undefined);
});

test("a generation that cannot be read is 0, and is stamped only when it changes", () => {
  for (const [text, generation] of [
    ["7", 7],
    ["", 0],
    ["x", 0],
    ["-1", 0],
    ["1.5", 0],
  ] as const)
    assert.equal(readGeneration({ [annotation.generation]: text }), generation, text);
  assert.equal(generationPatch({ [annotation.generation]: "7" }, 7), undefined);
  assert.deepEqual(
    generationPatch({ [annotation.generation]: "7" }, 8),
    patch({ [annotation.generation]: "8" }),
  );
});
