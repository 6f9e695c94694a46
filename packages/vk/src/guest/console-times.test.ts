import assert from "node:assert/strict";
import { test } from "node:test";
import { ConsoleTimes, selectLines, stampingLines } from "./console-times.ts";

const at = (second: number) => new Date(Date.UTC(2030, 0, 1, 0, 0, second));

test("a line counts as of the first look at it", () => {
  const times = new ConsoleTimes();
  times.look("a", 4, at(1));
  times.look("a", 4, at(2));
  const marks = times.look("a", 8, at(3));
  const content = Buffer.from("one\ntwo\n");
  const select = (since: Date | undefined, timestamps = false) =>
    selectLines(content, marks, { since, timestamps }).toString();
  assert.equal(select(undefined), "one\ntwo\n");
  assert.equal(select(at(2)), "two\n");
  assert.equal(select(at(1)), "one\ntwo\n");
  assert.equal(select(at(4)), "");
  assert.equal(select(undefined, true), "2030-01-01T00:00:01.000Z one\n2030-01-01T00:00:03.000Z two\n");
});

test("a console that was cut begins anew", () => {
  const times = new ConsoleTimes();
  times.look("a", 100, at(1));
  assert.deepEqual(times.look("a", 10, at(2)), [{ bytes: 10, at: at(2) }]);
});

test("what is followed carries the time at which it came, once per line", async () => {
  let second = 0;
  const stamping = stampingLines(() => at((second += 1)));
  stamping.write("on");
  stamping.write("e\ntwo\n");
  stamping.end("three");
  const text = Buffer.concat(await stamping.toArray()).toString();
  assert.equal(
    text,
    "2030-01-01T00:00:01.000Z one\n2030-01-01T00:00:02.000Z two\n2030-01-01T00:00:03.000Z three",
  );
});
