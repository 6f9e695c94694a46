/** logs: of a part of the platform on this machine, or of a machine. */
import { existsSync, watch } from "node:fs";
import { open } from "node:fs/promises";
import { logPath } from "@cocoon/controlplane";
import { aborted, abortOnSignals, Fault, isFault, lastLines } from "@cocoon/core";
import { homeDirectory, type HomeOptions } from "../home.ts";
import type { MachineLogsOptions } from "../guest/machine-logs.ts";
import { knownPlatform } from "../platform.ts";
import { clusterOptions, type CommandSpec } from "../command-spec.ts";

export const command: CommandSpec = {
  usage: "logs [name]",
  summary: "the log of a machine, or of a part of this machine's platform",
  description:
    "Shows the log of a machine (the guest's journal, else its console) or of a part of the platform on this machine (kube-apiserver, operator, …). A set's name means its main agent. Without a name: the parts there are. For machines it needs the right to get pods/log, and kubectl.",
  options: {
    "-f, --follow": "go on as the log grows",
    "--lines, --tail <number>": ["how many lines of the past", "50"],
    "--since <duration>": "machines only: not older than that, such as 10m (default: no limit)",
    "--timestamps": "machines only: with the time of each line",
    "--console": "machines only: the serial console, also where the guest has a journal",
    "--part": "the name is that of a part: do not look for a machine",
    ...clusterOptions,
  },
  examples: [
    "cocoonctl logs kube-apiserver",
    "cocoonctl logs operator -f",
    "cocoonctl logs demo-0 --since 10m",
  ],
  run: logs,
};

export interface LogsOptions extends HomeOptions, Omit<MachineLogsOptions, "lines"> {
  readonly tail: string;
  readonly part?: boolean;
}

export async function logs(name: string | undefined, options: LogsOptions): Promise<void> {
  const directory = homeDirectory(options, process.env);
  const parts = await partNames(directory, options);
  if (name === undefined) return listParts(directory, parts);
  if (parts.includes(name)) {
    // `logs PART -n 20` meant lines before machines had logs here; a part has no namespace.
    const lines = readLines(options.namespace ?? options.tail);
    return printPartLog(logPath(directory, name), { lines, follow: options.follow ?? false });
  }
  if (options.part) throw noPart(name, parts);
  const { machineLogs } = await import("../guest/machine-logs.ts");
  try {
    await machineLogs(name, { ...options, lines: readLines(options.tail) });
  } catch (error) {
    // Also a platform without machines answers so: its API does not even know the kind.
    if (parts.length === 0 || !isFault(error) || !["notFound", "unavailable"].includes(error.code))
      throw error;
    throw noPart(name, parts, `. And ${error.message}`);
  }
}

async function partNames(
  directory: string,
  { kubeconfig, context }: LogsOptions,
): Promise<readonly string[]> {
  const elsewhere = kubeconfig !== undefined || context !== undefined;
  const platform = elsewhere ? undefined : await knownPlatform(directory, process.env);
  return platform?.components.map((component) => component.name) ?? [];
}

function listParts(directory: string, parts: readonly string[]): void {
  if (parts.length === 0)
    throw new Fault(
      "notFound",
      `no platform in ${directory}: bring one up with npm run up, or name a machine`,
    );
  process.stdout.write(`${parts.join("\n")}\n`);
}

function noPart(name: string, parts: readonly string[], more = ""): Fault {
  const there = parts.join(", ") || "none: nothing was brought up";
  return new Fault("badRequest", `there is no part "${name}"; the parts are ${there}${more}`);
}

function readLines(text: string): number {
  const lines = Number(text);
  if (Number.isInteger(lines) && lines >= 0) return lines;
  throw new Fault("badRequest", `--lines ${text} is not a number of lines`);
}

async function printPartLog(
  path: string,
  { lines, follow }: { readonly lines: number; readonly follow: boolean },
): Promise<void> {
  if (!existsSync(path)) throw new Fault("notFound", `there is no log ${path} yet`);
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
