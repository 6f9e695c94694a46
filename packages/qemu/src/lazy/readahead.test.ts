import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { pageBytes } from "./fuse-messages.ts";
import { ReadaheadRefusals } from "./readahead.ts";

const read = fc.record({ file: fc.nat(1), first: fc.nat(60), pages: fc.integer({ min: 1, max: 20 }) });

test("no page is refused twice, and a single page never", () => {
  fc.assert(
    fc.property(fc.array(read, { maxLength: 60 }), (reads) => {
      const refusals = new ReadaheadRefusals({ tookOver: false });
      const refused = new Set<string>();
      for (const { file, first, pages } of reads) {
        const range = { offset: first * pageBytes, size: pages * pageBytes };
        if (!refusals.refuse(file, range)) continue;
        assert.ok(pages > 1);
        for (let page = first; page < first + pages; page += 1) {
          assert.ok(!refused.has(`${file} ${page}`), `page ${page} of file ${file}`);
          refused.add(`${file} ${page}`);
        }
      }
    }),
  );
});

test("the first guess is refused, and a server that took over refuses nothing", () => {
  const range = { offset: 0, size: 8 * pageBytes };
  assert.equal(new ReadaheadRefusals({ tookOver: false }).refuse(0, range), true);
  assert.equal(new ReadaheadRefusals({ tookOver: true }).refuse(0, range), false);
});
