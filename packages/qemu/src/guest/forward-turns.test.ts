import assert from "node:assert/strict";
import { test } from "node:test";
import { runInTurn, countWaiting } from "./forward-turns.ts";

const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0500587F:1F90 00000000:0000 0A 00000000:00000002 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0
   1: 0500587F:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 2 1 0 100 0 0 10 0
`;

test("the kernel's table says how many wait", () => {
  const end = (hostPort: number) => ({ hostAddress: "127.88.0.5", hostPort });
  assert.equal(countWaiting(table, end(8080)), 2);
  assert.equal(countWaiting(table, end(8081)), 0);
  assert.equal(countWaiting(table, end(8082)), 0, "no listener");
});

test("connections to one port take turns, a failed one does not hold up the next", async () => {
  const { signal } = new AbortController();
  const end = { hostAddress: "127.88.0.5", hostPort: 1 };
  const order: string[] = [];
  const slow = runInTurn(end, () => new Promise<void>((resolve) => setTimeout(resolve, 20)), { signal }).then(
    () => order.push("slow"),
  );
  const failed = runInTurn(end, () => Promise.reject(new Error("no")), { signal }).catch(() =>
    order.push("failed"),
  );
  const next = runInTurn(end, () => Promise.resolve(), { signal }).then(() => order.push("next"));
  await Promise.all([slow, failed, next]);
  assert.deepEqual(order, ["slow", "failed", "next"]);
});
