/** Machines and views of them for tables of plans. */
import { readVmSpec, type VmSpec } from "@cocoon/contract";
import type { Machine } from "../machine.ts";
import type { Seen } from "../provider/plan.ts";

export function machine(more: Partial<Machine>, vm: Partial<VmSpec> = {}): Machine {
  return {
    vm: { ...readVmSpec({}), vmName: "vk-demo", managed: true, ...vm },
    mode: "run",
    cloneFromDir: "",
    sleep: false,
    restoreMarked: false,
    keepSnapshot: false,
    snapshotOnDelete: false,
    generation: 1,
    lifecycle: { state: "", observedGeneration: 0, message: "" },
    vmId: "",
    ip: "",
    recordedDigest: "",
    probePort: undefined,
    ...more,
  };
}

export function seen(more: Partial<Seen>): Seen {
  return {
    machine: machine({}),
    node: "here",
    vm: undefined,
    local: undefined,
    tag: undefined,
    sealedDigest: undefined,
    fromNodeFenced: false,
    hasRegistry: true,
    freezes: true,
    savedNow: undefined,
    ...more,
  };
}
