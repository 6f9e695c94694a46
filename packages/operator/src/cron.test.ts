import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { parseCron } from "./cron.ts";

const rows: readonly (readonly [cron: string, zone: string, now: string, previous: string, next: string])[] =
  [
    ["0 22 * * *", "UTC", "2026-03-01T12:00:00Z", "2026-02-28T22:00:00Z", "2026-03-01T22:00:00Z"],
    ["0 22 * * *", "Europe/Berlin", "2026-01-10T12:00:00Z", "2026-01-09T21:00:00Z", "2026-01-10T21:00:00Z"],
    ["30 7 * * 1-5", "UTC", "2026-11-15T12:00:00Z", "2026-11-13T07:30:00Z", "2026-11-16T07:30:00Z"],
    ["*/15 9-17 * * mon,fri", "UTC", "2026-11-13T09:20:00Z", "2026-11-13T09:15:00Z", "2026-11-13T09:30:00Z"],
    ["@daily", "America/New_York", "2026-07-01T03:59:00Z", "2026-06-30T04:00:00Z", "2026-07-01T04:00:00Z"],
    ["5/15 * * * *", "UTC", "2026-03-01T12:00:00Z", "2026-03-01T11:50:00Z", "2026-03-01T12:05:00Z"],
    ["0 22 * * *", "UTC", "2026-03-01T22:00:00Z", "2026-03-01T22:00:00Z", "2026-03-02T22:00:00Z"],
    ["0 0 29 2 *", "UTC", "2026-11-15T00:00:00Z", "2024-02-29T00:00:00Z", "2028-02-29T00:00:00Z"],
    ["0 0 13 * 5", "UTC", "2026-11-15T00:00:00Z", "2026-11-13T00:00:00Z", "2026-11-20T00:00:00Z"],
    // The clock jumps from 2 to 3: half past two comes at three.
    ["30 2 * * *", "Europe/Berlin", "2026-03-29T12:00:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"],
    // It is half past two twice: the first one counts.
    ["30 2 * * *", "Europe/Berlin", "2026-10-25T12:00:00Z", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"],
  ];

test("a cron expression fires when the zone's clock says so", () => {
  for (const [cron, zone, now, previous, next] of rows) {
    const parsed = parseCron(cron, zone);
    assert.equal(
      parsed.previous(new Date(now))?.toISOString(),
      previous.replace("Z", ".000Z"),
      `${cron} before`,
    );
    assert.equal(parsed.next(new Date(now))?.toISOString(), next.replace("Z", ".000Z"), `${cron} after`);
  }
});

test("between the previous and the next time lies now, and nothing else", () => {
  const time = fc.integer({ min: Date.UTC(2024, 0), max: Date.UTC(2030, 0) });
  const zones = fc.constantFrom(
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
  );
  const crons = fc.constantFrom("0 22 * * *", "*/7 3 * * 1", "15 2 1,15 * *", "@hourly");
  fc.assert(
    fc.property(time, zones, crons, (at, zone, text) => {
      const cron = parseCron(text, zone);
      const [previous, next] = [cron.previous(new Date(at)), cron.next(new Date(at))];
      assert.ok(previous && next && previous.getTime() <= at && next.getTime() > at);
      assert.deepEqual(cron.next(previous), next);
      assert.deepEqual(cron.previous(next), next);
    }),
    { numRuns: 200 },
  );
});

test("what is no cron expression is refused by the name of the field", () => {
  assert.throws(() => parseCron("61 * * * *"), /minute/);
  assert.throws(() => parseCron("0 0 * *"), /five fields/);
  assert.throws(() => parseCron("0 0 * * foo"), /entry 5 \(foo\)/);
  assert.throws(() => parseCron("2026-01-01T00:00:00"), /five fields/);
  assert.throws(() => parseCron("0 0 0 * * *"), /five fields/);
  assert.throws(() => parseCron("0 0 * * *", "Mars/Olympus"), /time zone/);
});
