/** docs/cli.md: every command with its options and examples, from the command tree itself. */
import { buildProgram, visibleCommands } from "@cocoon/cli/program";
import { exitCode, exitCodeMeanings } from "@cocoon/cli/exit-codes";
import type { Generator } from "./generator.ts";

type Command = Awaited<ReturnType<typeof buildProgram>>;

const program = await buildProgram("cocoonctl");
type Option = Command["options"][number];

export const cliReference: Generator = {
  name: "command line reference",
  owns: ["docs/cli.md"],
  generate: () => [{ path: "docs/cli.md", content: page(program) }],
};

const intro = `<!-- Generated from packages/cli by npm run generate. Do not edit. -->
# cocoonctl

Brings the platform up on one machine and looks after sets and machines, there and in any cluster. In the source tree it is
\`npm run cocoonctl --\`; installed as \`kubectl-cocoon\` on the PATH, the same program is \`kubectl cocoon\`.

## Which cluster

\`--kubeconfig\` and \`--context\` name it. Without them \`cocoonctl\` means the platform of this machine, where \`up\` made one
(\`--dir\`, \`COCOON_HOME\`), and \`kubectl cocoon\` means what kubectl means: \`KUBECONFIG\`, else \`~/.kube/config\`, else the
service account of the pod it runs in. \`cocoonctl\` follows the same rules where there is no platform. The namespace is
\`-n\`, else that of the context, else \`default\`.

## Names

A machine is named like its pod: \`demo-0\` is the main agent of set \`demo\`, \`demo-1\` its first sub-agent, \`demo-tools\` its
toolbox \`tools\`. The name in the registry (\`vk-<namespace>-demo-0\`) is understood too. Where one machine is meant, the name
of a set means its main agent. A name that nothing has is answered with those that may have been meant.

## States of a machine

| State | Meaning |
|---|---|
| \`pending\` | it has no node or no pod yet, or its node has not reported about it |
| \`creating\` | its node makes it |
| \`ready\` | it runs and answers |
| \`not ready\` | it runs, but does not answer |
| \`hibernating\` | it is to sleep: memory and disk go to the registry |
| \`asleep\` | it sleeps in the snapshot that is shown |
| \`waking\` | it is being restored from its snapshot |
| \`failed\` | its node could not do what was asked; the reason stands below the table |
| \`terminating\` | its pod is being deleted |
| \`unknown\` | its node reports a word that this version does not know |

\`get\` prints with \`-o json\` and \`-o yaml\`: of sets the CocoonSets as the API server has them; of machines objects with
\`namespace\`, \`name\`, \`set\`, \`role\`, \`state\`, \`node\`, \`ip\`, \`cpu\`, \`memory\`, \`snapshot\`, \`createdAt\`, \`vmName\`, \`vmId\`,
\`image\` and \`message\`, empty where there is nothing to say; of both, an object with \`sets\` and \`machines\`.

## Waiting

Commands that ask for something wait until it is so. How far it is stands on one line of standard error; results stand on
standard output. \`--timeout\` ends the wait, \`--no-wait\` does not begin it: the request was submitted and continues either way, and
the same command takes the wait up again. Ctrl-C ends the wait only.

## Rights

| Commands | Rights in the namespace |
|---|---|
| \`get\`, \`events\` | get and list of cocoonsets, cocoonhibernations, pods and events |
| \`create\`, \`suspend\`, \`resume\`, \`migrate\`, \`snapshot restore\` | create or patch of cocoonsets; \`migrate\` also reads the node |
| \`scale\` | patch of cocoonsets/scale |
| \`delete\` | delete of cocoonsets |
| \`hibernate\`, \`wake\` | create, patch and delete of cocoonhibernations |
| \`exec\`, \`console\`, \`logs\`, \`ssh\` | create of pods/exec, pods/attach, pods/portforward; get of pods/log |
| \`drain\`, \`uncordon\` | in the whole cluster: patch of nodes, list of pods, create of pods/eviction |
| \`snapshot ls\`, \`snapshot rm\` | an account of the registry: \`OCI_REGISTRY\` or \`EPOCH_URL\`, \`EPOCH_TOKEN\` or docker's configuration file, \`EPOCH_CA_CERT\` |

exec, console, logs and ssh run kubectl, which speaks these streams with every API server. They need no way to the node or
to the guest's network. Tokens come from the environment or from files, never from the command line.
`;

function page(program: Command): string {
  const commands = leaves(program).toSorted((left, right) => fullName(left).localeCompare(fullName(right)));
  const index = groups(program);
  return [intro, exitCodes(), globalOptions(program), index, ...commands.map(section)].join("\n");
}

/** Commands that do something; of a family only its members. */
function leaves(command: Command): Command[] {
  return visibleCommands(command).flatMap((each) => (each.commands.length > 0 ? leaves(each) : [each]));
}

function exitCodes(): string {
  const rows = Object.entries(exitCode).map(
    ([name, code]) => `| ${code} | ${exitCodeMeanings[name as keyof typeof exitCode]} |\n`,
  );
  return `## Exit codes

| Code | Meaning |
|---|---|
${rows.join("")}
\`exec\`, \`ssh\`, \`console\`, \`kubectl\` and the logs of machines pass the code of the command on.
`;
}

function globalOptions(program: Command): string {
  return `## Options of every command\n\n${optionList(program.options)}`;
}

function groups(program: Command): string {
  const shown = visibleCommands(program);
  const parts = [...Map.groupBy(shown, (each) => each.helpGroup())].map(([title, commands]) => {
    const lines = commands
      .flatMap((each) => (each.commands.length > 0 ? leaves(each) : [each]))
      .map((each) => `- [\`${fullName(each)}\`](#${anchor(each)}): ${readSummary(each)}\n`);
    return `**${title.replace(/:$/, "")}**\n\n${lines.join("")}`;
  });
  return `## Commands\n\n${parts.join("\n")}`;
}

function fullName(command: Command): string {
  const { parent } = command;
  return parent?.parent ? `${fullName(parent)} ${command.name()}` : command.name();
}

function anchor(command: Command): string {
  return fullName(command).replaceAll(" ", "-");
}

function readSummary(command: Command): string {
  return command.summary() || command.description();
}

function section(command: Command): string {
  const usage = `    cocoonctl ${fullName(command)} ${command.usage()}`;
  const aliases = command.aliases().length > 0 ? `\nAlso: \`${command.aliases().join("`, `")}\`.\n` : "";
  const options = command.options.length > 0 ? `\n${optionList(command.options)}` : "";
  return `### ${fullName(command)}\n\n${sentence(command.description())}\n\n${usage}\n${aliases}${options}${readExamples(command)}`;
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}${text.endsWith(".") ? "" : "."}`;
}

function optionList(options: readonly Option[]): string {
  return options
    .map((option) => {
      const preset = typeof option.defaultValue === "string" ? `; default \`${option.defaultValue}\`` : "";
      return `- \`${option.flags}\`: ${option.description}${preset}\n`;
    })
    .join("");
}

/** What the help shows after the options. */
function readExamples(command: Command): string {
  const lines: string[] = [];
  command.configureOutput({ writeOut: (text) => lines.push(text) });
  command.outputHelp();
  const [, text] = lines.join("").split("\nExamples:\n");
  if (text === undefined) return "";
  const shown = text.split("\n").filter((line) => line.trim() !== "");
  return `\nExamples:\n\n${shown.map((line) => `    ${line.trim()}\n`).join("")}`;
}
