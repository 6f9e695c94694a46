import assert from "node:assert/strict";
import { test } from "node:test";
import { isSameSpec } from "./same-spec.ts";

test("specs that mean the same", () => {
  const same: readonly (readonly [unknown, unknown])[] = [
    [undefined, null],
    [{}, { a: null }],
    [{ agent: { storage: "1024Mi" } }, { agent: { storage: "1Gi" } }],
    [{ agent: { storage: 1024 } }, { agent: { storage: "1Ki" } }],
    [{ resources: { limits: { cpu: "500m" } } }, { resources: { limits: { cpu: "0.5" } } }],
    [{ toolboxes: [{ name: "a", image: null }] }, { toolboxes: [{ name: "a" }] }],
    [{ toolboxes: [] }, {}],
    [{ suspend: false }, {}],
    [{ agent: { probePort: 0, image: "a" } }, { agent: { image: "a" } }],
    [{ nodeName: "" }, { nodeName: null }],
    [{ agent: { image: "a", resources: { limits: {} } } }, { agent: { image: "a" } }],
  ];
  for (const [one, other] of same) {
    assert.ok(isSameSpec(one, other), JSON.stringify([one, other]));
    assert.ok(isSameSpec(other, one));
  }
});

test("specs that differ", () => {
  const different: readonly (readonly [unknown, unknown])[] = [
    [{}, { a: 1 }],
    [{ a: 1 }, undefined],
    [{ agent: { storage: "1Gi" } }, { agent: { storage: "2Gi" } }],
    [{ agent: { storage: "1Gi" } }, { agent: {} }],
    [{ agent: { storage: 0 } }, { agent: {} }],
    [{ suspend: true }, {}],
    [{ toolboxes: [{}] }, { toolboxes: [] }],
    [{ network: "1024" }, { network: "1Ki" }],
    [{ toolboxes: [{ name: "a" }] }, { toolboxes: [] }],
    [{ resources: { limits: { cpu: "1" } } }, { resources: { limits: { memory: "1" } } }],
  ];
  for (const [one, other] of different) {
    assert.ok(!isSameSpec(one, other), JSON.stringify([one, other]));
    assert.ok(!isSameSpec(other, one));
  }
});
