/** wire: VMs and snapshots as the `cocoon` command and its archives write them. */
export { writeEnvelope, writeSnapshotJson, readEnvelope } from "./snapshot-json.ts";
export { writeVmJson, keptLabels } from "./vm-json.ts";
