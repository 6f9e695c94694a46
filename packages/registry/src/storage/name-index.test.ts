import assert from "node:assert/strict";
import { describe, it } from "node:test";
import * as fc from "fast-check";
import { NameIndex } from "./name-index.ts";

const name = fc.constantFrom("a", "a-b", "a.c", "b", "B", "_x", "z9", "zz");

describe("name index", () => {
  it("shows the same pages as a sorted listing, whatever changed before", async () => {
    const change = fc.record({ name, isThere: fc.boolean() });
    const property = fc.asyncProperty(
      fc.record({ initial: fc.array(name), changes: fc.array(change), after: name, limit: fc.nat(5) }),
      async ({ initial, changes, after, limit }) => {
        const names = new Set(initial);
        const index = new NameIndex(async () => [...names]);
        await index.page("d", { after: "", limit: 1 });
        for (const each of changes) {
          if (each.isThere) names.add(each.name);
          else names.delete(each.name);
          if (each.isThere) index.added("d", each.name);
          else index.removed("d", each.name);
        }
        const expected = [...names]
          .sort()
          .filter((each) => each > after)
          .slice(0, limit);
        assert.deepEqual(await index.page("d", { after, limit }), expected);
      },
    );
    await fc.assert(property);
  });

  it("applies changes that arrive while the directory is read", async () => {
    const read = Promise.withResolvers<string[]>();
    const index = new NameIndex(() => read.promise);
    const page = index.page("d", { after: "", limit: 10 });
    index.added("d", "new");
    index.removed("d", "old");
    read.resolve(["old", "kept"]);
    assert.deepEqual(await page, ["kept", "new"]);
  });

  it("reads again after a failure", async () => {
    let fails = true;
    const index = new NameIndex(async () => {
      if (fails) throw new Error("disk");
      return ["a"];
    });
    await assert.rejects(index.page("d", { after: "", limit: 1 }), /disk/);
    fails = false;
    assert.deepEqual(await index.page("d", { after: "", limit: 1 }), ["a"]);
  });
});
