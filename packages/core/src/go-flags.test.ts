import assert from "node:assert/strict";
import { test } from "node:test";
import { normalizeGoFlags } from "./go-flags.ts";

const known = {
  isKnown: (name: string) => ["metrics-addr", "enable-leader-election"].includes(name),
  isBoolean: (name: string) => name === "enable-leader-election",
};

test("flags as Go's flag package takes them", () => {
  const rows: readonly (readonly [given: readonly string[], taken: readonly string[]])[] = [
    [["--enable-leader-election"], ["--enable-leader-election=true"]],
    [["-enable-leader-election"], ["--enable-leader-election=true"]],
    [["--enable-leader-election=false"], ["--enable-leader-election=false"]],
    [["-metrics-addr=:8080"], ["--metrics-addr=:8080"]],
    [
      ["--metrics-addr", ":8080"],
      ["--metrics-addr", ":8080"],
    ],
    [["-v=4", "--v", "4", "-v", "4", "--v=4"], []],
    [["--logtostderr", "--alsologtostderr=false", "--stderrthreshold=INFO", "--log_dir", "/x"], []],
    [["--v", "--metrics-addr", ":1"], [":1"]],
    [
      ["--unknown", "-h", "word"],
      ["--unknown", "-h", "word"],
    ],
    [
      ["--", "--v=4"],
      ["--", "--v=4"],
    ],
  ];
  for (const [given, taken] of rows) assert.deepEqual(normalizeGoFlags(given, known), taken, given.join(" "));
});
