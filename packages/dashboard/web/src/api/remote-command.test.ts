import assert from "node:assert/strict";
import { test } from "node:test";
import { readEnd } from "./remote-command.ts";

test("the status of a command is read", () => {
  assert.deepEqual(readEnd('{"status":"Success"}'), { exitCode: 0, message: "" });
  const failure = {
    status: "Failure",
    message: "exit 3",
    details: { causes: [{ reason: "ExitCode", message: "3" }] },
  };
  assert.deepEqual(readEnd(JSON.stringify(failure)), { exitCode: 3, message: "exit 3" });
  assert.equal(readEnd('{"status":"Failure"}').exitCode, -1);
  assert.deepEqual(readEnd("<no json>"), { exitCode: -1, message: "<no json>" });
});
