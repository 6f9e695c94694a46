import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { RepositoryName, Tag } from "../names.ts";
import { planRetention, readRetentionRules } from "./retention.ts";

const hour = 3_600_000;
const nowMs = 1_000 * hour;

function plan(rules: string, name: string, hoursOld: Record<string, number>): Tag[] {
  const tags = Object.entries(hoursOld).map(([tag, age]) => ({
    tag: tag as Tag,
    pushedAtMs: nowMs - age * hour,
  }));
  return planRetention(readRetentionRules(rules), { name: name as RepositoryName, tags, nowMs }).sort();
}

describe("retention", () => {
  it("removes nothing without a rule, and nothing a rule does not match", () => {
    const tags = { old: 900, "released-1": 900 };
    assert.deepEqual(plan("", "vk-a", tags), []);
    assert.deepEqual(plan("other-*:* age=1h", "vk-a", tags), []);
    assert.deepEqual(plan("vk-*:released-* age=1h", "vk-a", tags), ["released-1"]);
  });

  it("keeps the newest, and what is young", () => {
    const tags = { a: 1, b: 2, c: 30, d: 40 };
    assert.deepEqual(plan("*:* keep=3", "r", tags), ["d"]);
    assert.deepEqual(plan("*:* age=24h", "r", tags), ["c", "d"]);
    assert.deepEqual(plan("*:* keep=3 age=24h", "r", tags), ["d"]);
    assert.deepEqual(plan("*:* age=2h keep=0", "r", tags), ["c", "d"], "exactly as old as allowed stays");
  });

  it("lets the first matching rule decide", () => {
    assert.deepEqual(plan("*:v* keep=100; *:* keep=0 age=0", "r", { v1: 900, x: 1 }), ["x"]);
  });

  it("never removes a hibernated machine", () => {
    const kept = { hibernate: 900, hibernated: 900, "waking-node-1": 900 };
    assert.deepEqual(plan("*:* keep=0", "vk-a", { ...kept, latest: 900 }), ["latest"]);
    assert.deepEqual(plan("*:hibernate* age=1h; *:waking-* age=1h", "vk-a", kept), []);
  });

  for (const bad of [
    "*",
    "*:*",
    "*:* keep=x",
    "*:* keep=-1",
    "*:* age=soon",
    "*:* until=1h",
    "A:* keep=1",
    "a:b:c keep=1",
  ])
    it(`refuses the rule ${bad}`, () => {
      assert.throws(() => readRetentionRules(bad), /retention rule/);
    });
});
