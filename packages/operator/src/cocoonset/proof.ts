/** Whether a sleeping machine's copy is really in the registry: asked once per sleep, then remembered in the status. */
import type { Machine } from "../pod-machine.ts";
import type { Draft } from "./draft.ts";

/** True when it is proven. What is not proven is not remembered, so that an older proof never stands for a newer sleep. */
export function proveAsleep(draft: Draft, machine: Machine): boolean {
  const { vmName } = machine.vm;
  const remembered = draft.remembered.get(vmName);
  const known = remembered?.asleep ? remembered.snapshotDigest : "";
  if (known !== "" && (machine.recordedDigest === "" || machine.recordedDigest === known)) return true;
  draft.digests.delete(vmName);
  const tag = draft.tag(vmName);
  if (!tag) return false;
  if (tag.kind === "absent") {
    draft.problem(
      "SnapshotMissing",
      `${machine.podName} reports that it sleeps, but ${vmName}:hibernate is not there`,
    );
    return false;
  }
  if (machine.recordedDigest !== "" && machine.recordedDigest !== tag.digest) {
    draft.problem(
      "SnapshotMismatch",
      `${machine.podName} sleeps in ${machine.recordedDigest}, but ${vmName}:hibernate names ${tag.digest}`,
    );
    return false;
  }
  draft.digests.set(vmName, tag.digest);
  return true;
}
