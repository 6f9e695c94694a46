/** Machines that begin as copies: of a running sandbox, or of a snapshot. */
import { hibernateTag, type CocoonSetSpecInput } from "@cocoon/contract";
import type { Snapshot } from "./read-snapshot.ts";
import type { Sandbox } from "./sandbox.ts";
import { buildSetSpec, type Template } from "./templates.ts";

/** A machine that goes on from where the sandbox's machine is now. */
export function buildForkSpec(sandbox: Sandbox, template: Template): CocoonSetSpecInput {
  const spec = buildSetSpec(template);
  const nodeName = sandbox.set.status?.agents?.[0]?.nodeName;
  return {
    ...spec,
    ...(nodeName ? { nodeName } : {}),
    agent: { ...spec.agent, mode: "run", forkFrom: { set: sandbox.id } },
  };
}

/** A machine that starts from the snapshot. */
export function buildCloneSpec({ name, template }: Snapshot): CocoonSetSpecInput {
  const spec = buildSetSpec(template);
  return {
    ...spec,
    agent: { ...spec.agent, mode: "clone", from: { set: name, slot: 0, tag: hibernateTag } },
  };
}
