import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { assertSlim } from "./build/assert-bundle.ts";
import { exchangeLines } from "./build/exchange-lines.ts";

test("a rule for lines of a source is applied, or stops the build", async (t) => {
  const root = await mkdtemp(join(tmpdir(), "cocoon-build-"));
  t.after(() => rm(root, { recursive: true }));
  await writeFile(join(root, "a.ts"), "one two three");
  const rule = { file: "a.ts", from: "two", to: "$&2" };
  const second = { file: "a.ts", from: "three", to: "3" };
  const changed = await exchangeLines([rule, second], root);
  assert.deepEqual([...changed], [[join(root, "a.ts"), "one $&2 3"]]);
  await assert.rejects(exchangeLines([{ ...rule, file: "moved.ts" }], root), /moved\.ts cannot be read/);
  await assert.rejects(exchangeLines([{ ...rule, from: "four" }], root), /a\.ts must say four once/);
});

test("a bundle with the models of Kubernetes stops the build", () => {
  const build = (bytesInOutput: number) => ({
    inputs: {},
    outputs: {
      "x.mjs": {
        bytes: 0,
        imports: [],
        exports: [],
        inputs: { "node_modules/@kubernetes/client-node/dist/gen/models/V1Pod.js": { bytesInOutput } },
      },
    },
  });
  assertSlim(build(500_000));
  assert.throws(() => assertSlim(build(5_000_000)), /x\.mjs has 5000000 bytes/);
});
