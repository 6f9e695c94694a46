import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { runCommand, temporaryDirectory } from "@cocoon/testkit";

const bin = join(import.meta.dirname, "..", "bin");

test("executables of the source tree name the Node version they need", async () => {
  await using directory = await temporaryDirectory();
  const older = join(directory.path, "as-node-20.mjs");
  // As an older Node does it, which cannot load TypeScript: the check comes before the first such file.
  await writeFile(
    older,
    `import { registerHooks } from "node:module";
     Object.defineProperty(process.versions, "node", { value: "20.20.2" });
     registerHooks({ load: (url, context, next) => {
       if (url.endsWith(".ts")) throw new TypeError("Unknown file extension .ts");
       return next(url, context);
     } });`,
  );
  for (const name of ["cocoonctl.mjs", "kubectl-complete.mjs"]) {
    const started = await runCommand(process.execPath, ["--import", older, join(bin, name), "status"]);
    assert.equal(started.code, 1, name);
    assert.match(started.stderr, /needs Node 26 or newer/);
    assert.doesNotMatch(started.stderr, /Unknown file extension/);
  }
});

test("a reader that ends before the output is no error", async () => {
  const command = `"${process.execPath}" "${join(bin, "cocoonctl.mjs")}" --help | true`;
  assert.equal((await runCommand("sh", ["-c", command])).stderr, "");
});
