import assert from "node:assert/strict";
import { test } from "node:test";
import { startHealthServer } from "./health.ts";
import { createRegistry } from "./metrics.ts";

test("alive at once, ready only when started, checked and not stopping", async () => {
  let problem: string | undefined = "cache is not synced";
  await using health = await startHealthServer({
    host: "127.0.0.1",
    port: 0,
    registry: createRegistry("demo"),
    checks: { cache: () => problem },
    checkTimeoutMs: 100,
  });
  const get = async (path: string) => {
    const response = await fetch(`${health.url}${path}`);
    return { status: response.status, text: await response.text() };
  };
  assert.equal((await get("/healthz")).status, 200);
  assert.deepEqual(await get("/readyz"), {
    status: 503,
    text: "[-] starting\n[-] cache: cache is not synced\n",
  });
  health.markReady();
  assert.equal((await get("/readyz")).status, 503);
  problem = undefined;
  assert.deepEqual(await get("/readyz"), { status: 200, text: "[+] started\n[+] cache\n" });
  health.addCheck("hanging", () => new Promise(() => undefined));
  assert.match((await get("/readyz")).text, /hanging: no answer within 100 ms/);
  health.addCheck("hanging", () => {
    throw new Error("broken");
  });
  assert.match((await get("/readyz")).text, /hanging: broken/);
  health.addCheck("hanging", () => undefined);
  health.markStopping();
  assert.equal((await get("/readyz")).status, 503);
  assert.match((await get("/metrics")).text, /cocoon_build_info\{program="demo"/);
  assert.equal((await get("/nothing")).status, 404);
});
