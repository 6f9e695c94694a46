/** npm run bench -- NAME: runs bench/NAME.ts; without a name, lists what there is. */
import { spawn } from "node:child_process";
import { globSync } from "node:fs";
import { basename, join } from "node:path";

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
const child = spawn(process.execPath, [join(root, "bench", `${name}.ts`), ...args], { stdio: "inherit" });
child.on("exit", (code) => process.exit(code ?? 1));
