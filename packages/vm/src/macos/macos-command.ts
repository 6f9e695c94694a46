/** Command lines of `cocoon-macos`. Flags that its own help does not list are not sent. */
import { Fault, getErrorMessage, isFault, type Abortable } from "@cocoon/core";
import { run, type CocoonCommand } from "../external/command.ts";
import type { RunSpec } from "../requests.ts";

export interface MacosCommand extends CocoonCommand {
  readonly runFlags: ReadonlySet<string>;
}

const defaultCpus = 4;
const defaultMemoryMib = 8_192;
const mebibyte = 2 ** 20;

/** `unavailable` when the program is there but does not answer. */
export async function openMacosCommand(command: CocoonCommand, options: Abortable): Promise<MacosCommand> {
  const help = await runMacos(command, ["vm", "run", "--help"], options);
  return { ...command, runFlags: new Set(help.match(/--[a-z][a-z-]*/g)) };
}

/** What these texts say of one VM cannot be told apart from a failure of the program: only its list tells what is not there. */
const vague: ReadonlySet<string> = new Set(["notFound", "internal"]);

/** Errors name the program: the kubelet's messages are about two commands. */
export async function runMacos(
  command: CocoonCommand,
  args: readonly string[],
  options: Abortable,
): Promise<string> {
  try {
    return await run(command, args, options);
  } catch (error) {
    if (options.signal.aborted) throw error;
    const code = isFault(error) && !vague.has(error.code) ? error.code : "unavailable";
    const what = `${command.argv.join(" ")} ${args.slice(0, 2).join(" ")}`;
    throw new Fault(code, `${what}: ${getErrorMessage(error)}`, { cause: error });
  }
}

/**
 * The screen stays off: its password could only be given as an argument, which every user of the host can read. macOS boots
 * with an even number of CPUs only.
 */
export function macosRunArguments(
  { name, image, cpus, memoryBytes, storageBytes }: RunSpec,
  flags: ReadonlySet<string>,
): readonly string[] {
  const count = cpus ?? defaultCpus;
  const memoryMib = memoryBytes === undefined ? defaultMemoryMib : Math.floor(memoryBytes / mebibyte);
  const wanted: readonly (readonly [string, string?])[] = [
    ["--name", name],
    ["--cpus", String(count + (count % 2))],
    ["--memory", String(memoryMib)],
    ...(storageBytes ? [["--storage", String(storageBytes)] as const] : []),
    ["--random-smbios"],
    ["--net", "cni"],
  ];
  return [
    "vm",
    "run",
    ...wanted
      .filter(([flag]) => flags.has(flag))
      .flatMap(([flag, value]) => (value === undefined ? [flag] : [flag, value])),
    image,
  ];
}
