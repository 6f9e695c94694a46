/** port-forward: ports of this host that lead to ports of a machine, as kubectl's, by the names that cocoonctl knows. */
import { Fault } from "@cocoon/core";
import { clusterOptions, type CommandSpec } from "../command-spec.ts";
import { wakeOption, type WakeFlag } from "../guest/ensure-awake.ts";
import { openGuest, waitForExit } from "../guest/kubectl-program.ts";
import { Quit } from "../run-cli.ts";

export const command: CommandSpec = {
  usage: "port-forward <machine> <port...>",
  summary: "forward ports of this host to a machine",
  description:
    "Forwards ports of this host to ports of a machine through the API server until it is interrupted. A port is LOCAL:REMOTE, or one number for both; :REMOTE takes any free local port. A set's name means its main agent. Needs the right to create pods/portforward, and kubectl.",
  options: {
    "--address <address>": ["address of this host to listen on", "127.0.0.1"],
    ...wakeOption,
    ...clusterOptions,
  },
  examples: ["cocoonctl port-forward web 8080:80", "cocoonctl port-forward --wake demo-1 5432"],
  run: forward,
};

interface ForwardOptions extends WakeFlag {
  readonly address: string;
}

async function forward(name: string, ports: readonly string[], options: ForwardOptions): Promise<void> {
  for (const port of ports) assertPort(port);
  await using guest = await openGuest(name, options);
  const args = ["port-forward", "--address", options.address, `pod/${guest.name}`, ...ports];
  throw new Quit(await waitForExit(await guest.start(args, { stdio: "inherit" })));
}

export function assertPort(text: string): void {
  const [, local, remote] = /^(?:(\d{0,5}):)?(\d{1,5})$/.exec(text) ?? [];
  const isPort = (digits: string) => Number(digits) >= 1 && Number(digits) <= 65_535;
  if (remote !== undefined && isPort(remote) && (!local || isPort(local))) return;
  throw new Fault(
    "badRequest",
    `"${text}" is not a port: write LOCAL:REMOTE, such as 8080:80, or one number`,
  );
}
