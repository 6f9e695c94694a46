/** `/validate-cocoonset`: every rule that the set breaks, in one answer. */
import { claimOfSet, nameTroublesOfSet } from "@cocoon/contract";
import type { FieldCause } from "@cocoon/core";
import { allow, type AdmissionRequest } from "@cocoon/kube/admission";
import { isDeepStrictEqual } from "node:util";
import { violationsOf } from "./cocoonset-rules.ts";
import { emptyAgent, emptySpec, setShape, type SpecShape } from "./cocoonset-shape.ts";
import { decodeWith } from "./decode.ts";
import { allowed, deniedWith, failed, skipped, type Judgement } from "./judgement.ts";
import { normalSpec } from "./normal-spec.ts";

export interface SetRules {
  /** Who else holds names that the set would have; one text each. */
  readonly collisions: (claim: ReturnType<typeof claimOfSet>) => readonly string[];
  /** What will keep the set from running, as things are now: pools and nodes that do not exist. */
  readonly doubtsAbout: (spec: SpecShape) => readonly string[];
}

export function validateSets(rules: SetRules) {
  return (request: AdmissionRequest): Judgement => {
    if (request.operation !== "CREATE" && request.operation !== "UPDATE") return skipped("operation");
    const decoded = decodeWith(setShape, request.object);
    if (decoded.kind === "fault") return failed("decode", `decode CocoonSet: ${decoded.message}`);
    if (request.operation === "UPDATE" && isUnchanged(request)) return skipped("no_change");
    const spec = decoded.value.spec ?? emptySpec;
    const name = decoded.value.metadata?.name || request.name;
    const causes = [
      ...violationsOf(spec),
      ...immutableViolations(request, spec),
      ...nameViolations({ namespace: request.namespace, name }, spec, rules),
    ];
    if (causes.length > 0) return refuse(causes);
    const warnings = rules.doubtsAbout(spec);
    return allowed(warnings.length === 0 ? allow() : allow({ warnings }));
  };
}

/** Sets that newer rules would refuse must stay deletable: what does not touch the spec passes. */
function isUnchanged({ object, oldObject }: AdmissionRequest): boolean {
  if (!oldObject) return false;
  return isDeepStrictEqual(normalSpec(object?.["spec"]), normalSpec(oldObject["spec"]));
}

function refuse(causes: readonly FieldCause[]): Judgement {
  const message = `cocoon-webhook: invalid CocoonSet spec: ${causes.map((cause) => cause.message).join("; ")}`;
  return deniedWith({ kind: "deny", code: 403, reason: "Forbidden", message, causes });
}

/** Written so that it only names what is new: a set that breaks a name rule already may still be changed. */
function nameViolations(
  key: { readonly namespace: string; readonly name: string },
  { agent, toolboxes }: SpecShape,
  { collisions }: SetRules,
): FieldCause[] {
  const names = (toolboxes ?? []).map((toolbox) => toolbox.name).filter((name) => name !== "");
  const replicas = Math.max(0, agent?.replicas ?? emptyAgent.replicas ?? 0);
  const field = "metadata.name";
  const troubles = nameTroublesOfSet({ ...key, replicas, toolboxes: names });
  const own = troubles.filter((text) => !/RFC 1123|purely numeric/.test(text)); // told already, in known words
  const claim = claimOfSet({ ...key, toolboxes: names });
  return [...own, ...collisions(claim)].map((message) => ({ field, message }));
}

function immutableViolations({ oldObject }: AdmissionRequest, spec: SpecShape): FieldCause[] {
  const old = oldObject ? decodeWith(setShape, oldObject) : undefined;
  const before = old?.kind === "value" ? old.value.spec?.snapshotCompatibilityClass : undefined;
  if (before === undefined || before === null || before === spec.snapshotCompatibilityClass) return [];
  const message = "snapshotCompatibilityClass is immutable once set";
  return [{ field: "spec.snapshotCompatibilityClass", message }];
}
