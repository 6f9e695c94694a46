/** status: one line per part; a crashed part also shows its last log lines. Exit code 3 when nothing runs. */
import { readFileSync } from "node:fs";
import { componentStatus, type ComponentStatus } from "@cocoon/controlplane";
import { abortOnSignals, Fault, sleep } from "@cocoon/core";
import { homeDirectory, type HomeOptions } from "../home.ts";
import { knownPlatform, type Platform } from "../platform.ts";
import { exitCode, Quit } from "../run-cli.ts";
import { age, table } from "../table.ts";

export interface StatusOptions extends HomeOptions {
  readonly output: string;
  readonly watch?: boolean;
}

export async function status(options: StatusOptions): Promise<void> {
  if (!["table", "json"].includes(options.output))
    throw new Fault("badRequest", `-o ${options.output}: use table or json`);
  const directory = homeDirectory(options, process.env);
  const platform = await knownPlatform(directory, process.env);
  if (!platform) {
    process.stderr.write(`No cluster in ${directory}. Bring one up with: npm run up\n`);
    throw new Quit(exitCode.notRunning);
  }
  const signal = abortOnSignals();
  for (;;) {
    const statuses = await look(platform, signal);
    if (options.watch && process.stdout.isTTY) process.stdout.write("\x1b[2J\x1b[H");
    process.stdout.write(
      options.output === "json"
        ? `${JSON.stringify(statuses.map(asJson), null, 2)}\n`
        : tableText(platform, statuses),
    );
    if (options.watch && (await sleep(1_000, { signal }))) continue;
    if (statuses.length > 0 && statuses.every((each) => each.state === "stopped"))
      throw new Quit(exitCode.notRunning);
    if (statuses.some((each) => each.state !== "ready") && !options.watch) throw new Quit(exitCode.failed);
    return;
  }
}

function look(platform: Platform, signal: AbortSignal): Promise<ComponentStatus[]> {
  return Promise.all(
    platform.components.map((component) =>
      componentStatus(component, { directory: platform.directory, signal }),
    ),
  );
}

function tableText(platform: Platform, statuses: readonly ComponentStatus[]): string {
  const rows = statuses.map((each) => [
    each.name,
    each.state,
    each.identity ? String(each.identity.pid) : "-",
    each.identity && each.startedAt ? age(Date.now() - Date.parse(each.startedAt)) : "-",
    each.identity ? `${Math.round(residentBytes(each.identity.pid) / 1e6)} MB` : "-",
    each.summary,
  ]);
  const troubles = statuses.filter((each) => each.detail !== "").map((each) => `\n${each.detail}`);
  return `Kubernetes API: ${platform.server}\n\n${table(["PART", "STATE", "PID", "AGE", "MEMORY", "WHAT IT IS"], rows)}\n${troubles.join("\n")}`;
}

function asJson(status: ComponentStatus): Record<string, unknown> {
  const { identity, ...rest } = status;
  return {
    ...rest,
    pid: identity?.pid ?? null,
    residentBytes: identity ? residentBytes(identity.pid) : null,
  };
}

function residentBytes(pid: number): number {
  try {
    const match = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, "latin1"));
    return Number(match?.[1] ?? 0) * 1024;
  } catch {
    return 0; // it ended while we looked
  }
}
