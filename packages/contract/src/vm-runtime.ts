/** What the kubelet reports about a running machine; pre-seeded by the operator for static toolboxes. */
import { readText, type Annotations, type WriteOptions } from "./annotations.ts";
import { annotation, legacyAnnotation } from "./keys.ts";

export interface VmRuntime {
  readonly vmId: string;
  readonly ip: string;
  readonly vncPort: number;
}

const maxInt32 = 2 ** 31 - 1;

/** A port that is malformed, or too large for int32, reads as none. */
export function readVmRuntime(annotations: Annotations): VmRuntime {
  const port = readText(annotations, annotation.vncPort, legacyAnnotation.vncPort);
  return {
    vmId: readText(annotations, annotation.vmId, legacyAnnotation.vmId),
    ip: readText(annotations, annotation.ip, legacyAnnotation.ip),
    vncPort: readPort(port),
  };
}

function readPort(text: string): number {
  if (!/^[+-]?\d{1,10}$/.test(text)) return 0;
  const port = Number(text);
  return Math.abs(port) <= maxInt32 ? port : 0;
}

/** The annotations to merge: what is empty, and ports of 0 and below, are left out. */
export function writeVmRuntime(
  runtime: Partial<VmRuntime>,
  options: WriteOptions = {},
): Record<string, string> {
  const port = runtime.vncPort ?? 0;
  const values = { vmId: runtime.vmId ?? "", ip: runtime.ip ?? "", vncPort: port > 0 ? String(port) : "" };
  const written: Record<string, string> = {};
  for (const field of ["vmId", "ip", "vncPort"] as const) {
    if (values[field] === "") continue;
    written[annotation[field]] = values[field];
    if (options.legacyKeys) written[legacyAnnotation[field]] = values[field];
  }
  return written;
}

/** What a machine that is gone must no longer show: null removes a key in a merge patch. */
export function clearedVmRuntime(): Record<string, null> {
  const fields = ["vmId", "ip"] as const;
  return Object.fromEntries(
    fields.flatMap((field) => [
      [annotation[field], null],
      [legacyAnnotation[field], null],
    ]),
  );
}
