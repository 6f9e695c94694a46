import assert from "node:assert/strict";
import { test } from "node:test";
import { count, testSeed } from "@cocoon/testkit";
import fc from "fast-check";
import { readSet } from "./cocoonset-shape.ts";

const runs = { numRuns: count({ small: 300, full: 5_000 }), seed: testSeed() };

/** Sets in which any field may be of any type. */
const anything = fc.oneof(fc.jsonValue({ maxDepth: 2 }), fc.string(), fc.integer(), fc.constant(null));
const machine = fc.dictionary(
  fc.constantFrom(
    "name",
    "image",
    "mode",
    "os",
    "replicas",
    "probePort",
    "storage",
    "forcePull",
    "resources",
  ),
  anything,
);
const set = fc.record(
  {
    metadata: fc.oneof(fc.record({ name: anything }), anything),
    spec: fc.oneof(
      fc.record(
        {
          suspend: anything,
          nodePool: anything,
          agent: fc.oneof(machine, anything),
          toolboxes: fc.oneof(fc.array(fc.oneof(machine, anything), { maxLength: 3 }), anything),
        },
        { requiredKeys: [] },
      ),
      anything,
    ),
  },
  { requiredKeys: [] },
);

test("whatever comes is read into the right types, or refused by the names of its fields", () => {
  fc.assert(
    fc.property(set, (object) => {
      const read = readSet(object);
      if (read.kind === "fault")
        return assert.match(read.message, /^(metadata|spec)[\w.[\]]*: must be (a|an|true) /);
      const { agent, toolboxes = [], suspend, nodePool } = read.spec;
      assert.ok(["boolean", "undefined"].includes(typeof suspend));
      assert.equal(typeof nodePool, "string");
      for (const { image, mode, os, probePort, storage } of agent ? [agent, ...toolboxes] : toolboxes) {
        for (const text of [image, mode, os]) assert.equal(typeof text, "string");
        assert.ok(probePort === undefined || Number.isSafeInteger(probePort));
        assert.ok(["string", "number", "undefined"].includes(typeof storage));
      }
    }),
    runs,
  );
});

test("every wrong field is named, also inside lists and amounts", () => {
  const wrong = {
    spec: {
      suspend: "yes",
      agent: { image: 7, replicas: 1.5, resources: { limits: { cpu: [] } } },
      toolboxes: [{ name: "box", vncPort: "5900" }, 3],
    },
  };
  const read = readSet(wrong);
  assert.equal(
    read.kind === "fault" ? read.message.split("; ").toSorted().join("\n") : "",
    [
      "spec.agent.image: must be a text",
      "spec.agent.replicas: must be a whole number",
      "spec.agent.resources.limits.cpu: must be a quantity",
      "spec.suspend: must be true or false",
      "spec.toolboxes[0].vncPort: must be a whole number",
      "spec.toolboxes[1]: must be an object",
    ].join("\n"),
  );
});

test("null is as if it were not there", () => {
  const read = readSet({ metadata: null, spec: { agent: { image: null, storage: null }, toolboxes: null } });
  assert.deepEqual(read, readSet({ spec: { agent: {} } }));
});
