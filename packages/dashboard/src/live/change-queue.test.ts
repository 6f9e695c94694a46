import assert from "node:assert/strict";
import { test, mock } from "node:test";
import type { LiveChange, NodeRow } from "../shared/rows.ts";
import { ChangeQueue } from "./change-queue.ts";

function node(name: string, version: string): LiveChange {
  return { op: "put", row: { kind: "node", namespace: "", name, version } as NodeRow };
}

test("a browser that is behind gets the newest state of each object, not every state", () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const sent: (readonly LiveChange[])[] = [];
  const queue = new ChangeQueue((changes) => {
    sent.push(changes);
    return false; // full after each message
  });
  queue.add({ op: "reset", kind: "node" });
  queue.add(node("a", "1"));
  mock.timers.tick(25);
  for (let version = 2; version < 1_000; version += 1) queue.add(node("a", String(version)));
  queue.add({ op: "delete", kind: "node", namespace: "", name: "b" });
  mock.timers.tick(1_000);
  assert.equal(sent.length, 1);
  assert.equal(queue.size, 2);
  queue.resume();
  assert.deepEqual(sent[1], [node("a", "999"), { op: "delete", kind: "node", namespace: "", name: "b" }]);
  queue.stop();
  mock.timers.reset();
});
