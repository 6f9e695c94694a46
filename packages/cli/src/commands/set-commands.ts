/** Commands about sets and machines. */
import type { Command } from "commander";
import { clusterOptions, examples, outputOption, waitOptions } from "./options.ts";

const group = "Sets and machines:";

export function addSetCommands(program: Command): void {
  addGet(program);
  addCreate(program);
  addSuspension(program);
  addHibernation(program);
  addMoves(program);
}

function addGet(program: Command): void {
  const get = program
    .command("get [what...]")
    .helpGroup(group)
    .summary("sets and machines: node, address, state, age, memory, snapshot")
    .description(
      "Shows sets and machines. WHAT is sets, vms or nothing for both, and a name for one of them. Below the tables stands why something is not at rest.",
    )
    .option("-A, --all-namespaces", "in all namespaces")
    .option("-w, --watch", "show it again as it changes, until Ctrl-C");
  examples(
    clusterOptions(outputOption(get)),
    "cocoonctl get",
    "cocoonctl get demo",
    "cocoonctl get vms -A -o wide",
    "cocoonctl get vms -o json | jq -r '.[] | select(.state == \"asleep\") | .name'",
  ).action(async (what: string[], _options, command: Command) =>
    (await import("../verbs/get.ts")).get(what, command.optsWithGlobals()),
  );
}

function addCreate(program: Command): void {
  const create = program
    .command("create [name]")
    .helpGroup(group)
    .summary("make a set from flags or a file, and wait until it runs")
    .description(
      "Makes a CocoonSet: a main agent, sub-agents forked from it, toolboxes beside it. What exists already is not changed.",
    )
    .option("-f, --filename <path>", "CocoonSets from a YAML or JSON file; - reads standard input")
    .option(
      "--image <reference>",
      "what the machines start from: a snapshot repo[:tag], an image or its address",
    )
    .option(
      "--mode <mode>",
      "clone a snapshot or run (boot) an image (default: run for addresses, else clone)",
    )
    .option("--cpu <amount>", "CPUs of each machine, such as 2 or 500m")
    .option("--memory <amount>", "memory of each machine, such as 512Mi or 4Gi")
    .option("--storage <amount>", "size of each root volume, such as 20Gi")
    .option("--replicas <number>", "sub-agents beside the main agent")
    .option("--toolbox <name=image...>", "a further machine, booted from its image; may be repeated")
    .option("--os <system>", "linux, windows, android or macos")
    .option("--backend <name>", "cloud-hypervisor, firecracker or qemu: a preference")
    .option("--conn-type <type>", "how people reach it: ssh, rdp, vnc or adb")
    .option("--probe-port <port>", "TCP port that answers when the guest is ready")
    .option("--pool <name>", "pool of nodes to run on")
    .option("--node <name>", "node of the main agent")
    .option(
      "--snapshot-policy <policy>",
      "always, main-only or never: which machines leave a snapshot when deleted",
    )
    .option("--hibernate-policy <policy>", "retain or release: what becomes of the pods of sleeping machines")
    .option("--suspended", "make it asleep")
    .option("--dry-run [how]", "print what would be made: client (checked here) or server (checked there)")
    .option("-o, --output <format>", "print what was made: json, yaml or name");
  examples(
    clusterOptions(waitOptions(create, "10m")),
    "cocoonctl create web --image team/base:v1 --cpu 2 --memory 2Gi --replicas 2",
    "cocoonctl create box --image https://images.example/debian.qcow2 --memory 1Gi --storage 20Gi",
    "cocoonctl create -f set.yaml --dry-run=server",
    "cocoonctl create web --image team/base:v1 --dry-run > set.yaml",
  ).action(async (name: string | undefined, _options, command: Command) =>
    (await import("../verbs/create.ts")).create(name, command.optsWithGlobals()),
  );
}

function addSuspension(program: Command): void {
  const suspend = program
    .command("suspend <set...>")
    .helpGroup(group)
    .summary("put every machine of a set to sleep")
    .description(
      "Puts every machine of the sets to sleep: memory and disk go to the registry, the nodes are free again.",
    );
  examples(
    clusterOptions(waitOptions(suspend, "10m")),
    "cocoonctl suspend demo",
    "cocoonctl suspend a b --no-wait",
  ).action(async (names: string[], _options, command: Command) =>
    (await import("../verbs/suspend.ts")).suspend(names, command.optsWithGlobals()),
  );
  const resume = program
    .command("resume <set...>")
    .helpGroup(group)
    .summary("wake every machine of a suspended set")
    .description(
      "Wakes every machine of the sets, exactly where it was. Machines that were put to sleep one by one sleep on.",
    );
  examples(clusterOptions(waitOptions(resume, "10m")), "cocoonctl resume demo").action(
    async (names: string[], _options, command: Command) =>
      (await import("../verbs/suspend.ts")).resume(names, command.optsWithGlobals()),
  );
}

function addHibernation(program: Command): void {
  const hibernate = program
    .command("hibernate <machine...>")
    .helpGroup(group)
    .summary("put single machines to sleep")
    .description(
      "Puts single machines to sleep, by the CocoonHibernation of each pod. After a failure the same command tries again.",
    );
  examples(
    clusterOptions(waitOptions(hibernate, "5m")),
    "cocoonctl hibernate demo-1",
    "cocoonctl hibernate demo-1 demo-2 --timeout 2m",
  ).action(async (names: string[], _options, command: Command) =>
    (await import("../verbs/hibernate.ts")).hibernate(names, command.optsWithGlobals()),
  );
  const wake = program
    .command("wake <machine...>")
    .helpGroup(group)
    .summary("wake single machines")
    .description(
      "Wakes single machines, whatever put them to sleep. Machines of a suspended set wake with it: use resume.",
    );
  examples(clusterOptions(waitOptions(wake, "5m")), "cocoonctl wake demo-1").action(
    async (names: string[], _options, command: Command) =>
      (await import("../verbs/hibernate.ts")).wake(names, command.optsWithGlobals()),
  );
}

function addMoves(program: Command): void {
  const scale = program
    .command("scale <set> [count]")
    .helpGroup(group)
    .summary("change the number of sub-agents")
    .description(
      "Changes how many sub-agents a set has. The main agent is not counted: scale demo 0 leaves it alone.",
    )
    .option("--replicas <number>", "the same as COUNT");
  examples(
    clusterOptions(waitOptions(scale, "10m")),
    "cocoonctl scale demo 3",
    "cocoonctl scale demo --replicas=0",
  ).action(async (...[name, count, , command]: [string, string | undefined, unknown, Command]) =>
    (await import("../verbs/scale.ts")).scale(name, count, command.optsWithGlobals()),
  );
  const migrate = program
    .command("migrate <set> [node]")
    .helpGroup(group)
    .summary("move a set's main agent to another node")
    .description(
      "Moves the main agent: it sleeps, and wakes on the node exactly where it was. A node that cannot take it is refused before anything happens; a move that takes too long goes back.",
    )
    .option("--to <node>", "the same as NODE")
    .option("--unpin", "take the wish for a node away; the machine stays where it is");
  examples(
    clusterOptions(waitOptions(migrate, "10m")),
    "cocoonctl migrate demo cocoon-2",
    "cocoonctl migrate demo --unpin",
  ).action(async (...[name, node, , command]: [string, string | undefined, unknown, Command]) =>
    (await import("../verbs/migrate.ts")).migrate(name, node, command.optsWithGlobals()),
  );
}
