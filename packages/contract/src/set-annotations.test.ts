import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { setAnnotation } from "./keys.ts";
import {
  extendDeleteList,
  readDeleteList,
  readRebuildHistory,
  writeDeleteList,
  writeRebuildHistory,
  type Rebuilds,
} from "./set-annotations.ts";

const history = (text: string) => readRebuildHistory({ [setAnnotation.rebuildHistory]: text });

test("a rebuild history on the wire is read and written as ever", () => {
  const text = '{"2":{"count":1,"lastDeleted":"2026-05-14T01:00:00Z"}}';
  assert.deepEqual([...history(text)], [[2, { count: 1, lastDeleted: new Date("2026-05-14T01:00:00Z") }]]);
  assert.equal(writeRebuildHistory(history(text)), text);
  assert.equal(writeRebuildHistory(new Map()), "");
});

test("every rebuild history survives being written and read", () => {
  const rebuilds: fc.Arbitrary<Rebuilds> = fc
    .tuple(fc.nat(99), fc.integer({ min: 0, max: 4_000_000_000 }))
    .map(([count, seconds]) => ({ count, lastDeleted: new Date(seconds * 1000) }));
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.nat(500), rebuilds), { maxLength: 8 }), (entries) => {
      const written = new Map(entries);
      const sorted = [...written].sort(([left], [right]) => left - right);
      assert.deepEqual([...history(writeRebuildHistory(written))], sorted);
    }),
  );
});

test("text that makes no sense is no history", () => {
  const nonsense = ["", "null", "[]", "{", '"x"', '{"2":null}', '{"2":{"count":"1"}}', '{"-1":{"count":1}}'];
  for (const text of [
    ...nonsense,
    '{"02":{"count":1,"lastDeleted":"2026-05-14T01:00:00Z"}}',
    '{"2":{"count":1,"lastDeleted":"soon"}}',
  ])
    assert.equal(history(text).size, 0, text);
  assert.equal(readRebuildHistory(undefined).size, 0);
});

test("the delete list is sorted, trimmed, without doubles, and only grows", () => {
  const annotations = { [setAnnotation.deleteVmNames]: " vk-b , vk-a,,vk-b" };
  assert.deepEqual(readDeleteList(annotations), ["vk-a", "vk-b"]);
  assert.deepEqual(readDeleteList(undefined), []);
  assert.equal(writeDeleteList(["vk-c", "vk-a", "vk-c"]), "vk-a,vk-c");
  assert.deepEqual(extendDeleteList(annotations, ["vk-0"]), ["vk-0", "vk-a", "vk-b"]);
  const names = fc.array(fc.stringMatching(/^[a-z0-9-]{1,8}$/));
  fc.assert(
    fc.property(names, (list) => {
      const text = writeDeleteList(list);
      assert.deepEqual(readDeleteList({ [setAnnotation.deleteVmNames]: text }), [...new Set(list)].sort());
    }),
  );
});
