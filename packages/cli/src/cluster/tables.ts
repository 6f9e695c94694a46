/** Sets and machines as tables. Pure. */
import { age, formatTable, type Column } from "../table.ts";
import { shortDigest } from "../output.ts";
import type { SetObject } from "./kinds.ts";
import type { MachineRow } from "./machine-rows.ts";
import { degradation } from "./set-progress.ts";

export interface TableOptions {
  readonly wide: boolean;
  readonly namespaces: boolean;
  readonly now: number;
}

function ageText(since: string | undefined, now: number): string {
  const at = Date.parse(since ?? "");
  return Number.isNaN(at) ? "-" : age(now - at);
}

export function setTable(sets: readonly SetObject[], { wide, namespaces, now }: TableOptions): string {
  const columns: Column<SetObject>[] = [
    { title: "NAMESPACE", only: namespaces, cell: ({ metadata }) => metadata.namespace },
    { title: "SET", cell: ({ metadata }) => metadata.name },
    { title: "PHASE", cell: ({ status }) => status?.phase ?? "Unknown" },
    { title: "AGENTS", cell: agentsText },
    { title: "TOOLBOXES", cell: toolboxesText },
    { title: "ASLEEP", cell: ({ status }) => String(status?.hibernatedMachines ?? 0) },
    { title: "NODE", cell: findMainNode },
    { title: "AGE", cell: ({ metadata }) => ageText(metadata.creationTimestamp, now) },
    { title: "IMAGE", only: wide, cell: ({ spec }) => spec?.agent.image },
    { title: "POOL", only: wide, cell: ({ spec }) => spec?.nodePool },
    { title: "HIBERNATE", only: wide, cell: ({ spec }) => spec?.hibernatePolicy },
    { title: "SNAPSHOTS", only: wide, cell: ({ spec }) => spec?.snapshotPolicy },
  ];
  return formatTable(columns, sets);
}

function agentsText({ spec, status }: SetObject): string {
  return `${status?.readyAgents ?? 0}/${status?.desiredAgents ?? 1 + (spec?.agent.replicas ?? 0)}`;
}

function toolboxesText({ spec, status }: SetObject): string {
  return `${status?.readyToolboxes ?? 0}/${status?.desiredToolboxes ?? spec?.toolboxes?.length ?? 0}`;
}

function findMainNode({ spec, status }: SetObject): string | undefined {
  return status?.agents?.find(({ slot }) => slot === 0)?.nodeName ?? spec?.nodeName;
}

export function machineTable(
  machines: readonly MachineRow[],
  { wide, namespaces, now }: TableOptions,
): string {
  const columns: Column<MachineRow>[] = [
    { title: "NAMESPACE", only: namespaces, cell: ({ namespace }) => namespace },
    { title: "MACHINE", cell: ({ name }) => name },
    { title: "ROLE", cell: ({ role }) => role },
    { title: "STATE", cell: ({ state }) => state },
    { title: "NODE", cell: ({ node }) => node },
    { title: "IP", cell: ({ ip }) => ip },
    { title: "MEMORY", cell: ({ memory }) => memory },
    { title: "SNAPSHOT", cell: ({ snapshot }) => (wide ? snapshot : shortDigest(snapshot)) },
    { title: "AGE", cell: ({ createdAt }) => ageText(createdAt, now) },
    { title: "CPU", only: wide, cell: ({ cpu }) => cpu },
    { title: "VM", only: wide, cell: ({ vmName }) => vmName },
    { title: "ID", only: wide, cell: ({ vmId }) => vmId },
    { title: "IMAGE", only: wide, cell: ({ image }) => image },
  ];
  return formatTable(columns, machines);
}

/** Below the tables: why something is not as it should be. */
export function problemsText(found: {
  readonly sets: readonly SetObject[];
  readonly machines: readonly MachineRow[];
}): string {
  const sets = found.sets.flatMap((set) => {
    const { name = "" } = set.metadata;
    if (!set.status?.phase)
      return [`${name}: Unknown: the operator has not observed it yet; is it running? (doctor, status)`];
    const problem = degradation(set);
    return problem ? [`${name}: ${problem.reason}: ${problem.message}`] : [];
  });
  const machines = found.machines.flatMap(({ name, state, message }) =>
    message === "" ? [] : [`${name}: ${state}: ${message}`],
  );
  const lines = [...sets, ...machines];
  return lines.length === 0 ? "" : `\n${lines.join("\n")}\n`;
}
