import assert from "node:assert/strict";
import { test } from "node:test";
import { defaultIdle, isIdleBetween, type Sample } from "./idle.ts";

const second = 1_000;

function sample(
  atMs: number,
  more: { cpuMs?: number; bytes?: number; open?: number; carried?: number },
): Sample {
  const { cpuMs = 0, bytes = 0, open = 0, carried = 0 } = more;
  return {
    stats: {
      at: new Date(Date.UTC(2030, 0, 1) + atMs).toISOString(),
      cpu: { usageNanos: cpuMs * 1e6 },
      memory: { residentBytes: 1 },
      disk: { allocatedBytes: 1, apparentBytes: 1 },
      network: { receivedBytes: bytes, sentBytes: 0 },
    },
    cpus: 2,
    openStreams: open,
    carried,
  };
}

test("idle is little CPU, no stream, nothing carried, hardly any traffic", () => {
  const before = sample(0, {});
  const after = (more: Parameters<typeof sample>[1]) =>
    isIdleBetween(before, sample(30 * second, more), defaultIdle);
  assert.equal(after({}), true);
  assert.equal(after({ cpuMs: 1_100 }), true, "1.8% of two CPUs");
  assert.equal(after({ cpuMs: 1_300 }), false, "2.2% of two CPUs");
  assert.equal(after({ open: 1 }), false);
  assert.equal(after({ carried: 1 }), false);
  assert.equal(after({ bytes: 10_000 }), true, "neighbours and clocks");
  assert.equal(after({ bytes: 100_000 }), false);
  assert.equal(isIdleBetween(before, before, defaultIdle), false, "no time has passed");
  assert.equal(
    isIdleBetween(sample(0, { cpuMs: 9_000 }), sample(30 * second, {}), defaultIdle),
    false,
    "a counter that began again says nothing",
  );
});
