/** The real vk-cocoon, which kills itself without a word before the step that a file names. */
import { readFileSync } from "node:fs";
import { runMain } from "@cocoon/core";
import { runVk, vkProgram } from "@cocoon/vk";

const killFile = process.argv[2] ?? "";
// The process that started it holds the other end: this one does not outlive a test that was broken off.
process.stdin.resume().on("end", () => process.kill(process.pid, "SIGKILL"));

await runMain({
  program: vkProgram,
  argv: [],
  logLevel: (config) => config.logLevel,
  run: (context) =>
    runVk(context, {
      beforeStep: (_vmName, step) => {
        if (readFileSync(killFile, "utf8") === step) process.kill(process.pid, "SIGKILL");
        return Promise.resolve();
      },
    }),
});
