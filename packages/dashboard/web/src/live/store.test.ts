import assert from "node:assert/strict";
import { test } from "node:test";
import type { LiveChange, NodeRow } from "../../../src/shared/rows.ts";
import { LiveStore } from "./store.ts";

function put(name: string): LiveChange {
  return { op: "put", row: { kind: "node", namespace: "", name } as NodeRow };
}

function names(store: LiveStore): string[] {
  return [...store.state("node").rows.values()].map(({ name }) => name);
}

test("after a new list, what is no longer there goes; until it is complete nothing does", () => {
  const store = new LiveStore();
  store.apply([{ op: "reset", kind: "node" }, put("a"), put("b"), { op: "synced", kind: "node" }]);
  assert.deepEqual(names(store), ["a", "b"]);
  store.apply([{ op: "reset", kind: "node" }, put("b")]);
  assert.deepEqual(names(store), ["a", "b"]);
  store.apply([put("c"), { op: "synced", kind: "node" }]);
  assert.deepEqual(names(store), ["b", "c"]);
  assert.equal(store.state("node").synced, true);
});

test("a deleted object goes, and a kind that may not be seen says why", () => {
  const store = new LiveStore();
  store.apply([put("a"), { op: "delete", kind: "node", namespace: "", name: "a" }]);
  assert.deepEqual(names(store), []);
  store.apply([{ op: "denied", kind: "node", message: "no" }]);
  assert.equal(store.state("node").denied, "no");
});
