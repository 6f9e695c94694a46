import assert from "node:assert/strict";
import { setImmediate as tick } from "node:timers/promises";
import { describe, it } from "node:test";
import { DirectorySync } from "./directory-sync.ts";

/** A flush that ends when the test says so. */
function controlled() {
  const flushes: { directory: string; end: () => void; fail: (error: Error) => void }[] = [];
  const sync = new DirectorySync((directory) => {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    flushes.push({ directory, end: resolve, fail: reject });
    return promise;
  });
  return { sync, flushes };
}

describe("directory sync", () => {
  it("lets all commits that arrive during one flush share the next", async () => {
    const { sync, flushes } = controlled();
    const first = sync.sync("/a");
    const later = [sync.sync("/a"), sync.sync("/a"), sync.sync("/a")];
    let done = false;
    const all = Promise.all(later).then(() => (done = true));
    flushes[0]?.end();
    await first;
    await tick();
    assert.equal(flushes.length, 2, "one more flush for all three");
    assert.equal(done, false, "the first flush may have missed their changes");
    flushes[1]?.end();
    await all;
    const again = sync.sync("/a");
    assert.equal(flushes.length, 3, "what came after needs another one");
    flushes[2]?.end();
    await again;
  });

  it("keeps directories apart", async () => {
    const { sync, flushes } = controlled();
    const both = [sync.sync("/a"), sync.sync("/b")];
    assert.deepEqual(
      flushes.map((flush) => flush.directory),
      ["/a", "/b"],
    );
    for (const flush of flushes) flush.end();
    await Promise.all(both);
  });

  it("fails only the commits that waited for a failed flush", async () => {
    const { sync, flushes } = controlled();
    const first = sync.sync("/a");
    const second = sync.sync("/a");
    flushes[0]?.fail(new Error("disk"));
    await assert.rejects(first, /disk/);
    await tick();
    flushes[1]?.end();
    await second;
  });
});
