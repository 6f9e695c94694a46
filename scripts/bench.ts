/** npm run bench -- NAME: runs bench/NAME.ts; without a name, lists what there is. */
import { spawn } from "node:child_process";
import { globSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { endProgramsBelow } from "./end-programs.ts";

const root = join(import.meta.dirname, "..");
const names = globSync("bench/*.ts", { cwd: root })
  .map((file) => basename(file, ".ts"))
  .toSorted();
const [name, ...args] = process.argv.slice(2);

if (!name || !names.includes(name)) {
  const problem = name ? `There is no benchmark "${name}".\n` : "";
  console.log(`${problem}Benchmarks:\n${names.map((each) => `  npm run bench -- ${each}`).join("\n")}`);
  process.exit(name ? 2 : 0);
}
// Whatever a benchmark starts works on files in here: that finds what an interrupted one left behind.
const directory = mkdtempSync(join(tmpdir(), "bench-"));
const child = spawn(process.execPath, [join(root, "bench", `${name}.ts`), ...args], {
  stdio: "inherit",
  env: { ...process.env, TMPDIR: directory },
});
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => child.kill(signal));
child.on("exit", (code) => {
  endProgramsBelow(directory);
  rmSync(directory, { recursive: true, force: true, maxRetries: 5 });
  process.exit(code ?? 1);
});
