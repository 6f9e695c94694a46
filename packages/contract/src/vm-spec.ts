/** The VM spec that the operator or webhook gives the kubelet as annotations. Read on every pod event, so by hand. */
import { formatQuantity, tryParseQuantity } from "@cocoon/core/quantity";
import { readFlag, readText, type Annotations, type WriteOptions } from "./annotations.ts";
import type { AgentSpec, ToolboxSpec } from "./machine-spec.ts";
import { annotation, legacyAnnotation } from "./keys.ts";
import type { SnapshotPolicy } from "./snapshot-policy.ts";

/** Raw texts: no default is applied and nothing is checked, so that a foreign writer's value is seen as it is. */
export interface VmSpec {
  readonly vmName: string;
  readonly image: string;
  readonly mode: string;
  readonly os: string;
  readonly storage: string;
  readonly network: string;
  readonly snapshotPolicy: string;
  readonly forkFrom: string;
  readonly connType: string;
  readonly backend: string;
  readonly probePort: string;
  readonly managed: boolean;
  readonly forcePull: boolean;
  readonly noDirectIo: boolean;
}

export function readVmSpec(annotations: Annotations): VmSpec {
  const older = legacyAnnotation;
  return {
    vmName: readText(annotations, annotation.vmName, older.vmName),
    image: readText(annotations, annotation.image, older.image),
    mode: readText(annotations, annotation.mode, older.mode),
    os: readText(annotations, annotation.os, older.os),
    storage: readText(annotations, annotation.storage, older.storage),
    network: readText(annotations, annotation.network, older.network),
    snapshotPolicy: readText(annotations, annotation.snapshotPolicy, older.snapshotPolicy),
    forkFrom: readText(annotations, annotation.forkFrom, older.forkFrom),
    connType: readText(annotations, annotation.connType),
    backend: readText(annotations, annotation.backend),
    probePort: readText(annotations, annotation.probePort),
    managed: readFlag(annotations, annotation.managed, older.managed),
    forcePull: readFlag(annotations, annotation.forcePull),
    noDirectIo: readFlag(annotations, annotation.noDirectIo),
  };
}

type TextField = { [Field in keyof VmSpec]: VmSpec[Field] extends string ? Field : never }[keyof VmSpec];
type FlagField = Exclude<keyof VmSpec, TextField>;

const textFields: readonly TextField[] = [
  "vmName",
  "image",
  "mode",
  "os",
  "storage",
  "network",
  "snapshotPolicy",
  "forkFrom",
  "connType",
  "backend",
  "probePort",
];
const flagFields: readonly FlagField[] = ["managed", "forcePull", "noDirectIo"];

/** The annotations to merge into a pod's. Empty texts and false are left out: merging never clears a key. */
export function writeVmSpec(spec: Partial<VmSpec>, options: WriteOptions = {}): Record<string, string> {
  const written: Record<string, string> = {};
  for (const field of textFields) write(field, spec[field] ?? "");
  for (const field of flagFields) write(field, spec[field] === true ? "true" : "");
  return written;

  function write(field: keyof VmSpec, value: string): void {
    if (value === "") return;
    written[annotation[field]] = value;
    if (options.legacyKeys && field in legacyAnnotation)
      written[legacyAnnotation[field as keyof typeof legacyAnnotation & keyof VmSpec]] = value;
  }
}

export interface AgentVm {
  readonly agent: AgentSpec;
  readonly vmName: string;
  readonly snapshotPolicy: SnapshotPolicy;
  readonly forkFrom?: string;
}

export function buildAgentVmSpec({ agent, vmName, snapshotPolicy, forkFrom = "" }: AgentVm): VmSpec {
  return { ...readOptions(agent), vmName, snapshotPolicy, forkFrom, mode: agent.mode, managed: true };
}

export interface ToolboxVm {
  readonly toolbox: ToolboxSpec;
  readonly vmName: string;
  readonly snapshotPolicy: SnapshotPolicy;
}

/** A static toolbox is not managed here: it is adopted, never made or destroyed. */
export function buildToolboxVmSpec({ toolbox, vmName, snapshotPolicy }: ToolboxVm): VmSpec {
  const managed = toolbox.mode !== "static";
  return { ...readOptions(toolbox), vmName, snapshotPolicy, forkFrom: "", mode: toolbox.mode, managed };
}

function readOptions(options: AgentSpec | ToolboxSpec) {
  return {
    image: options.image ?? "",
    os: options.os,
    storage: storageText(options.storage),
    network: options.network ?? "",
    connType: options.connType ?? "",
    backend: options.backend,
    probePort: portText(options.probePort),
    forcePull: options.forcePull ?? false,
    noDirectIo: options.noDirectIO ?? false,
  };
}

function portText(port: number | undefined): string {
  return port !== undefined && port > 0 ? String(port) : "";
}

/** The text that the Go operator would write, so that neither side sees a change where there is none. */
function storageText(storage: string | number | undefined): string {
  if (storage === undefined) return "";
  const quantity = tryParseQuantity(storage);
  return quantity === undefined ? String(storage) : formatQuantity(quantity);
}

/** What the annotations of a machine's pod leave out of its spec. The mode stays open: the registry knows what the image is. */
export function completeVmSpec(annotations: Annotations, image: string): Record<string, string> {
  const spec = readVmSpec(annotations);
  const isManaged = spec.mode !== "static" && annotations?.[annotation.managed] === undefined;
  return {
    ...(spec.image === "" && image !== "" ? { [annotation.image]: image } : {}),
    ...(isManaged ? { [annotation.managed]: "true" } : {}),
    ...(spec.os === "" ? { [annotation.os]: "linux" } : {}),
  };
}
