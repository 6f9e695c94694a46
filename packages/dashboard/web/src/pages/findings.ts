/** What `doctor` looks at, as far as a browser can see it: each with a verdict, and what to do about it. */
import type { HealthData, MachineRow, NodeRow } from "../../../src/shared/rows.ts";
import { formatBytes } from "../format.ts";
import { texts } from "../texts.ts";

export interface Finding {
  readonly title: string;
  readonly tone: "good" | "warn" | "bad";
  readonly text: string;
}

interface Observed {
  readonly health: HealthData;
  readonly nodes: readonly NodeRow[];
  readonly machines: readonly MachineRow[];
}

const soonDays = 14;
const littleStorage = 5 * 1024 ** 3;

export function listFindings({ health, nodes, machines }: Observed): Finding[] {
  return [
    checkParts(health),
    checkVersions(health),
    checkNodes(nodes),
    checkMachines(machines),
    checkHosts(nodes),
    ...checkCertificates(health),
    ...checkReconciles(health),
    ...checkStorage(health),
  ];
}

function checkParts({ parts }: HealthData): Finding {
  const down = parts.filter(({ up }) => !up).map(({ name }) => name);
  const { title, ok, fix } = texts.finding.parts;
  return down.length === 0
    ? { title, tone: "good", text: ok(parts.length) }
    : { title, tone: "bad", text: fix(down.join(", ")) };
}

function checkVersions({ parts }: HealthData): Finding {
  const versions = [...new Set(parts.map(({ version }) => version).filter((version) => version !== ""))];
  const { title, ok, fix } = texts.finding.versions;
  return versions.length <= 1
    ? { title, tone: "good", text: ok(versions[0] ?? "") }
    : { title, tone: "warn", text: fix(versions.join(", ")) };
}

function checkNodes(nodes: readonly NodeRow[]): Finding {
  const hosts = nodes.filter(({ pool }) => pool !== "");
  const down = hosts.filter(({ ready }) => !ready).map(({ name }) => name);
  const { title, ok, fix } = texts.finding.nodes;
  return down.length === 0
    ? { title, tone: "good", text: ok(hosts.length) }
    : { title, tone: "bad", text: fix(down.join(", ")) };
}

function checkMachines(machines: readonly MachineRow[]): Finding {
  const failed = machines.filter(({ state }) => state === "failed").map(({ name }) => name);
  const { title, ok, fix } = texts.finding.machines;
  return failed.length === 0
    ? { title, tone: "good", text: ok(machines.length) }
    : { title, tone: "bad", text: fix(failed.slice(0, 5).join(", ")) };
}

function checkHosts(nodes: readonly NodeRow[]): Finding {
  const { title, ok, fix, frozen } = texts.finding.hosts;
  const problems = nodes.flatMap((node) => [
    ...node.pressure.map((condition) => `${node.name}: ${condition}`),
    ...(node.frozen === 0 ? [] : [frozen(node.name)]),
  ]);
  return problems.length === 0
    ? { title, tone: "good", text: ok }
    : { title, tone: "warn", text: fix(problems.join(", ")) };
}

/** The newest value of a metric, for each part that has it. */
export function readNewest({ series }: Pick<HealthData, "series">, name: string): number[] {
  return series
    .filter((each) => each.name === name)
    .flatMap(({ values }) => {
      const last = values.at(-1);
      return typeof last === "number" ? [last] : [];
    });
}

function checkCertificates(health: HealthData): Finding[] {
  const days = readNewest(health, "serving_certificate_days_to_expiry");
  if (days.length === 0) return [];
  const least = Math.floor(Math.min(...days));
  const { title, ok, fix } = texts.finding.certificates;
  return [
    least >= soonDays
      ? { title, tone: "good", text: ok(least) }
      : { title, tone: least > 0 ? "warn" : "bad", text: fix(least) },
  ];
}

function checkReconciles(health: HealthData): Finding[] {
  const failing = readNewest(health, "controller_failing_objects");
  if (failing.length === 0) return [];
  const count = failing.reduce((sum, value) => sum + value, 0);
  const { title, ok, fix } = texts.finding.reconciles;
  return [count === 0 ? { title, tone: "good", text: ok } : { title, tone: "warn", text: fix(count) }];
}

function checkStorage(health: HealthData): Finding[] {
  const free = readNewest(health, "vk_cocoon_node_storage_available_bytes");
  if (free.length === 0) return [];
  const least = Math.min(...free);
  const { title, ok, fix } = texts.finding.storage;
  return [
    least >= littleStorage
      ? { title, tone: "good", text: ok(formatBytes(least)) }
      : { title, tone: "warn", text: fix(formatBytes(least)) },
  ];
}
