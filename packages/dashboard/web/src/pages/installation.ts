/** The installation as a map: its parts where they stand between users and the registry, each with what is known of it. */
import type { HealthData, MachineRow, NodeRow, PartHealth } from "../../../src/shared/rows.ts";
import { formatBytes } from "../format.ts";
import { texts } from "../texts.ts";
import { readNewest } from "./findings.ts";

export interface MapItem {
  readonly name: string;
  readonly tone: "good" | "warn" | "bad";
  /** What is wrong; else what it runs. */
  readonly facts: readonly string[];
}

export interface MapArea {
  readonly title: string;
  /** What it has to do with the next area. */
  readonly leads: string;
  readonly items: readonly MapItem[];
}

export interface MapInput {
  readonly health: HealthData;
  readonly nodes: readonly NodeRow[];
  readonly machines: readonly MachineRow[];
  /** Of the API server; "" while it is not known. */
  readonly kubernetes: string;
}

type AreaName = keyof typeof texts.map.areas;

const areaNames = Object.keys(texts.map.areas) as readonly AreaName[];
const areas: Readonly<Record<string, AreaName>> = {
  gateway: "entrances",
  dashboard: "entrances",
  registry: "registry",
};

function findArea(part: string): AreaName {
  return areas[part] ?? (/^vk\b/.test(part) ? "nodes" : "control");
}

const soonDays = 14;

export function buildMap({ health, nodes, machines, kubernetes }: MapInput): MapArea[] {
  const items: Record<AreaName, MapItem[]> = { entrances: [], control: [], nodes: [], registry: [] };
  items.control.push({
    name: texts.map.apiServer,
    tone: "good",
    facts: kubernetes === "" ? [] : [texts.map.version(kubernetes)],
  });
  for (const node of nodes.filter(({ pool }) => pool !== "")) items.nodes.push(describeNode(node, machines));
  for (const part of health.parts) items[findArea(part.name)].push(describePart(part, health));
  return areaNames.map((name) => ({ ...texts.map.areas[name], items: items[name] }));
}

function describePart({ name, up, version, error }: PartHealth, { series }: HealthData): MapItem {
  const own = { series: series.filter(({ part }) => part === name) };
  const [days] = readNewest(own, "serving_certificate_days_to_expiry");
  const [memory] = readNewest(own, "process_resident_memory_bytes");
  if (!up) return { name, tone: "bad", facts: [texts.health.down, error].filter((text) => text !== "") };
  const facts = [
    ...(version === "" ? [] : [texts.map.version(version)]),
    ...(memory === undefined ? [] : [texts.map.memory(formatBytes(memory))]),
    ...(days === undefined ? [] : [texts.map.certificate(Math.floor(days))]),
  ];
  return { name, tone: days !== undefined && days < soonDays ? "warn" : "good", facts };
}

function describeNode(node: NodeRow, machines: readonly MachineRow[]): MapItem {
  const { name, ready, message, runtime, version, pressure, frozen, unschedulable } = node;
  const count = machines.filter((machine) => machine.node === name).length;
  if (!ready) return { name, tone: "bad", facts: [texts.nodes.notReady, message] };
  const problems = [
    ...pressure,
    ...(unschedulable ? [texts.nodes.cordoned] : []),
    ...(frozen === 0 ? [] : [texts.map.frozen(frozen)]),
  ];
  const facts = [...problems, texts.map.machines(count), runtime, texts.map.version(version)];
  return { name, tone: problems.length === 0 ? "good" : "warn", facts: facts.filter((text) => text !== "") };
}
