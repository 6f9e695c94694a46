/** Commands about the platform on this machine. */
import type { Command } from "commander";
import { clusterOptions, examples } from "./options.ts";

const group = "The platform on this machine:";

export function addPlatformCommands(program: Command): void {
  addLifecycleCommands(program);
  addLookCommands(program);
  addAccessCommands(program);
}

function addLifecycleCommands(program: Command): void {
  const up = program
    .command("up")
    .helpGroup(group)
    .description("bring the platform up on this machine; again = do what is missing")
    .option("--port <number>", "port of the Kubernetes API (default: a free one, then always the same)")
    .option("--audit-log", "let the API server write an audit log (metadata only)")
    .option("--aggregation", "certificates for aggregated API servers such as metrics-server")
    .option("--kubeconfig <path>", "use that cluster; no control plane is started here")
    .option("--context <name>", "use that context of the kubeconfig; no control plane is started here")
    .option("--no-parts", "only the control plane, without registry, nodes and machines")
    .option("--no-demo", "do not make the demo machine")
    .option("--no-install", "do not download or build anything: say what is missing")
    .option("--dry-run", "print the commands that would run, start nothing");
  examples(up, "cocoonctl up", "cocoonctl up --port 6443", "cocoonctl up --dry-run").action(
    async (_options, command: Command) => (await import("./up.ts")).up(command.optsWithGlobals()),
  );
  const down = program
    .command("down")
    .helpGroup(group)
    .description("stop everything; the data stays for the next up")
    .option("--wipe", "also remove the data: the cluster is gone for good");
  examples(down, "cocoonctl down", "cocoonctl down --wipe").action(async (_options, command: Command) =>
    (await import("./down.ts")).down(command.optsWithGlobals()),
  );
  const restart = program
    .command("restart <part>")
    .helpGroup(group)
    .description("stop one part and start it again");
  examples(restart, "cocoonctl restart operator").action(async (part: string, _options, command: Command) =>
    (await import("./restart.ts")).restart(part, command.optsWithGlobals()),
  );
}

function addLookCommands(program: Command): void {
  const status = program
    .command("status")
    .helpGroup(group)
    .description("what runs, since when, with how much memory")
    .option("-o, --output <format>", "table or json", "table")
    .option("-w, --watch", "show it again every second until Ctrl-C");
  examples(status, "cocoonctl status", "cocoonctl status --watch").action(
    async (_options, command: Command) => (await import("./status.ts")).status(command.optsWithGlobals()),
  );
  const doctor = program
    .command("doctor")
    .helpGroup(group)
    .description("what may be wrong on this machine, each with its fix")
    .option("-o, --output <format>", "table or json", "table");
  examples(doctor, "cocoonctl doctor").action(async (_options, command: Command) =>
    (await import("./doctor.ts")).doctor(command.optsWithGlobals()),
  );
}

function addAccessCommands(program: Command): void {
  const kubeconfig = program
    .command("kubeconfig")
    .helpGroup(group)
    .description("print the kubeconfig of this machine's cluster")
    .option("--path", "print where the file is instead");
  examples(
    kubeconfig,
    'export KUBECONFIG="$(cocoonctl kubeconfig --path)"',
    "cocoonctl kubeconfig > ~/.kube/cocoon",
  ).action(async (_options, command: Command) =>
    (await import("./kubeconfig.ts")).kubeconfig(command.optsWithGlobals()),
  );
  const env = program
    .command("env")
    .helpGroup(group)
    .description("lines for eval: this shell's kubectl is then the cluster's");
  examples(env, 'eval "$(cocoonctl env)"').action(async (_options, command: Command) =>
    (await import("./env.ts")).env(command.optsWithGlobals()),
  );
  program
    .command("kubectl [args...]")
    .helpGroup(group)
    .description("the kubectl that matches the cluster, with its kubeconfig")
    .allowUnknownOption()
    .helpOption(false)
    .action(async (_args: string[], _options, command: Command) => {
      // As they were typed: the parser takes a "--" away, which kubectl exec needs.
      const args = process.argv.slice(process.argv.indexOf("kubectl") + 1);
      await (await import("./kubectl.ts")).kubectl(args, command.optsWithGlobals());
    });
  const migrate = program
    .command("migrate-legacy")
    .helpGroup(group)
    .description("turn objects of cocoon.cis/v1alpha1 into current ones; their machines go on")
    .option("--dry-run", "say what would be done, do nothing");
  examples(
    clusterOptions(migrate),
    "cocoonctl migrate-legacy --dry-run",
    "cocoonctl migrate-legacy -n team",
  ).action(async (_options, command: Command) =>
    (await import("./migrate-legacy.ts")).migrateLegacy(command.optsWithGlobals()),
  );
}
