/** What a CocoonSet must fulfil, all of it at once. Texts and their order are what users of other versions know. */
import {
  backends,
  connectionTypes,
  findDnsLabelProblem,
  guestSystems,
  hibernatePolicies,
  isImageUrl,
  snapshotPolicies,
  tryParseRelativeReference,
} from "@cocoon/contract";
import type { FieldCause } from "@cocoon/core";
import { tryParseQuantity } from "@cocoon/core/quantity";
import { isIP } from "node:net";
import { emptyAgent, type AgentShape, type SpecShape, type ToolboxShape } from "./cocoonset-shape.ts";

type Report = (field: string, message: string) => void;

/** Most messages begin with the field. */
function wrong(report: Report, field: string, text: string): void {
  report(field, `${field} ${text}`);
}

/** Every violation; `message` is the whole text, `field` where it is. */
export function findViolations(spec: SpecShape): FieldCause[] {
  const found: FieldCause[] = [];
  const report: Report = (field, message) => void found.push({ field, message });
  const agent = spec.agent ?? emptyAgent;
  checkAgent(agent, report);
  checkToolboxes(spec, agent, report);
  checkSet(spec, agent, report);
  return found;
}

function checkAgent(agent: AgentShape, report: Report): void {
  const at = "spec.agent";
  if (agent.image === "") wrong(report, `${at}.image`, "is required");
  const replicas = agent.replicas ?? 0;
  if (replicas < 0) wrong(report, `${at}.replicas`, `must be >= 0, got ${replicas}`);
  if (!isAmong(agent.mode, ["clone", "run"]))
    wrong(report, `${at}.mode`, `must be clone or run, got ${quoted(agent.mode)}`);
  checkOptions(agent, { at, report });
  checkMode(agent, { at, mode: agent.mode || "clone", report });
}

interface Place {
  readonly at: string;
  readonly report: Report;
}

function checkOptions(machine: AgentShape | ToolboxShape, { at, report }: Place): void {
  const { os, backend, image } = machine;
  if (!isAmong(os, guestSystems))
    wrong(report, `${at}.os`, `must be linux, windows, android, or macos, got ${quoted(os)}`);
  checkConnection(machine, { at, report });
  if (!isAmong(backend, backends))
    wrong(report, `${at}.backend`, `must be cloud-hypervisor, firecracker, or qemu, got ${quoted(backend)}`);
  if (backend === "firecracker" && os === "windows")
    report(`${at}.os`, `${at}: firecracker does not support Windows guests`);
  if (backend === "firecracker" && isImageUrl(image))
    report(
      `${at}.image`,
      `${at}: firecracker requires an OCI image, cloudimg URLs are not supported (got ${quoted(image)})`,
    );
  checkAmounts(machine, { at, report });
}

function checkConnection({ connType }: AgentShape | ToolboxShape, { at, report }: Place): void {
  if (!isAmong(connType, connectionTypes))
    wrong(report, `${at}.connType`, `must be ssh, rdp, vnc, or adb, got ${quoted(connType)}`);
}

function checkAmounts({ storage, probePort }: AgentShape | ToolboxShape, { at, report }: Place): void {
  const size = storage === null || storage === undefined ? undefined : tryParseQuantity(storage);
  if (storage !== null && storage !== undefined && (size === undefined || size.nanos <= 0n))
    wrong(
      report,
      `${at}.storage`,
      `must be a quantity above 0, for example 20Gi, got ${quoted(String(storage))}`,
    );
  if (probePort !== null && probePort !== undefined && !isPort(probePort))
    wrong(report, `${at}.probePort`, `must be between 0 and 65535, got ${probePort}`);
}

function checkMode(
  { backend, image }: AgentShape | ToolboxShape,
  { at, mode, report }: Place & { readonly mode: string },
): void {
  if (backend === "firecracker" && mode !== "run")
    report(`${at}.mode`, `${at}: firecracker does not support ${mode} mode, use mode=run instead`);
  if (mode === "clone" && image !== "" && tryParseRelativeReference(image) === undefined)
    wrong(
      report,
      `${at}.image`,
      `${quoted(image)} must be repo[:tag] when mode is clone (no registry port or digest)`,
    );
}

