import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { open, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import fc from "fast-check";
import { isFault } from "@cocoon/core";
import { temporaryDirectory } from "@cocoon/testkit";
import { countMissingClusters } from "./qcow2-allocation.ts";
import { createQcow2 } from "./qcow2.ts";

const cluster = 64 * 1024;
const virtualBytes = 2 * 1024 ** 3; // several L2 tables

function write(path: string, clusters: Iterable<number>, verb = "write -q"): void {
  const commands = [...clusters].flatMap((each) => ["-c", `${verb} ${each * cluster} ${cluster}`]);
  if (commands.length > 0) execFileSync("qemu-io", ["-f", "qcow2", ...commands, path]);
}

const clusters = fc.uniqueArray(fc.integer({ min: 0, max: virtualBytes / cluster - 1 }), { maxLength: 6 });

test("what lower layers hold and the top does not is counted, by any pattern of writes", async () => {
  await using directory = await temporaryDirectory();
  let round = 0;
  await fc.assert(
    fc.asyncProperty(clusters, clusters, clusters, async (inTop, inFirst, inSecond) => {
      round += 1;
      const [top, first, second] = ["top", "first", "second"].map((name) =>
        join(directory.path, `${name}-${round}`),
      ) as [string, string, string];
      for (const path of [top, first, second]) await createQcow2({ path, virtualBytes });
      write(top, inTop);
      write(first, inFirst);
      write(second, inSecond, "write -q -z");
      const missing = (wanted: readonly number[]) => wanted.filter((each) => !inTop.includes(each)).length;
      assert.equal(await countMissingClusters(top, [first, second]), missing(inFirst) + missing(inSecond));
    }),
    { numRuns: 12 },
  );
});

test("a file that cannot be judged is an error, never a proof", async () => {
  await using directory = await temporaryDirectory();
  const [top, cut, other] = ["top", "cut", "other"].map((name) => join(directory.path, name)) as [
    string,
    string,
    string,
  ];
  await createQcow2({ path: top, virtualBytes });
  await createQcow2({ path: cut, virtualBytes });
  write(cut, [5]);
  const file = await open(cut, "r+");
  await file.truncate(4 * cluster);
  await file.close();
  await writeFile(other, "no disk".padEnd(200));
  for (const path of [cut, other])
    await assert.rejects(countMissingClusters(top, [path]), (error) => isFault(error, "invalid"));
});
