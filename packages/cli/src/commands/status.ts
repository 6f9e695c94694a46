/** status: one line per part; a crashed part also shows its last log lines. Exit code 3 when nothing runs. */
import { readFileSync } from "node:fs";
import { componentStatus, type ComponentStatus } from "@cocoon/controlplane";
import { abortOnSignals } from "@cocoon/core";
import { homeDirectory, type HomeOptions } from "../home.ts";
import { findDashboardUrl } from "../parts/dashboard-part.ts";
import { knownPlatform, type Platform } from "../platform.ts";
import { exitCode, Quit } from "../run-cli.ts";
import { ensureSupervisor } from "../supervision.ts";
import { readFormat } from "../output.ts";
import { age, formatTable, type Column } from "../table.ts";
import { watchLoop } from "../watch-loop.ts";
import type { CommandSpec } from "../command-spec.ts";

export const command: CommandSpec = {
  usage: "status",
  description: "what runs, since when, with how much memory",
  options: {
    "-o, --output <format>": ["table or json", "table"],
    "-w, --watch": "show it again every second until Ctrl-C",
  },
  examples: ["cocoonctl status", "cocoonctl status --watch"],
  run: status,
};

async function status(
  options: HomeOptions & { readonly output: string; readonly watch?: boolean },
): Promise<void> {
  const format = readFormat(options.output, ["table", "json"]);
  const directory = homeDirectory(options, process.env);
  const platform = await knownPlatform(directory, process.env);
  if (!platform) {
    process.stderr.write(`No cluster in ${directory}. Bring one up with: npm run up\n`);
    throw new Quit(exitCode.notRunning);
  }
  await ensureSupervisor(directory);
  const signal = abortOnSignals();
  const { watch = false } = options;
  let statuses: readonly ComponentStatus[] = [];
  await watchLoop({ watch, signal }, async () => {
    statuses = await Promise.all(
      platform.components.map((component) => componentStatus(component, { directory, signal })),
    );
    return format === "json"
      ? `${JSON.stringify(statuses.map(selectFields), null, 2)}\n`
      : formatStatus(platform, statuses);
  });
  if (statuses.length > 0 && statuses.every((each) => each.state === "stopped"))
    throw new Quit(exitCode.notRunning);
  if (!watch && statuses.some((each) => each.state !== "ready")) throw new Quit(exitCode.failed);
}

const columns: readonly Column<ComponentStatus>[] = [
  { title: "PART", cell: ({ name }) => name },
  { title: "STATE", cell: ({ state }) => state },
  { title: "PID", cell: ({ identity }) => identity && String(identity.pid) },
  {
    title: "AGE",
    cell: ({ identity, startedAt }) => identity && startedAt && age(Date.now() - Date.parse(startedAt)),
  },
  {
    title: "MEMORY",
    cell: ({ identity }) => identity && `${Math.round(readResidentBytes(identity.pid) / 1e6)} MB`,
  },
  { title: "RESTARTS", cell: ({ restarts }) => String(restarts) },
  { title: "WHAT IT IS", cell: ({ summary }) => summary },
];

function formatStatus({ server, components }: Platform, statuses: readonly ComponentStatus[]): string {
  const problems = statuses.filter(({ detail }) => detail !== "").map(({ detail }) => `\n${detail}`);
  const table = formatTable(columns, statuses);
  const page = findDashboardUrl(components);
  const addresses = `Kubernetes API: ${server}\n${page ? `Dashboard: ${page} (npm run cocoonctl -- dashboard signs in)\n` : ""}`;
  return `${addresses}\n${table}\n${problems.join("\n")}\n${nextStep(statuses)}\n`;
}

/** What to type next, by the worst state of a part. */
export function nextStep(statuses: readonly Pick<ComponentStatus, "name" | "state">[]): string {
  const find = (state: ComponentStatus["state"]) => statuses.find((each) => each.state === state)?.name;
  const crashed = find("crashed");
  if (crashed) return `Next: npm run up starts what is down; npm run logs -- ${crashed} shows why it ended.`;
  if (find("restarting")) return "Next: npm run status -- --watch shows when it is back.";
  const slow = find("not ready");
  if (slow) return `Next: npm run logs -- ${slow} shows what it waits for.`;
  if (statuses.length === 0)
    return "Next: npm run cocoonctl -- kubectl -n cocoon-system get pods shows the parts in the cluster.";
  if (find("stopped")) return "Next: npm run up starts it; the data is kept.";
  return "Next: npm run cocoonctl -- get shows machines; npm run cocoonctl -- create a1 --image cocoon-demo makes one.";
}

function selectFields(status: ComponentStatus): Record<string, unknown> {
  const { identity, ...rest } = status;
  return {
    ...rest,
    pid: identity?.pid ?? null,
    residentBytes: identity ? readResidentBytes(identity.pid) : null,
  };
}

function readResidentBytes(pid: number): number {
  try {
    const match = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, "latin1"));
    return Number(match?.[1] ?? 0) * 1024;
  } catch {
    return 0; // it ended while we looked
  }
}
