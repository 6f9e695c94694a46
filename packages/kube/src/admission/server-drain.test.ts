import assert from "node:assert/strict";
import { test } from "node:test";
import { sleep } from "@cocoon/core";
import { count, eventually, seededRandom, testSeed } from "@cocoon/testkit";
import { allow, type AdmissionEndpoint } from "./index.ts";
import { podReview, startTestServer, testClient, type TestClient } from "./testing/review-client.ts";

/** Answers after up to 30 ms, so that there is always something open. */
function slow(name: string, random: () => number): AdmissionEndpoint {
  return {
    name,
    handler: async (_request, { signal }) => {
      await sleep(random() * 30, { signal });
      return allow();
    },
  };
}

test("a server that stops under load loses no request", async (t) => {
  const random = seededRandom(testSeed());
  const endpoints = { "/slow": slow("slow", random) };
  const staying = await startTestServer({ endpoints });
  t.after(() => staying.stop());
  using stayingClient = testClient(staying.url);
  const review = podReview();
  for (let round = 0; round < count({ small: 2, full: 10 }); round += 1) {
    const leaving = await startTestServer({ endpoints, lameDuckMs: 3_000, drainMs: 10_000 });
    using leavingClient = testClient(leaving.url);
    let balanced = [leavingClient, stayingClient];
    const load = new AbortController();
    let answered = 0;
    const lost: unknown[] = [];
    const ask = async (client: TestClient | undefined): Promise<void> => {
      try {
        const asked = await client?.review("/slow?timeout=10s", review);
        assert.equal(asked?.response["allowed"], true);
        answered += 1;
      } catch (error) {
        lost.push(error);
      }
    };
    const loops = Array.from({ length: 12 }, async (_, each) => {
      for (let turn = each; !load.signal.aborted; turn += 1) await ask(balanced[turn % balanced.length]);
    });
    await eventually(() => assert.ok(answered >= 50), { timeoutMs: 60_000 });
    const before = answered;
    const leavingStopped = leaving.stop();
    // A load balancer learns from the readiness check, a while later, to send no more.
    await sleep(100, { signal: t.signal });
    assert.notEqual(await leaving.readiness(), undefined);
    balanced = [stayingClient];
    await leavingStopped;
    load.abort();
    await Promise.all(loops);
    assert.deepEqual(lost, []);
    assert.ok(answered > before, `${before} before, ${answered} in all`);
  }
});

test("what does not finish within the drain is cut, and stopping ends", async () => {
  const entered = Promise.withResolvers<void>();
  const never: AdmissionEndpoint = {
    name: "never",
    handler: () => {
      entered.resolve();
      return new Promise(() => undefined);
    },
  };
  const server = await startTestServer({ endpoints: { "/never": never }, drainMs: 100 });
  using client = testClient(server.url);
  const open = assert.rejects(client.send("/never", { body: JSON.stringify(podReview()) }));
  await entered.promise;
  await Promise.all([server.stop(), server.stop()]);
  await open;
});
