/** doctor: everything that may be wrong, each with its fix. Exit code 1 when something is. */
import { Fault } from "@cocoon/core";
import type { CheckResult } from "../doctor/check.ts";
import { allChecks } from "../doctor/checks.ts";
import { colocationChecks } from "../doctor/colocation-checks.ts";
import { homeDirectory, type HomeOptions } from "../home.ts";
import { exitCode, Quit } from "../run-cli.ts";

export interface DoctorOptions extends HomeOptions {
  readonly output: string;
}

const marks = { ok: "✔", warning: "!", problem: "✖" } as const;

export async function doctor(options: DoctorOptions): Promise<void> {
  if (!["table", "json"].includes(options.output))
    throw new Fault("badRequest", `-o ${options.output}: use table or json`);
  const context = {
    directory: homeDirectory(options, process.env),
    env: process.env,
    signal: AbortSignal.timeout(60_000),
  };
  const results: (CheckResult & { readonly name: string })[] = [];
  const show = (result: (typeof results)[number]) => {
    results.push(result);
    if (options.output === "table") process.stdout.write(lineOf(result));
  };
  for (const check of allChecks) show({ name: check.name, ...(await check.run(context)) });
  for (const result of await colocationChecks(context)) show(result);
  if (options.output === "json") process.stdout.write(`${JSON.stringify(results, null, 2)}\n`);
  const problems = results.filter((result) => result.state === "problem").length;
  if (options.output === "table")
    process.stdout.write(problems === 0 ? "\nNothing is wrong.\n" : `\n${problems} to fix.\n`);
  if (problems > 0) throw new Quit(exitCode.failed);
}

function lineOf(result: CheckResult & { readonly name: string }): string {
  const fix = result.fix ? `\n    fix: ${result.fix}` : "";
  return `${marks[result.state]} ${result.name}: ${result.found}${fix}\n`;
}
