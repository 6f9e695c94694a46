/** A CocoonSet as it arrives: any text anywhere, nothing filled in. Types must be right, values are judged later. */
import type { JsonObject } from "@cocoon/kube/admission";
import { ObjectReader } from "./object-reader.ts";

interface VmShape {
  readonly image: string;
  readonly mode: string;
  readonly os: string;
  readonly backend: string;
  readonly connType: string;
  readonly probePort: number | undefined;
  readonly storage: string | number | undefined;
}

interface SourceShape {
  readonly namespace: string;
  readonly set: string;
  readonly slot: number;
}

export interface AgentShape extends VmShape {
  readonly replicas: number | undefined;
  readonly from: SourceShape | undefined;
}

export interface ToolboxShape extends VmShape {
  readonly name: string;
  readonly staticIP: string;
  readonly staticVMID: string;
  readonly awaitAddress: boolean | undefined;
}

export interface SpecShape {
  readonly suspend: boolean | undefined;
  readonly snapshotPolicy: string;
  readonly hibernatePolicy: string;
  readonly nodePool: string;
  readonly nodeName: string;
  readonly snapshotCompatibilityClass: string | undefined;
  readonly agent: AgentShape | undefined;
  readonly toolboxes: readonly ToolboxShape[] | undefined;
}

export type ReadSet =
  | { readonly kind: "value"; readonly name: string; readonly spec: SpecShape }
  | { readonly kind: "fault"; readonly message: string };

export function readSet(object: JsonObject | undefined): ReadSet {
  if (!object) return { kind: "fault", message: "object: must be an object" };
  const reader = new ObjectReader(object);
  const metadata = reader.object("metadata");
  metadata?.maybeText("namespace");
  const name = metadata?.text("name") ?? "";
  const spec = readSpec(reader.object("spec") ?? nothing);
  const { problem } = reader;
  return problem === undefined ? { kind: "value", name, spec } : { kind: "fault", message: problem };
}

const nothing = new ObjectReader({});

function readSpec(spec: ObjectReader): SpecShape {
  const agent = spec.object("agent");
  return {
    suspend: spec.flag("suspend"),
    snapshotPolicy: spec.text("snapshotPolicy"),
    hibernatePolicy: spec.text("hibernatePolicy"),
    nodePool: spec.text("nodePool"),
    nodeName: spec.text("nodeName"),
    snapshotCompatibilityClass: spec.maybeText("snapshotCompatibilityClass"),
    agent: agent && readAgent(agent),
    toolboxes: spec.objects("toolboxes")?.map(readToolbox),
  };
}

function readAgent(agent: ObjectReader): AgentShape {
  const from = agent.object("from");
  return { ...readVm(agent), replicas: agent.integer("replicas"), from: from && readSource(from) };
}

function readSource(from: ObjectReader): SourceShape {
  return { namespace: from.text("namespace"), set: from.text("set"), slot: from.integer("slot") ?? 0 };
}

export const emptyAgent: AgentShape = readAgent(nothing);

function readToolbox(toolbox: ObjectReader): ToolboxShape {
  toolbox.integer("vncPort");
  return {
    ...readVm(toolbox),
    name: toolbox.text("name"),
    staticIP: toolbox.text("staticIP"),
    staticVMID: toolbox.text("staticVMID"),
    awaitAddress: toolbox.flag("awaitAddress"),
  };
}

/** What is only looked at for its type is read and dropped. */
function readVm(vm: ObjectReader): VmShape {
  vm.maybeText("network");
  vm.flag("forcePull");
  vm.flag("noDirectIO");
  const resources = vm.object("resources");
  for (const amounts of [resources?.object("limits"), resources?.object("requests")])
    for (const field of amounts?.fields() ?? []) amounts?.amount(field);
  return {
    image: vm.text("image"),
    mode: vm.text("mode"),
    os: vm.text("os"),
    backend: vm.text("backend"),
    connType: vm.text("connType"),
    probePort: vm.integer("probePort"),
    storage: vm.amount("storage"),
  };
}
