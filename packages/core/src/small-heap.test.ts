import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";

/** Grows to 60 MB, lets go of it, and waits in peace until the heap is small again. */
const program = `
  import { getHeapStatistics } from "node:v8";
  import { keepHeapSmall } from ${JSON.stringify(join(import.meta.dirname, "small-heap.ts"))};
  keepHeapSmall({ giveBack: true, lookEveryMs: 100 });
  const megabytes = () => getHeapStatistics().total_heap_size / 1e6;
  let burst = Array.from({ length: 1_500_000 }, (_, index) => ({ index }));
  const grown = megabytes();
  burst = undefined;
  for (let waited = 0; waited < 100 && megabytes() > 30; waited += 1)
    await new Promise((resolve) => setTimeout(resolve, 100));
  console.log(JSON.stringify({ grown, left: megabytes() }));
`;

test("what a burst needed is given back once it is quiet", async () => {
  const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "-e", program]);
  const { grown, left } = JSON.parse(stdout) as { grown: number; left: number };
  assert.ok(grown > 50, `grew to ${grown} MB only`);
  assert.ok(left < 30, `still ${left} MB of ${grown}`);
});
