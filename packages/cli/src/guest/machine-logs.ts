/** logs of a machine: the guest's journal, else its console. */
import { Fault } from "@cocoon/core";
import type { ClusterOptions } from "../cluster/session.ts";
import { Quit } from "../run-cli.ts";
import { openGuest, waitForExit } from "./kubectl-program.ts";

export interface MachineLogsOptions extends ClusterOptions {
  readonly follow?: boolean;
  readonly lines: number;
  readonly since?: string;
  readonly timestamps?: boolean;
  readonly console?: boolean;
}

export async function machineLogs(name: string, options: MachineLogsOptions): Promise<void> {
  const { follow, lines, since, timestamps, console } = options;
  if (since !== undefined && !/^[\d.]+[a-z\u00b5\d.]*$/.test(since))
    throw new Fault("badRequest", `--since ${since}: write a duration such as 10m or 2h`);
  await using guest = await openGuest(name, options);
  const args = [
    "logs",
    guest.name,
    "--container",
    guest.container,
    `--tail=${lines}`,
    ...(follow ? ["--follow"] : []),
    ...(since ? [`--since=${since}`] : []),
    ...(timestamps ? ["--timestamps"] : []),
    ...(console ? ["--previous"] : []), // vk-cocoon answers it with the console
  ];
  throw new Quit(await waitForExit(await guest.start(args, { stdio: "inherit" })));
}
