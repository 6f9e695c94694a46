/** Starts a component's process with its environment, log file and run record. */
import { startProgram, type RunningProgram } from "@cocoon/core";
import { join } from "node:path";
import type { Component } from "./component.ts";
import { componentMark, createMark, writeRecord } from "./run-records.ts";

export interface LaunchOptions {
  /** Holds `run/` and `logs/`. */
  readonly directory: string;
  /** `with-us`: the kernel ends the component when this process dies, however it dies. For tests. */
  readonly lifetime?: "independent" | "with-us";
}

export function logPath(directory: string, name: string): string {
  return join(directory, "logs", `${name}.log`);
}

/** The caller made sure that the component does not run already. Does not wait until it is ready. */
export async function launchComponent(component: Component, options: LaunchOptions): Promise<RunningProgram> {
  const { directory } = options;
  const program = await startProgram({
    name: component.name,
    ...commandLine(component, options),
    env: { ...component.env, ...component.secrets, [componentMark]: createMark(directory, component.name) },
    logFile: logPath(directory, component.name),
    detached: true,
  });
  await writeRecord(directory, component, program.identity);
  return program;
}

function commandLine(
  component: Component,
  options: LaunchOptions,
): { command: string; args: readonly string[] } {
  if (options.lifetime !== "with-us") return { command: component.command, args: component.args };
  return { command: "setpriv", args: ["--pdeathsig", "KILL", component.command, ...component.args] };
}