function checkToolboxes({ toolboxes }: SpecShape, agent: AgentShape, report: Report): void {
  const earlier = new Set<string>();
  for (const [index, toolbox] of (toolboxes ?? []).entries()) {
    const at = `spec.toolboxes[${index}]`;
    if (toolbox.name === "") {
      wrong(report, `${at}.name`, "is required");
      continue;
    }
    checkName(toolbox.name, { at, earlier, report });
    earlier.add(toolbox.name);
    checkToolbox(toolbox, agent, { at, report });
  }
}

function checkName(
  name: string,
  { at, earlier, report }: Place & { readonly earlier: ReadonlySet<string> },
): void {
  const field = `${at}.name`;
  const problem = findDnsLabelProblem(name);
  if (problem !== undefined) wrong(report, field, `${quoted(name)} must match RFC 1123 label: ${problem}`);
  if (isInteger(name))
    wrong(report, field, `${quoted(name)} must not be purely numeric (conflicts with agent slot naming)`);
  if (earlier.has(name)) wrong(report, field, `${quoted(name)} duplicates an earlier toolbox`);
}

function checkToolbox(toolbox: ToolboxShape, agent: AgentShape, { at, report }: Place): void {
  if (!isAmong(toolbox.mode, ["run", "clone", "static"]))
    wrong(report, `${at}.mode`, `must be run, clone, or static, got ${quoted(toolbox.mode)}`);
  if (toolbox.mode === "static") return checkStatic(toolbox, { at, report });
  if (toolbox.image === "") wrong(report, `${at}.image`, "is required when mode is run or clone");
  checkOptions(toolbox, { at, report });
  const backend = toolbox.backend || "cloud-hypervisor";
  const agentBackend = agent.backend || "cloud-hypervisor";
  if (backend !== agentBackend)
    wrong(
      report,
      `${at}.backend`,
      `${quoted(backend)} must match spec.agent.backend ${quoted(agentBackend)}`,
    );
  checkMode(toolbox, { at, mode: toolbox.mode || "run", report });
}

function checkStatic(toolbox: ToolboxShape, { at, report }: Place): void {
  const waits = toolbox.awaitAddress === true;
  if (toolbox.staticIP === "" && !waits) wrong(report, `${at}.staticIP`, "is required when mode=static");
  if (toolbox.staticIP !== "" && isIP(toolbox.staticIP) === 0)
    wrong(report, `${at}.staticIP`, `${quoted(toolbox.staticIP)} must be an IP address`);
  if (toolbox.staticVMID === "" && !waits) wrong(report, `${at}.staticVMID`, "is required when mode=static");
  checkConnection(toolbox, { at, report });
}

function checkSet(spec: SpecShape, agent: AgentShape, report: Report): void {
  const { snapshotPolicy, hibernatePolicy, toolboxes } = spec;
  if (!isAmong(snapshotPolicy, snapshotPolicies))
    wrong(
      report,
      "spec.snapshotPolicy",
      `must be always, main-only, or never, got ${quoted(snapshotPolicy)}`,
    );
  if (!isAmong(hibernatePolicy, hibernatePolicies))
    wrong(report, "spec.hibernatePolicy", `must be retain or release, got ${quoted(hibernatePolicy)}`);
  const hasMore = (agent.replicas ?? 0) > 0 || (toolboxes?.length ?? 0) > 0;
  if (hibernatePolicy === "release" && hasMore)
    report("spec.hibernatePolicy", "hibernatePolicy=release requires agent.replicas=0 and no toolboxes");
}

/** Empty is "not set". */
function isAmong(text: string, values: readonly string[]): boolean {
  return text === "" || values.includes(text);
}

function quoted(text: string): string {
  return JSON.stringify(text.length > 256 ? `${text.slice(0, 256)}…` : text);
}

function isPort(value: number): boolean {
  return value >= 0 && value <= 65_535;
}

/** Texts that Go reads as a signed 64-bit integer. */
function isInteger(text: string): boolean {
  if (!/^[+-]?\d+$/.test(text)) return false;
  const value = BigInt(text.replace(/^\+/, ""));
  return value >= -(2n ** 63n) && value < 2n ** 63n;
}
