/** The last lines of a part's log, and what is added while we follow. */
import { existsSync, watch } from "node:fs";
import { open } from "node:fs/promises";
import { logPath } from "@cocoon/controlplane";
import { abortOnSignals, aborted, Fault, lastLines } from "@cocoon/core";

export interface PartLogsOptions {
  readonly directory: string;
  readonly part: string;
  readonly lines: number;
  readonly follow: boolean;
}

export async function partLogs({ directory, part, lines, follow }: PartLogsOptions): Promise<void> {
  const path = logPath(directory, part);
  if (!existsSync(path)) throw new Fault("notFound", `${part} has not written a log yet`);
  const past = lines === 0 ? [] : lastLines(path, lines);
  if (past.length > 0) process.stdout.write(`${past.join("\n")}\n`);
  if (follow) await followFile(path, abortOnSignals());
}

async function followFile(path: string, signal: AbortSignal): Promise<void> {
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
