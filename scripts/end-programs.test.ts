import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { test } from "node:test";
import { temporaryDirectory } from "@cocoon/testkit";
import { endProgramsBelow } from "./end-programs.ts";

test("programs that work on the directory end, others go on", async () => {
  await using directory = await temporaryDirectory();
  const start = async (env: Record<string, string>, ...words: string[]) => {
    const child = spawn(process.execPath, ["-e", "setTimeout(() => {}, 60000)", ...words], {
      env,
      detached: true,
      stdio: "ignore",
    });
    await once(child, "spawn");
    return child;
  };
  const path = process.env["PATH"] ?? "";
  const byArgument = await start({ PATH: path }, join(directory.path, "data"));
  const byEnvironment = await start({ PATH: path, HOME: `${directory.path}/home` });
  const other = await start({ PATH: path, HOME: `${directory.path}-other/home` });
  const ended = [byArgument, byEnvironment].map((child) => once(child, "exit"));
  const pids = endProgramsBelow(directory.path);
  assert.deepEqual((await Promise.all(ended)).flat(), [null, "SIGKILL", null, "SIGKILL"]);
  assert.ok(pids.includes(byArgument.pid ?? 0) && !pids.includes(other.pid ?? 0));
  other.kill("SIGKILL");
  await once(other, "exit");
});
