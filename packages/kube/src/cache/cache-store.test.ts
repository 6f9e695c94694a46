import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { testSeed } from "@cocoon/testkit";
import { CacheStore, type CacheEvent } from "./cache-store.ts";
import { testObject, type TestObject } from "../testing/fake-connection.ts";

type Step =
  | { readonly do: "put"; readonly name: string; readonly uid: string; readonly colour: string }
  | { readonly do: "remove"; readonly name: string }
  | { readonly do: "swap"; readonly names: readonly string[]; readonly colour: string };

const name = fc.constantFrom("a", "b", "c", "d");
const colour = fc.constantFrom("red", "blue", "");
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ do: fc.constant("put" as const), name, uid: fc.constantFrom("1", "2"), colour }),
  fc.record({ do: fc.constant("remove" as const), name }),
  fc.record({ do: fc.constant("swap" as const), names: fc.uniqueArray(name), colour }),
);

/** What a listener knows that believes every event and looks at nothing else. */
function believe(known: Map<string, TestObject>, events: readonly CacheEvent<TestObject>[]): void {
  for (const event of events) {
    const { object } = event;
    const before = known.get(object.metadata.name);
    if (event.kind === "added") assert.equal(before, undefined, "added twice");
    if (event.kind === "deleted") assert.notEqual(before, undefined, "deleted what was not there");
    if (event.kind === "updated") {
      assert.equal(before, event.old, "the old state is the one that was reported before");
      assert.equal(before?.metadata.uid, object.metadata.uid, "an update never changes the identity");
    }
    if (event.kind === "deleted") known.delete(object.metadata.name);
    else known.set(object.metadata.name, object);
  }
}

test("events alone rebuild the store, and indexes agree with it, after any sequence of changes", () => {
  const readColours = (object: TestObject) => [object.data["colour"] ?? ""].filter(Boolean);
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      const store = new CacheStore<TestObject>(() => assert.fail());
      const index = store.index(readColours);
      const known = new Map<string, TestObject>();
      let version = 0;
      for (const each of steps) {
        version += 1;
        if (each.do === "put")
          believe(
            known,
            store.put(
              each.name,
              testObject(each.name, `${version}`, { uid: each.uid, data: { colour: each.colour } }),
            ),
          );
        else if (each.do === "remove") believe(known, store.remove(each.name));
        else {
          const objects = each.names.map(
            (key) => [key, testObject(key, `${version}`, { data: { colour: each.colour } })] as const,
          );
          believe(known, store.swap(new Map(objects), { keep: (key) => key === "d", initial: false }));
        }
        assert.deepEqual(new Set(store.values()), new Set(known.values()));
        for (const value of ["red", "blue"]) {
          const expected = [...known.values()].filter((object) => readColours(object).includes(value));
          assert.deepEqual(new Set(index.get(value)), new Set(expected));
        }
      }
    }),
    { seed: testSeed(), numRuns: 500 },
  );
});
