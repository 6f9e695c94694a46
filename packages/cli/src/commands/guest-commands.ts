/** Commands that reach into a machine. */
import type { Command } from "commander";
import { clusterOptions, examples } from "./options.ts";

const group = "Inside machines:";

export function addGuestCommands(program: Command): void {
  const exec = program
    .command("exec <machine> [command...]")
    .helpGroup(group)
    .summary("run a command, or a shell, in a machine")
    .description(
      "Runs a command in a machine, by its guest agent or SSH; without a command, a shell. A set's name means its main agent. The exit code is the command's. Needs the right to create pods/exec, and kubectl.",
    )
    .option("-i, --stdin", "pass standard input on (default: with a shell, or when it is no terminal)")
    .option("-t, --tty", "with a terminal (default: with a shell on a terminal)");
  examples(
    clusterOptions(exec),
    "cocoonctl exec demo",
    "cocoonctl exec demo-1 -- uname -a",
    "tar c . | cocoonctl exec -i demo-0 -- tar x -C /srv",
  ).action(async (...[name, line, , command]: [string, string[], unknown, Command]) =>
    (await import("../guest/exec.ts")).exec(name, line, command.optsWithGlobals()),
  );
  const ssh = program
    .command("ssh <machine> [command...]")
    .helpGroup(group)
    .summary("log in by SSH through the API server")
    .description(
      "Forwards a port of this host to the guest's SSH port through the API server and runs ssh there: it works wherever kubectl works. A set's name means its main agent. The guest needs an SSH server that knows your key. Needs the right to create pods/portforward, kubectl and ssh.",
    )
    .option("-l, --login <user>", "user in the guest", "root")
    .option("-p, --port <number>", "SSH port of the guest", "22")
    .option("-i, --identity <file>", "private key");
  examples(
    clusterOptions(ssh),
    "cocoonctl ssh web",
    "cocoonctl ssh -l debian web-1 -- journalctl -n 20",
  ).action(async (...[name, line, , command]: [string, string[], unknown, Command]) =>
    (await import("../guest/ssh.ts")).ssh(name, line, command.optsWithGlobals()),
  );
  const console = program
    .command("console <machine>")
    .helpGroup(group)
    .summary("the serial console of a machine")
    .description(
      "Opens the serial console. Ctrl-] leaves it; every other key goes to the guest. A set's name means its main agent. Needs the right to create pods/attach, and kubectl.",
    );
  examples(clusterOptions(console), "cocoonctl console demo-0").action(
    async (name: string, _options, command: Command) =>
      (await import("../guest/console.ts")).openConsole(name, command.optsWithGlobals()),
  );
  addLogs(program);
}

function addLogs(program: Command): void {
  const logs = program
    .command("logs [name]")
    .helpGroup(group)
    .summary("the log of a machine, or of a part of this machine's platform")
    .description(
      "Shows the log of a machine (the guest's journal, else its console) or of a part of the platform on this machine (kube-apiserver, operator, …). A set's name means its main agent. Without a name: the parts there are. For machines it needs the right to get pods/log, and kubectl.",
    )
    .option("-f, --follow", "go on as the log grows")
    .option("--lines, --tail <number>", "how many lines of the past", "50")
    .option("--since <duration>", "machines only: not older than that, such as 10m")
    .option("--timestamps", "machines only: with the time of each line")
    .option("--part", "the name is that of a part: do not look for a machine");
  examples(
    clusterOptions(logs),
    "cocoonctl logs kube-apiserver",
    "cocoonctl logs operator -f",
    "cocoonctl logs demo-0 --since 10m",
  ).action(async (name: string | undefined, _options, command: Command) =>
    (await import("./logs.ts")).logs(name, command.optsWithGlobals()),
  );
}
