/** docs/reference/settings.md: every variable and flag of every service, from the tables that read them. */
import { defaultText, getEnvNames, getFlagName, type Option, type Options, type Program } from "@cocoon/core";
import { colocationProgram } from "../../packages/colocation/src/config.ts";
import { gatewayProgram } from "../../packages/gateway/src/config.ts";
import { dashboardProgram } from "../../packages/dashboard/src/config.ts";
import { operatorProgram } from "../../packages/operator/src/config.ts";
import { serveProgram } from "../../packages/registry/src/config.ts";
import { vkProgram } from "../../packages/vk/src/config.ts";
import { webhookProgram } from "../../packages/webhook/src/config.ts";
import type { Generator } from "./generator.ts";
import { code, notice, table } from "./markdown.ts";

const programs: readonly Program<Options>[] = [
  vkProgram,
  operatorProgram,
  webhookProgram,
  colocationProgram,
  gatewayProgram,
  dashboardProgram,
  serveProgram,
];

const path = "docs/reference/settings.md";

export const settingsReference: Generator = {
  name: "settings reference",
  owns: [path],
  generate: () => [
    { path, content: `${notice("the programs' own tables")}${intro}${programs.map(section).join("")}` },
  ],
};

const intro = `# Settings of the services

A flag wins over a variable, a variable over the file of \`--config FILE\` (JSON, keys as in the last column), the file over the
default. Every option also has the variable \`COCOON_\` + its key in capitals (\`logLevel\`: \`COCOON_LOG_LEVEL\`). An unknown flag or
file key is an error; all mistakes are reported at once. Every service also knows \`--help\`, \`--version\` and \`--print-config\` (secrets
are shown as \`***\`). Secrets belong in variables, not in flags, which other users of the host can read.
`;

function section({ name, summary, options }: Program<Options>): string {
  const rows = Object.entries(options).map(([key, option]) => [
    code(`--${getFlagName(key, option)}`),
    documentedVariables(key, option).map(code).join(", "),
    code(defaultText(option)),
    `${option.description}${option.secret ? " (secret)" : ""}`,
    code(key),
  ]);
  return `\n## ${name}\n\n${summary}\n\n${table(["Flag", "Variable", "Default", "Meaning", "Key"], rows)}`;
}

/** The documented names; the mechanical one only where there is no other. */
function documentedVariables(key: string, option: Option): readonly string[] {
  return option.env ?? getEnvNames(key, option);
}
