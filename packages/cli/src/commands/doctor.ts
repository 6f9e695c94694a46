/** doctor: everything that may be wrong, each with its fix. Exit code 1 when something is. */
import type { CommandSpec } from "../command-spec.ts";
import { runChecks, type NamedResult } from "../doctor/checks.ts";
import { homeDirectory, type HomeOptions } from "../home.ts";
import { readFormat } from "../output.ts";
import { exitCode, Quit } from "../run-cli.ts";

export const command: CommandSpec = {
  usage: "doctor",
  description: "what may be wrong on this machine, each with its fix",
  options: { "-o, --output <format>": ["table or json", "table"] },
  examples: ["cocoonctl doctor"],
  run: doctor,
};

const marks = { ok: "✔", warning: "!", problem: "✖" } as const;

async function doctor(options: HomeOptions & { readonly output: string }): Promise<void> {
  const table = readFormat(options.output, ["table", "json"]) === "table";
  const directory = homeDirectory(options, process.env);
  const results: NamedResult[] = [];
  for await (const result of runChecks({
    directory,
    env: process.env,
    signal: AbortSignal.timeout(60_000),
  })) {
    results.push(result);
    const fix = result.fix ? `\n    fix: ${result.fix}` : "";
    if (table) process.stdout.write(`${marks[result.state]} ${result.name}: ${result.found}${fix}\n`);
  }
  const problems = results.filter(({ state }) => state === "problem").length;
  const summary = problems === 0 ? "Nothing is wrong." : `${problems} to fix.`;
  process.stdout.write(table ? `\n${summary}\n` : `${JSON.stringify(results, null, 2)}\n`);
  if (problems > 0) throw new Quit(exitCode.failed);
}
