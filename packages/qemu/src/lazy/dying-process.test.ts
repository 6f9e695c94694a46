import assert from "node:assert/strict";
import { test } from "node:test";
import { isBeingKilled, parseStatus } from "./dying-process.ts";

test("a process that lives is not being killed", async () => {
  assert.equal(await isBeingKilled(process.pid), false);
});

test("a pending SIGKILL, or a first thread that has ended, says that it is", () => {
  const status = (state: string, mask: string) =>
    `Name:\tqemu\nState:\t${state}\nSigPnd:\t0000000000000000\nShdPnd:\t${mask}\n`;
  assert.equal(parseStatus(status("S (sleeping)", "0000000000000000")), false);
  assert.equal(parseStatus(status("S (sleeping)", "0000000000004000")), false);
  assert.equal(parseStatus(status("D (disk sleep)", "0000000000000100")), true);
  assert.equal(parseStatus(status("Z (zombie)", "0000000000000000")), true);
  assert.equal(parseStatus(""), false);
});
