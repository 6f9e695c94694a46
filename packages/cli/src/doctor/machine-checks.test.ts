import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { temporaryDirectory } from "@cocoon/testkit";
import { machineChecks } from "./machine-checks.ts";

test("doctor names whose cocoon is installed, and refuses ours as the external runtime", async () => {
  await using directory = await temporaryDirectory();
  const path = join(directory.path, "cocoon");
  const check = machineChecks.find(({ name }) => name === "command cocoon");
  const run = async (runtime: string, script?: string) => {
    if (script !== undefined) await writeFile(path, `#!/bin/sh\n${script}\n`, { mode: 0o755 });
    const env = { VK_COCOON_BIN: path, VK_RUNTIME: runtime };
    const result = await check?.run({ directory: directory.path, env, signal: AbortSignal.timeout(10_000) });
    return `${result?.state}: ${result?.found.replace(path, "cocoon")}`;
  };
  assert.equal(await run(""), "ok: no cocoon: nodes use the built-in engine");
  const go = "printf 'Version: 0.3.8\\nGolang version: go1.25\\n'";
  assert.match(await run("", go), /^ok: cocoon 0\.3\.8 is the Go program/);
  const ours = "printf 'Version: 0.1.0\\nNode.js version: v26\\n'";
  assert.match(await run("", ours), /^ok: cocoon 0\.1\.0 is of this project/);
  assert.match(await run("cocoon"), /^problem: cocoon 0\.1\.0 is of this project and knows no VM/);
  assert.match(await run("", "exit 1"), /^problem: cocoon does not run/);
});
