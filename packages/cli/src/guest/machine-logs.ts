/** logs of a machine: the guest's journal, else its console. */
import { machineContainer } from "@cocoon/contract";
import { Fault } from "@cocoon/core";
import { findMachine, nameOf } from "../cluster/find.ts";
import { openSession, type ClusterOptions } from "../cluster/session.ts";
import { Quit } from "../run-cli.ts";
import { assertAwake } from "./assert-awake.ts";
import { exitCodeOf, kubectlFor, startKubectl } from "./kubectl-program.ts";

export interface MachineLogsOptions extends ClusterOptions {
  readonly follow?: boolean;
  readonly lines: number;
  readonly since?: string;
  readonly timestamps?: boolean;
}

export async function machineLogs(name: string, options: MachineLogsOptions): Promise<void> {
  await using session = await openSession(options);
  const pod = await findMachine(session, name, { mainOfSet: true });
  assertAwake(pod);
  if (options.since !== undefined && !/^[\d.]+[a-z\u00b5\d.]*$/.test(options.since))
    throw new Fault("badRequest", `--since ${options.since}: write a duration such as 10m or 2h`);
  const args = [
    "logs",
    nameOf(pod),
    "--container",
    pod.spec?.containers[0]?.name ?? machineContainer,
    `--tail=${options.lines}`,
    ...(options.follow ? ["--follow"] : []),
    ...(options.since ? [`--since=${options.since}`] : []),
    ...(options.timestamps ? ["--timestamps"] : []),
  ];
  const child = await startKubectl(await kubectlFor(session), args, { stdio: "inherit" });
  throw new Quit(await exitCodeOf(child));
}
