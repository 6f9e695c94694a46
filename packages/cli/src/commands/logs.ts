/** logs: the last lines of a part's log, and what is added while we follow. */
import { existsSync, watch } from "node:fs";
import { open } from "node:fs/promises";
import { logPath } from "@cocoon/controlplane";
import { abortOnSignals, aborted, Fault, lastLines } from "@cocoon/core";
import { homeDirectory, type HomeOptions } from "../home.ts";
import { knownPlatform } from "../platform.ts";

export interface LogsOptions extends HomeOptions {
  readonly follow?: boolean;
  readonly lines: string;
}

export async function logs(part: string | undefined, options: LogsOptions): Promise<void> {
  const directory = homeDirectory(options, process.env);
  const platform = await knownPlatform(directory, process.env);
  const names = platform?.components.map((component) => component.name) ?? [];
  if (names.length === 0)
    throw new Fault("notFound", `no cluster in ${directory}; bring one up with: npm run up`);
  if (part === undefined) {
    process.stdout.write(`${names.join("\n")}\n`);
    return;
  }
  if (!names.includes(part))
    throw new Fault("badRequest", `there is no part "${part}"; the parts are ${names.join(", ")}`);
  const lines = Number(options.lines);
  if (!Number.isInteger(lines) || lines < 0)
    throw new Fault("badRequest", `--lines ${options.lines} is not a number of lines`);
  const path = logPath(directory, part);
  if (!existsSync(path)) throw new Fault("notFound", `${part} has not written a log yet`);
  const past = lines === 0 ? [] : lastLines(path, lines);
  if (past.length > 0) process.stdout.write(`${past.join("\n")}\n`);
  if (options.follow) await follow(path, abortOnSignals());
}

/** Prints what is appended, in order, until the signal aborts. */
async function follow(path: string, signal: AbortSignal): Promise<void> {
  await using file = await open(path, "r");
  let position = (await file.stat()).size;
  const buffer = Buffer.alloc(64 * 1024);
  const copyNew = async () => {
    for (;;) {
      const { bytesRead } = await file.read(buffer, 0, buffer.length, position);
      if (bytesRead === 0) return;
      position += bytesRead;
      process.stdout.write(buffer.toString("utf8", 0, bytesRead));
    }
  };
  let running = Promise.resolve();
  const watcher = watch(path, () => {
    running = running.then(copyNew);
  });
  await aborted(signal);
  watcher.close();
  await running;
}
