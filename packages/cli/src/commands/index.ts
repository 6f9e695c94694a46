/** The command tree. Each command's code is loaded when it is called: the tool itself starts quickly. */
import type { Command } from "commander";

export function addCommands(program: Command): void {
  addLifecycleCommands(program);
  addLookCommands(program);
  addEnvCommand(program);
}

function addLifecycleCommands(program: Command): void {
  program
    .command("up")
    .description("bring the platform up on this machine; again = do what is missing")
    .option("--port <number>", "port of the Kubernetes API (default: a free one, then always the same)")
    .option("--audit-log", "let the API server write an audit log (metadata only)")
    .option("--aggregation", "certificates for aggregated API servers such as metrics-server")
    .option("--kubeconfig <path>", "use that cluster; no control plane is started here")
    .option("--context <name>", "use that context of the kubeconfig; no control plane is started here")
    .option("--no-parts", "only the control plane, without registry, nodes and machines")
    .option("--no-demo", "do not make the demo machine")
    .option("--no-install", "do not download or build anything: say what is missing")
    .option("--dry-run", "print the commands that would run, start nothing")
    .addHelpText("after", "\nExamples:\n  cocoonctl up\n  cocoonctl up --port 6443\n  cocoonctl up --dry-run")
    .action(async (_options, command: Command) => (await import("./up.ts")).up(command.optsWithGlobals()));
  program
    .command("down")
    .description("stop everything; the data stays for the next up")
    .option("--wipe", "also remove the data: the cluster is gone for good")
    .addHelpText("after", "\nExamples:\n  cocoonctl down\n  cocoonctl down --wipe")
    .action(async (_options, command: Command) =>
      (await import("./down.ts")).down(command.optsWithGlobals()),
    );
  program
    .command("restart <part>")
    .description("stop one part and start it again")
    .action(async (part: string, _options, command: Command) =>
      (await import("./restart.ts")).restart(part, command.optsWithGlobals()),
    );
}

function addLookCommands(program: Command): void {
  program
    .command("status")
    .description("what runs, since when, with how much memory")
    .option("-o, --output <format>", "table or json", "table")
    .option("-w, --watch", "show it again every second until Ctrl-C")
    .action(async (_options, command: Command) =>
      (await import("./status.ts")).status(command.optsWithGlobals()),
    );
  program
    .command("logs [part]")
    .description("the log of a part; without a name, the list of parts")
    .option("-f, --follow", "go on as the log grows")
    .option("-n, --lines <number>", "how many lines of the past", "50")
    .addHelpText("after", "\nExamples:\n  cocoonctl logs kube-apiserver\n  cocoonctl logs etcd -f")
    .action(async (part: string | undefined, _options, command: Command) =>
      (await import("./logs.ts")).logs(part, command.optsWithGlobals()),
    );
  program
    .command("doctor")
    .description("what may be wrong on this machine, each with its fix")
    .option("-o, --output <format>", "table or json", "table")
    .action(async (_options, command: Command) =>
      (await import("./doctor.ts")).doctor(command.optsWithGlobals()),
    );
  program
    .command("kubeconfig")
    .description("print the kubeconfig of this machine's cluster")
    .option("--path", "print where the file is instead")
    .addHelpText(
      "after",
      '\nExamples:\n  export KUBECONFIG="$(cocoonctl kubeconfig --path)"\n  cocoonctl kubeconfig > ~/.kube/cocoon',
    )
    .action(async (_options, command: Command) =>
      (await import("./kubeconfig.ts")).kubeconfig(command.optsWithGlobals()),
    );
  program
    .command("kubectl [args...]")
    .description("the kubectl that matches the cluster, with its kubeconfig")
    .allowUnknownOption()
    .helpOption(false)
    .action(async (_args: string[], _options, command: Command) => {
      // As they were typed: the parser takes a "--" away, which kubectl exec needs.
      const args = process.argv.slice(process.argv.indexOf("kubectl") + 1);
      await (await import("./kubectl.ts")).kubectl(args, command.optsWithGlobals());
    });
  program
    .command("migrate-legacy")
    .description("turn objects of cocoon.cis/v1alpha1 into current ones; their machines go on")
    .option("-n, --namespace <name>", "only this namespace")
    .option("--kubeconfig <path>", "the cluster to work on (default: this machine's, else KUBECONFIG)")
    .option("--context <name>", "context of the kubeconfig")
    .option("--dry-run", "say what would be done, do nothing")
    .action(async (_options, command: Command) =>
      (await import("./migrate-legacy.ts")).migrateLegacy(command.optsWithGlobals()),
    );
  program
    .command("version")
    .description("version, revision and build time")
    .action(async () => (await import("./version.ts")).version());
}

function addEnvCommand(program: Command): void {
  program
    .command("env")
    .description("lines for eval: this shell's kubectl is then the cluster's")
    .addHelpText("after", '\nExamples:\n  eval "$(cocoonctl env)"')
    .action(async (_options, command: Command) => (await import("./env.ts")).env(command.optsWithGlobals()));
}
