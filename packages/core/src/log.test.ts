import assert from "node:assert/strict";
import { Writable } from "node:stream";
import { test } from "node:test";
import { createLogger } from "./log.ts";

function capture(): { readonly destination: Writable; readonly lines: () => Record<string, unknown>[] } {
  let text = "";
  const destination = new Writable({
    write(chunk: Buffer, _encoding, done) {
      text += chunk.toString();
      done();
    },
  });
  return {
    destination,
    lines: () =>
      text
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line) as Record<string, unknown>),
  };
}

test("one JSON object a line with level names, ISO time and fields", () => {
  const { destination, lines } = capture();
  const log = createLogger({ name: "demo", destination }).child({ pod: "a/b" });
  log.info({ vm: "x" }, "vm started");
  const [line] = lines();
  assert.ok(line);
  assert.equal(line["level"], "info");
  assert.equal(line["msg"], "vm started");
  assert.equal(line["pod"], "a/b");
  assert.match(String(line["time"]), /^\d{4}-\d\d-\d\dT/);
});

test("secrets never reach the output", () => {
  const { destination, lines } = capture();
  createLogger({ name: "demo", destination }).warn(
    { token: "hunter2", registry: { password: "hunter3" } },
    "login",
  );
  assert.ok(!JSON.stringify(lines()).includes("hunter"));
});

test("levels as the Go systems name them, any case; others are refused", () => {
  const { destination } = capture();
  for (const level of ["TRACE", "debug", "Info", "warn", "error", "fatal", "panic", "disabled"])
    createLogger({ name: "demo", destination, level });
  assert.throws(
    () => createLogger({ name: "demo", level: "loud" }),
    /log level "loud" is unknown; use one of trace, debug/,
  );
});
