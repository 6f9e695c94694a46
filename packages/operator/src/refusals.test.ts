/** Writes that the API server refuses: most refusals pass by themselves. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Fault } from "@cocoon/core";
import { cocoonSets } from "./kinds.ts";
import { Simulation } from "./testing/simulation.ts";

const { signal } = new AbortController();

test("a pod that is refused is tried again after a second, then with back-off to at most a minute", async () => {
  using world = new Simulation({ leavesTags: false });
  const metadata = { namespace: "lab", name: "s", generation: 1, creationTimestamp: "2026-05-01T00:00:00Z" };
  await world.people.create(cocoonSets, { metadata, spec: { agent: { image: "x" } } }, { signal });
  world.sync();
  world.refuse = new Fault("forbidden", "pods s-0 is forbidden: exceeded quota");
  const waits: number[] = [];
  for (let attempt = 0; attempt < 9; attempt += 1) {
    const outcome = await world.reconcileSet("s");
    assert.equal(outcome?.kind, "requeue");
    waits.push(outcome.afterMs);
  }
  const [first = 0] = waits;
  assert.ok(first >= 900 && first <= 1_000, `first retry after ${first} ms`);
  assert.ok(
    waits.every((ms, index) => index === 0 || ms > (waits[index - 1] ?? 0) * 0.85),
    waits.join(),
  );
  assert.ok(Math.max(...waits) <= 60_000 && Math.max(...waits) >= 54_000, waits.join());
  const [set] = world.sets();
  const degraded = set?.status?.conditions?.find(({ type }) => type === "Degraded");
  assert.deepEqual([degraded?.status, degraded?.reason], ["True", "Forbidden"]);
  world.refuse = undefined;
  world.sync();
  await world.reconcileSet("s");
  assert.equal(world.pods().length, 1);
});
