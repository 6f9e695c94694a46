/** The command tree: the path of a file is its command. Only the command that was typed is loaded; help and completions need all. */
import type { Command } from "commander";
import { addCommand, type CommandSpec } from "../command-spec.ts";

type Loaders = Readonly<Record<string, () => Promise<{ readonly command: CommandSpec }>>>;

const groups: Readonly<Record<string, Loaders>> = {
  "Sets and machines:": {
    get: () => import("./get.ts"),
    create: () => import("./create.ts"),
    delete: () => import("./delete.ts"),
    images: () => import("./images.ts"),
    suspend: () => import("./suspend.ts"),
    resume: () => import("./resume.ts"),
    hibernate: () => import("./hibernate.ts"),
    wake: () => import("./wake.ts"),
    scale: () => import("./scale.ts"),
    migrate: () => import("./migrate.ts"),
    events: () => import("./events.ts"),
  },
  "Nodes:": {
    drain: () => import("./drain.ts"),
    uncordon: () => import("./uncordon.ts"),
  },
  "Inside machines:": {
    exec: () => import("./exec.ts"),
    ssh: () => import("./ssh.ts"),
    "port-forward": () => import("./port-forward.ts"),
    console: () => import("./console.ts"),
    logs: () => import("./logs.ts"),
  },
  "Snapshots:": { snapshot: () => import("./snapshot/index.ts") },
  "Sandboxes:": { apikey: () => import("./apikey/index.ts") },
  "The platform on this machine:": {
    up: () => import("./up.ts"),
    down: () => import("./down.ts"),
    restart: () => import("./restart.ts"),
    dashboard: () => import("./dashboard.ts"),
    "registry-certificate": () => import("./registry-certificate.ts"),
    supervise: () => import("./supervise.ts"),
    relay: () => import("./relay.ts"),
    status: () => import("./status.ts"),
    doctor: () => import("./doctor.ts"),
    kubeconfig: () => import("./kubeconfig.ts"),
    env: () => import("./env.ts"),
    kubectl: () => import("./kubectl.ts"),
    "migrate-legacy": () => import("./migrate-legacy.ts"),
  },
  "This tool:": {
    completion: () => import("./completion.ts"),
    __complete: () => import("./complete.ts"),
    version: () => import("./version.ts"),
  },
};

/** Adds the command that the arguments name, or all of them where they name none. */
export async function addCommands(program: Command, argv: readonly string[]): Promise<void> {
  const wanted = findCommand(argv);
  for (const [group, loaders] of Object.entries(groups)) {
    const chosen = Object.entries(loaders).filter(([name]) => wanted === undefined || name === wanted);
    const modules = await Promise.all(chosen.map(([, load]) => load()));
    for (const { command } of modules) addCommand(program, command, group);
  }
}

function findCommand(argv: readonly string[]): string | undefined {
  const words = argv.filter((_, index) => argv[index - 1] !== "--dir");
  const first = words.find((word) => !word.startsWith("-"));
  // Completions are about every command.
  if (first === undefined || first === "__complete") return undefined;
  return Object.values(groups).some((loaders) => Object.hasOwn(loaders, first)) ? first : undefined;
}
